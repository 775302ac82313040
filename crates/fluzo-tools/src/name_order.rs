//! The order of names in listings: as people sort them, without regard to case.
//!
//! It follows the root collation of Unicode where file names need it: punctuation and
//! symbols come before digits, digits before letters, and an accent counts only between
//! names that are otherwise equal. Letters of other scripts follow by code point.

use std::cmp::Ordering;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Characters before the digits, first to last.
const BEFORE_DIGITS: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Compares two names.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    keys(a).cmp(keys(b)).then_with(|| a.cmp(b))
}

fn keys(name: &str) -> impl Iterator<Item = (u8, u32)> {
    let lower = name.chars().flat_map(char::to_lowercase);
    lower
        .nfd()
        .filter(|&c| !is_combining_mark(c))
        .map(|c| match BEFORE_DIGITS.find(c) {
            Some(rank) => (0, u32::try_from(rank).unwrap_or(u32::MAX)),
            None if c.is_ascii_digit() => (2, u32::from(c)),
            None if c.is_alphanumeric() => (3, u32::from(c)),
            None => (1, u32::from(c)),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_digits_letters_without_case() {
        let sorted = [
            "_a",
            "-x",
            ".gitignore",
            ".hidden",
            "~z",
            "$v",
            "1",
            "10",
            "2",
            "a.txt",
            "B",
            "b.rs",
            "e",
            "\u{e9}cran",
            "ez",
            "Z",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, sorted);
    }
}
