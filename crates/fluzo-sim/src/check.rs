//! Collecting broken rules, and the questions that the rules of several dialects ask.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::verdict::{Violation, ViolationKind};

/// Broken rules in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Found(Vec<Violation>);

impl Found {
    /// Notes that the rule is broken at `place`; an empty place is the request as a whole.
    pub(crate) fn fail(&mut self, kind: ViolationKind, place: &str, what: impl Display) {
        let message = if place.is_empty() {
            what.to_string()
        } else {
            format!("{place}: {what}")
        };
        self.0.push(Violation::new(kind, message));
    }

    /// Notes a broken rule unless it holds.
    pub(crate) fn unless(
        &mut self,
        holds: bool,
        kind: ViolationKind,
        place: &str,
        what: impl Display,
    ) {
        if !holds {
            self.fail(kind, place, what);
        }
    }

    /// Notes each key of an object that is not known.
    pub(crate) fn only_keys(
        &mut self,
        kind: ViolationKind,
        place: &str,
        object: &Value,
        known: &[&str],
    ) {
        for key in object.as_object().into_iter().flat_map(|map| map.keys()) {
            if !known.contains(&key.as_str()) {
                self.fail(kind, place, format_args!("unknown key `{key}`"));
            }
        }
    }

    pub(crate) fn into_list(self) -> Vec<Violation> {
        self.0
    }
}

/// The text under `key`.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The list under `key`, empty when there is none.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Letters, digits, `_` and `-`, at least one and at most `longest`.
pub(crate) fn is_name(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Standard base64 with padding, of at least one byte.
pub(crate) fn is_base64(text: &str) -> bool {
    STANDARD.decode(text).is_ok_and(|bytes| !bytes.is_empty())
}

/// A string that holds a JSON object.
pub(crate) fn is_object_text(value: Option<&Value>) -> bool {
    value
        .and_then(Value::as_str)
        .is_some_and(|text| matches!(serde_json::from_str(text), Ok(Value::Object(_))))
}

/// Whether the value is absent or passes.
pub(crate) fn is_or_absent(value: &Value, key: &str, test: impl FnOnce(&Value) -> bool) -> bool {
    value.get(key).is_none_or(test)
}

/// A number from `low` to `high`.
pub(crate) fn within(value: &Value, low: f64, high: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|number| (low..=high).contains(&number))
}

/// One of these words.
pub(crate) fn one_of(value: &Value, words: &[&str]) -> bool {
    value.as_str().is_some_and(|word| words.contains(&word))
}
