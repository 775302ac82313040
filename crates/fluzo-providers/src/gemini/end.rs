//! How a response ended, by the reason that the server gives.
//!
//! The reasons are those of `FinishReason` and `BlockReason` in the public reference.

use fluzo_llm::{StopReason, StreamError, StreamErrorKind};

/// Accidents of one answer: the same request may well succeed.
const ACCIDENTS: &[&str] = &[
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
];

/// The request is at fault.
const FAULTS: &[&str] = &["MISSING_THOUGHT_SIGNATURE"];

/// What the finish reason `finish` means. `message` is what the server says of it.
///
/// # Errors
///
/// When the reason is none of a whole answer, with its name in the text.
pub(crate) fn stop_reason(
    finish: &str,
    message: Option<&str>,
    calls: bool,
) -> Result<StopReason, StreamError> {
    let kind = match finish {
        "STOP" | "MAX_TOKENS" if calls => return Ok(StopReason::ToolUse),
        // Words outside the API, of servers that imitate it.
        "FUNCTION_CALL" | "TOOL_CALL" | "TOOL_CALLS" if calls => return Ok(StopReason::ToolUse),
        "STOP" => return Ok(StopReason::Stop),
        "MAX_TOKENS" => return Ok(StopReason::Length),
        name if ACCIDENTS.contains(&name) => StreamErrorKind::Transient,
        name if FAULTS.contains(&name) => StreamErrorKind::InvalidRequest,
        _ => StreamErrorKind::Refused,
    };
    Err(named("Provider finish_reason", kind, finish, message))
}

/// The error of a prompt that the server will not answer.
pub(crate) fn blocked(reason: &str, message: Option<&str>) -> StreamError {
    let kind = StreamErrorKind::Refused;
    named("Provider block_reason", kind, reason, message)
}

fn named(what: &str, kind: StreamErrorKind, reason: &str, message: Option<&str>) -> StreamError {
    let message = message.map_or_else(String::new, |message| format!(": {message}"));
    StreamError::new(kind, format!("{what}: {reason}{message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let rows = [
            ("STOP", false, "stop"),
            ("STOP", true, "toolUse"),
            ("MAX_TOKENS", false, "length"),
            ("MAX_TOKENS", true, "toolUse"),
            ("FUNCTION_CALL", true, "toolUse"),
            (
                "FUNCTION_CALL",
                false,
                "Provider finish_reason: FUNCTION_CALL: m Refused",
            ),
            ("SAFETY", true, "Provider finish_reason: SAFETY: m Refused"),
            (
                "RECITATION",
                false,
                "Provider finish_reason: RECITATION: m Refused",
            ),
            (
                "PROHIBITED_CONTENT",
                false,
                "Provider finish_reason: PROHIBITED_CONTENT: m Refused",
            ),
            (
                "MALFORMED_FUNCTION_CALL",
                true,
                "Provider finish_reason: MALFORMED_FUNCTION_CALL: m Transient",
            ),
            (
                "UNEXPECTED_TOOL_CALL",
                false,
                "Provider finish_reason: UNEXPECTED_TOOL_CALL: m Transient",
            ),
            (
                "MISSING_THOUGHT_SIGNATURE",
                false,
                "Provider finish_reason: MISSING_THOUGHT_SIGNATURE: m InvalidRequest",
            ),
            (
                "NEW_ONE",
                false,
                "Provider finish_reason: NEW_ONE: m Refused",
            ),
        ];
        for (finish, calls, expected) in rows {
            let shown = match stop_reason(finish, Some("m"), calls) {
                Ok(reason) => reason.as_str().to_owned(),
                Err(error) => format!("{} {:?}", error.message, error.kind),
            };
            assert_eq!(shown, expected);
        }
        assert_eq!(
            blocked("OTHER", None).message,
            "Provider block_reason: OTHER"
        );
    }
}
