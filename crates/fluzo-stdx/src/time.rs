//! Time stamps: Unix milliseconds in messages, ISO 8601 in UTC in entries.

use jiff::Timestamp;

/// Formats Unix milliseconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
///
/// A value outside the representable range is clamped to it.
pub fn iso_utc(unix_ms: i64) -> String {
    let limit = |ms: i64| Timestamp::from_millisecond(ms).ok();
    let time = limit(unix_ms).unwrap_or(if unix_ms < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    });
    format!("{time:.3}")
}

/// Reads an ISO 8601 time stamp as Unix milliseconds; `None` when it is none.
pub fn parse_iso(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(|t| t.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_with_exactly_three_decimals() {
        assert_eq!(iso_utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_utc(1_790_000_000_120), "2026-09-21T14:13:20.120Z");
    }

    #[test]
    fn reads_back_what_it_wrote() {
        for ms in [0, 1, 999, 1_790_000_000_123] {
            assert_eq!(parse_iso(&iso_utc(ms)), Some(ms));
        }
        assert_eq!(parse_iso("yesterday"), None);
    }

    #[test]
    fn clamps_instead_of_failing() {
        assert!(iso_utc(i64::MAX).ends_with('Z'));
        assert!(iso_utc(i64::MIN).ends_with('Z'));
    }
}
