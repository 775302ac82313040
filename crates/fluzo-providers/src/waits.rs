//! How long a server asks to wait: in headers, in fields of an error, or in its words.

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::details;

/// Limits that are counted apart from each other: what remains, and when it is full again.
const LIMITS: &[(&str, &str)] = &[
    (
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    (
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ),
    (
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ),
    (
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
];

/// Fields of an error with a wait in seconds.
const SECONDS: &[&str] = &[
    "/retry_after_seconds",
    "/retry_after",
    "/retryAfter",
    "/resets_in_seconds",
    "/metadata/retry_after_seconds",
    "/metadata/retry_after",
];

/// Fields of an error with the time at which it is over.
const TIMES: &[&str] = &[
    "/resets_at",
    "/reset_at",
    "/metadata/headers/X-RateLimit-Reset",
    "/metadata/headers/x-ratelimit-reset",
];

/// Words before a wait.
const WORDS: &[&str] = &[
    "try again in ",
    "try again after ",
    "retry in ",
    "retry after ",
    "retrying in ",
    "retry your request after ",
    "available again in ",
    "resets in ",
    "reset in ",
    "please wait ",
    "wait for ",
];

/// Numbers from here on are seconds since 1970, not seconds to wait.
const EPOCH_SECONDS: f64 = 1e8;
/// The same in milliseconds.
const EPOCH_MS: f64 = 1e11;

/// The wait of a response that names one for itself, in milliseconds. `now` is our clock, which
/// counts where the server does not say what it reads.
pub(crate) fn of_headers(headers: &HeaderMap, now: i64) -> Option<u64> {
    if let Some(ms) = text(headers, "retry-after-ms").and_then(positive) {
        return Some(to_ms(ms / 1000.0));
    }
    let value = text(headers, "retry-after")?;
    if let Some(seconds) = positive(value) {
        return Some(to_ms(seconds));
    }
    Some(until(parse_http_date(value)?, server_now(headers, now)))
}

/// The wait until the limits that are used up are full again, in milliseconds. These headers
/// come with every response and say something only where a limit was hit.
pub(crate) fn of_limits(headers: &HeaderMap, now: i64) -> Option<u64> {
    let now = server_now(headers, now);
    let used_up = LIMITS
        .iter()
        .filter(|(remaining, _)| text(headers, remaining).and_then(positive) == Some(0.0));
    used_up
        .filter_map(|(_, reset)| reset_of(text(headers, reset)?, now))
        .max()
}

/// The wait that the error object names, in milliseconds.
pub(crate) fn of_error(error: &Value, now: i64) -> Option<u64> {
    let number = |place: &&str| match error.pointer(place)? {
        Value::Number(number) => number.as_f64().filter(|s| *s >= 0.0),
        Value::String(text) => positive(text),
        _ => None,
    };
    let delay = || details::retry_delay(error).filter(|s| s.is_finite() && *s >= 0.0);
    let seconds = SECONDS.iter().find_map(number).or_else(delay);
    seconds.map(to_ms).or_else(|| {
        TIMES.iter().find_map(|place| match error.pointer(place)? {
            Value::String(text) => reset_of(text, now),
            Value::Number(number) => reset_of(&number.to_string(), now),
            _ => None,
        })
    })
}

/// The wait that `message` tells in words, in milliseconds.
pub(crate) fn of_prose(message: &str) -> Option<u64> {
    let text = message.to_ascii_lowercase();
    WORDS.iter().find_map(|words| {
        text.match_indices(words)
            .find_map(|(at, _)| duration(&text[at + words.len()..]))
    })
}

/// A reset: a time, a number of seconds since 1970 or from now, or a duration such as `6m0s`.
fn reset_of(value: &str, now: i64) -> Option<u64> {
    if let Some(number) = positive(value) {
        #[allow(clippy::cast_possible_truncation)]
        return Some(match number {
            n if n >= EPOCH_MS => until(n as i64, now),
            n if n >= EPOCH_SECONDS => until((n * 1000.0) as i64, now),
            seconds => to_ms(seconds),
        });
    }
    if let Some(at) = fluzo_stdx::time::parse_iso(value) {
        return Some(until(at, now));
    }
    duration(value)
}

/// A duration at the start of `text`: numbers with units, such as `1h2m3.5s` or `20 seconds`;
/// a number without a unit counts seconds.
fn duration(text: &str) -> Option<u64> {
    let (mut rest, mut seconds, mut units) = (text, 0.0, 0);
    while let Some((number, after)) = number(rest) {
        let word = after.trim_start_matches(' ');
        let end = word.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, next) = word.split_at(end.unwrap_or(word.len()));
        let Some(factor) = factor(unit) else {
            // Only the first number may stand alone.
            return (units == 0).then(|| to_ms(number));
        };
        (seconds, units) = (seconds + number * factor, units + 1);
        rest = next.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    (units > 0).then(|| to_ms(seconds))
}

fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    // A full stop may end the sentence.
    let number = positive(digits.trim_end_matches('.'))?;
    Some((number, rest))
}

fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The server's own clock, when it says what it reads.
fn server_now(headers: &HeaderMap, now: i64) -> i64 {
    text(headers, "date")
        .and_then(parse_http_date)
        .unwrap_or(now)
}

fn until(at: i64, now: i64) -> u64 {
    u64::try_from(at.saturating_sub(now)).unwrap_or(0)
}

fn positive(text: &str) -> Option<f64> {
    text.parse::<f64>()
        .ok()
        .filter(|n| n.is_finite() && *n >= 0.0)
}

fn to_ms(seconds: f64) -> u64 {
    // Saturates; fractions of a millisecond do not matter.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let ms = (seconds * 1000.0 - 1e-6).ceil() as u64;
    ms
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT` as Unix milliseconds.
fn parse_http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    if words.next()? != "GMT" {
        return None;
    }
    fluzo_stdx::time::parse_iso(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_words() {
        let rows = [
            ("Please try again in 1.5s. Visit the docs", Some(1500)),
            ("Please try again in 6m0s.", Some(360_000)),
            ("Please try again in 2m59.56s", Some(179_560)),
            ("try again in 320ms", Some(320)),
            ("Please retry after 20 seconds.", Some(20_000)),
            ("retry after 7", Some(7000)),
            ("Please retry in 29.536786s.", Some(29_537)),
            ("Try again in 5 minutes", Some(300_000)),
            ("Try again in 1 hour and 2 minutes", Some(3_720_000)),
            ("try again in 1h2m3s", Some(3_723_000)),
            (
                "Please wait 85690 seconds before retrying.",
                Some(85_690_000),
            ),
            ("retry your request after 2 days", Some(172_800_000)),
            ("Please try again in a moment", None),
            ("try again in", None),
            ("try again in 5 apples", Some(5000)),
            ("limit 50 per 86400s exceeded", None),
            ("please wait a while, then retry after 3s", Some(3000)),
            ("try again in .", None),
            ("try again in 99999999999999999999999999s", Some(u64::MAX)),
        ];
        for (text, expected) in rows {
            assert_eq!(of_prose(text), expected, "{text}");
        }
    }

    #[test]
    fn resets() {
        const NOW: i64 = 1_700_000_000_000;
        let rows = [
            ("6m0s", Some(360_000)),
            ("7.66s", Some(7660)),
            ("12ms", Some(12)),
            ("30", Some(30_000)),
            ("1700000060", Some(60_000)),
            ("1700000060000", Some(60_000)),
            ("1600000000", Some(0)),
            ("2023-11-14T22:13:50Z", Some(30_000)),
            ("", None),
            ("soon", None),
        ];
        for (value, expected) in rows {
            assert_eq!(reset_of(value, NOW), expected, "{value}");
        }
    }
}
