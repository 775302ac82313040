//! What sort of failure an error is, from its status and its text.
//!
//! The tables are data. Their patterns are case-insensitive: `*` stands for any text, `#`
//! for digits with or without commas, `?` for one character or none, and `^` at the start
//! for the beginning of the text; everything else stands for itself anywhere in it.

use fluzo_llm::StreamErrorKind;

/// Used-up allowances: waiting does not help.
const QUOTA: &[&str] = &[
    "gousagelimiterror",
    "freeusagelimiterror",
    "monthly usage limit reached",
    "available balance",
    "insufficient_quota",
    "insufficient balance",
    "insufficient credits",
    "credit balance is too low",
    "more credits",
    "insufficient funds",
    "usage limit has been reached",
    "usage_limit_reached",
    "quota_exceeded",
    "exceeded your monthly",
    "weekly usage limit",
    "used all available credits",
    "spending limit",
    "out of budget",
    "quota exceeded",
    "exceeded your current quota",
    "billing",
];

/// The server has no room at this moment, for the model or for one more request.
const CAPACITY: &[&str] = &[
    "at capacity",
    "over capacity",
    "over_capacity",
    "no capacity",
    "not enough capacity",
    "insufficient capacity",
    "capacity exceeded",
    "capacity_exceeded",
    "capacity constraints",
    "out of capacity",
    "capacity is currently exhausted",
    "no available slots",
    "no slots available",
    "no slot available",
    "no available instances",
    "no instances available",
    "no instances are available",
    "no available workers",
    "queue_exceeded",
    "queue is full",
    "queue full",
    "queue exceeded",
    "too many requests in queue",
    "maximum pending requests exceeded",
    "capacity temporarily exceeded",
    "at maximum capacity",
    "insufficient_system_resource",
];

/// Texts that resemble an overflow and are none.
const NOT_OVERFLOW: &[&str] = &[
    "^throttling error:",
    "^service unavailable:",
    "rate limit",
    "too many requests",
    "throttlingexception",
];

/// The request does not fit the context window.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "exceeds the limit of #",
    "exceeds the available context size",
    "exceed context limit: #",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "model_context_window_exceeded",
    "prompt too long; exceeded context length",
    "prompt too long; exceeded max context length",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
    "^400 status code (no body)",
    "^413 status code (no body)",
    "^400 (no body)",
    "^413 (no body)",
    "exceeds maximum context length of #",
    "exceeds the maximum context length of #",
    "exceeds model's maximum context length of #",
    "exceeds the model's maximum context length of #",
    "exceeds the models maximum context length of #",
    "exceeds maximum allowed input length of #",
    "exceeds the maximum allowed input length of #",
    "input (# tokens) is longer than the model?s context length (# tokens)",
    "tokens_limit_reached",
    "prompt exceeds max length",
    "range of input length should be",
    "`max_new_tokens` must be <= #",
    "exceed_context_size_error",
];

/// Wrong or missing keys that some servers report with a status for bad requests.
const AUTHENTICATION: &[&str] = &[
    "invalid api key",
    "invalid_api_key",
    "invalid x-api-key",
    "no auth credentials",
    "unauthorized",
    "incorrect api key",
    "api key not valid",
    "api key expired",
    "api_key_invalid",
    "authentication_error",
];

/// Too many requests in a short time.
const RATE_LIMIT: &[&str] = &["rate?limit", "too many requests", "^429", "retry delay"];

/// Failures that may pass, for errors that came without a status.
const TRANSIENT: &[&str] = &[
    "overloaded",
    "provider?returned?error",
    "500",
    "502",
    "503",
    "504",
    "service?unavailable",
    "server?error",
    "internal?error",
    "network?error",
    "connection?error",
    "connection?refused",
    "connection?lost",
    "websocket?closed",
    "websocket?error",
    "other side closed",
    "fetch failed",
    "upstream?connect",
    "reset before headers",
    "socket hang up",
    "ended without",
    "http2 request did not get a response",
    "timed out",
    "time out",
    "timeout",
    "terminated",
    "stream ended before message_stop",
];

/// Statuses that say what happened by themselves, first match first.
const STATUS: &[(std::ops::RangeInclusive<u16>, StreamErrorKind)] = &[
    (300..=399, StreamErrorKind::Redirect),
    (401..=401, StreamErrorKind::Authentication),
    (402..=402, StreamErrorKind::Quota),
    (403..=403, StreamErrorKind::Authentication),
    (407..=407, StreamErrorKind::Authentication),
    (408..=409, StreamErrorKind::Transient),
    (425..=425, StreamErrorKind::Transient),
    (429..=429, StreamErrorKind::RateLimit),
    (500..=599, StreamErrorKind::Transient),
];

/// The sort of failure of an error with `status`, when there is one, and `text`, in which
/// the error's codes and types may be included.
pub(crate) fn classify(status: Option<u16>, text: &str) -> StreamErrorKind {
    let text = text.to_lowercase();
    let any = |patterns: &[&str]| patterns.iter().any(|pattern| matches(&text, pattern));
    if any(QUOTA) {
        return StreamErrorKind::Quota;
    }
    if any(OVERFLOW) && !any(NOT_OVERFLOW) {
        return StreamErrorKind::Overflow;
    }
    let may_be_full = status.is_none_or(|status| matches!(status, 429 | 498 | 500..));
    if may_be_full && any(CAPACITY) {
        return StreamErrorKind::Capacity;
    }
    let Some(status) = status else {
        return match () {
            () if any(RATE_LIMIT) => StreamErrorKind::RateLimit,
            () if any(TRANSIENT) => StreamErrorKind::Transient,
            () if any(AUTHENTICATION) => StreamErrorKind::Authentication,
            () => StreamErrorKind::InvalidRequest,
        };
    };
    let row = STATUS
        .iter()
        .find(|(statuses, _)| statuses.contains(&status));
    match row {
        Some((_, kind)) => *kind,
        None if any(AUTHENTICATION) => StreamErrorKind::Authentication,
        None => StreamErrorKind::InvalidRequest,
    }
}

pub(crate) fn matches(text: &str, pattern: &str) -> bool {
    let (text, bytes) = (text.as_bytes(), pattern.as_bytes());
    match bytes.strip_prefix(b"^") {
        Some(rest) => matches_at(text, rest),
        None => (0..text.len()).any(|at| matches_at(&text[at..], bytes)),
    }
}

fn matches_at(text: &[u8], pattern: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return true;
    };
    match first {
        b'*' => (0..=text.len()).any(|at| matches_at(&text[at..], rest)),
        b'?' => matches_at(text, rest) || (!text.is_empty() && matches_at(&text[1..], rest)),
        b'#' => {
            let digits = text
                .iter()
                .take_while(|b| b.is_ascii_digit() || **b == b',')
                .count();
            (1..=digits).rev().any(|at| matches_at(&text[at..], rest))
        }
        byte => text.first() == Some(byte) && matches_at(&text[1..], rest),
    }
}

#[cfg(test)]
mod tests {
    use StreamErrorKind::{Authentication, InvalidRequest, Overflow, Quota, RateLimit, Transient};

    use super::*;

    fn check(rows: &[(Option<u16>, &str, StreamErrorKind)]) {
        for (status, text, kind) in rows {
            assert_eq!(classify(*status, text), *kind, "{status:?} {text}");
        }
    }

    #[test]
    fn overflow_texts() {
        let texts = [
            "prompt is too long: 213462 tokens > 200000 maximum",
            "413 request_too_large: Request exceeds the maximum size",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again",
            "Input is too long for requested model",
            "Your input exceeds the context window of this model",
            "The input token count (1196265) exceeds the maximum number of tokens allowed",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
            "Please reduce the length of the messages or completion",
            "This endpoint's maximum context length is 131072 tokens. However, you requested more",
            "prompt token count of 200000 exceeds the limit of 128000",
            "the request exceeds the available context size, try increasing it",
            "tokens to keep from the initial prompt is greater than the context length",
            "invalid params, context window exceeds limit",
            "Your request exceeded model token limit: 262144",
            "Prompt contains 1 tokens, too large for model with 32768 maximum context length",
            "model_context_window_exceeded",
            "prompt too long; exceeded max context length by 5 tokens",
            "prompt too long; exceeded context length",
            "context_length_exceeded",
            "context length exceeded",
            "Too many tokens",
            "token limit exceeded",
            "400 status code (no body)",
            "413 (no body)",
            "Input length 5 exceeds the maximum allowed input length of 4,096 tokens",
            "input exceeds the model's maximum context length of 131,072 tokens",
            "input (9 tokens) is longer than the model's context length (8 tokens)",
        ];
        for text in texts {
            check(&[(None, text, Overflow), (Some(400), text, Overflow)]);
        }
    }

    #[test]
    fn texts_that_only_look_like_an_overflow() {
        check(&[
            (
                None,
                "Throttling error: Too many tokens, please wait before trying again",
                InvalidRequest,
            ),
            (Some(503), "Service unavailable: too many tokens", Transient),
            (
                Some(429),
                "rate limit: too many tokens per minute",
                RateLimit,
            ),
            (Some(429), "Too many requests, too many tokens", RateLimit),
        ]);
    }

    #[test]
    fn failures_that_may_pass() {
        let texts = [
            "overloaded_error",
            "Provider returned error",
            "500 oops",
            "502",
            "503",
            "504",
            "service unavailable",
            "server_error",
            "internal error",
            "network_error",
            "connection error",
            "connection refused",
            "connection lost",
            "websocket closed",
            "websocket error",
            "other side closed",
            "fetch failed",
            "upstream connect error",
            "reset before headers",
            "socket hang up",
            "ended without finish",
            "http2 request did not get a response",
            "timed out",
            "timeout",
            "terminated",
        ];
        for text in texts {
            check(&[(None, text, Transient)]);
        }
        check(&[
            (Some(500), "", Transient),
            (Some(503), "overloaded", Transient),
            (Some(529), "overloaded", Transient),
            (Some(408), "", Transient),
            (None, "rate_limit_error", RateLimit),
            (None, "429 slow down", RateLimit),
            (Some(429), "slow down", RateLimit),
        ]);
    }

    #[test]
    fn used_up_allowances() {
        let texts = [
            "GoUsageLimitError",
            "FreeUsageLimitError",
            "Monthly usage limit reached",
            "available balance is 0",
            "insufficient_quota",
            "out of budget",
            "Quota exceeded for metric",
            "check your billing details",
        ];
        for text in texts {
            check(&[(Some(429), text, Quota), (None, text, Quota)]);
        }
        check(&[(Some(402), "pay", Quota)]);
    }

    #[test]
    fn refused_requests_and_keys() {
        check(&[
            (Some(400), "invalid message content", InvalidRequest),
            (Some(400), "max_tokens must be at most 500", InvalidRequest),
            (Some(404), "no such model", InvalidRequest),
            (Some(422), "timeout is not a field", InvalidRequest),
            (Some(401), "no", Authentication),
            (Some(403), "no", Authentication),
            (
                Some(400),
                "API key not valid. Please pass a valid API key.",
                Authentication,
            ),
            (
                Some(400),
                "API key expired. Please renew the API key.\nAPI_KEY_INVALID",
                Authentication,
            ),
        ]);
    }
}
