//! Notices below a result: what was left out, and how to get it.

use fluzo_stdx::size::format_size;
use fluzo_stdx::truncate::{TextLimits, Truncation, truncate_head};

/// The largest whole number that every JSON reader keeps exactly; stands for "no limit".
const NO_LIMIT: usize = (1 << 53) - 1;

/// Appends the notices, if any, as one bracket after an empty line.
pub(crate) fn append(text: &mut String, notices: &[String]) {
    if !notices.is_empty() {
        text.push_str("\n\n[");
        text.push_str(&notices.join(". "));
        text.push(']');
    }
}

/// `128.0KB limit reached`.
pub(crate) fn byte_limit_reached(max_bytes: usize) -> String {
    format!("{} limit reached", size(max_bytes))
}

/// Says that `limit` of `what` were found, and that there may be more.
pub(crate) fn count_limit_reached(limit: usize, what: &str) -> String {
    let more = limit.saturating_mul(2);
    format!("{limit} {what} limit reached. Use limit={more} for more, or refine pattern")
}

/// Says that some things could not be read, when there are any.
pub(crate) fn unreadable(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 file or folder could not be read".into()),
        n => Some(format!("{n} files or folders could not be read")),
    }
}

/// Says how many files ignore rules kept from being `handled`, when there are any; counting
/// stops at `bound`.
pub(crate) fn hidden(count: u64, bound: u64, handled: &str) -> Option<String> {
    let (files, were) = match count {
        0 => return None,
        1 => ("1 file".into(), "was"),
        n if n >= bound => (format!("{n} or more files"), "were"),
        n => (format!("{n} files"), "were"),
    };
    Some(format!(
        "{files} hidden by ignore rules {were} not {handled}"
    ))
}

/// The text of a search that found nothing: `first` as it is, then what may be the reason.
pub(crate) fn nothing(first: &str, hidden: Option<String>, unread: u64) -> String {
    let mut text = first.to_owned();
    for line in hidden.into_iter().chain(unreadable(unread)) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Keeps whole lines from the start, by bytes alone.
pub(crate) fn truncate_bytes(text: &str, max_bytes: usize) -> Truncation {
    let limits = TextLimits {
        max_lines: NO_LIMIT,
        max_bytes,
    };
    truncate_head(text, limits)
}

/// A byte count as notices show it.
pub(crate) fn size(bytes: usize) -> String {
    format_size(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_share_one_bracket() {
        let mut text = "x".to_owned();
        append(&mut text, &[]);
        assert_eq!(text, "x");
        append(
            &mut text,
            &[
                count_limit_reached(5, "matches"),
                byte_limit_reached(131_072),
            ],
        );
        assert_eq!(
            text,
            "x\n\n[5 matches limit reached. Use limit=10 for more, or refine pattern. 128.0KB limit reached]"
        );
    }

    #[test]
    fn counts() {
        let check = |text: Option<String>, expected: Option<&str>| {
            assert_eq!(text.as_deref(), expected);
        };
        for (count, expected) in [
            (0, None),
            (1, Some("1 file hidden by ignore rules was not listed")),
            (9, Some("9 files hidden by ignore rules were not listed")),
            (
                10,
                Some("10 or more files hidden by ignore rules were not listed"),
            ),
        ] {
            check(hidden(count, 10, "listed"), expected);
        }
        check(unreadable(0), None);
        check(unreadable(2), Some("2 files or folders could not be read"));
    }
}
