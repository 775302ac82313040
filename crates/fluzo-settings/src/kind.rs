//! What values a setting takes.

use serde_json::Value;

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
    /// Text.
    Text,
    /// True or false.
    Bool,
    /// True, false or one of these words.
    BoolOr(&'static [&'static str]),
    /// A whole number in a range, both ends included.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number from 0 to a largest one, or `"disabled"`, which is 0.
    NumberOrDisabled {
        /// Largest.
        max: u64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of packages: each a text, or an object with the text `source` and lists of
    /// texts that choose what is taken from it.
    Packages,
    /// An object with names of the user's own and values of this kind.
    Table(&'static SettingKind),
    /// An object of numbers, with these names and ranges, all optional.
    Numbers(&'static [(&'static str, u64, u64)]),
}

/// Lists that choose what is taken from a package.
const FILTERS: [&str; 4] = ["extensions", "skills", "prompts", "themes"];

impl SettingKind {
    /// `value` as it is stored: a whole number that is written with a point loses it, and
    /// `"disabled"` becomes 0 where it stands for a number, also within objects.
    pub(crate) fn stored(self, value: &Value) -> Value {
        match (self, value) {
            (Self::Table(kind), Value::Object(entries)) => {
                let stored = |(name, value): (&String, &Value)| (name.clone(), kind.stored(value));
                entries.iter().map(stored).collect()
            }
            (Self::Numbers(names), Value::Object(entries)) => {
                let is_known = |name: &str| names.iter().any(|(known, ..)| *known == name);
                let stored = |(name, value): (&String, &Value)| {
                    let whole = whole(value).filter(|_| is_known(name));
                    (
                        name.clone(),
                        whole.map_or_else(|| value.clone(), Value::from),
                    )
                };
                entries.iter().map(stored).collect()
            }
            _ => self.stored_alone(value),
        }
    }

    fn stored_alone(self, value: &Value) -> Value {
        match self {
            Self::NumberOrDisabled { .. } if value == "disabled" => Value::from(0),
            Self::Number { .. } | Self::NumberOrDisabled { .. } => {
                whole(value).map_or_else(|| value.clone(), Value::from)
            }
            _ => value.clone(),
        }
    }

    /// What is wrong with a stored value; none when it fits.
    pub(crate) fn problem(self, value: &Value) -> Option<String> {
        let must = |fits: bool, what: &str| (!fits).then(|| format!("must be {what}"));
        match self {
            Self::Text => must(value.is_string(), "text"),
            Self::Bool => must(value.is_boolean(), "true or false"),
            Self::BoolOr(words) => must(
                value.is_boolean() || is_one_of(value, words),
                &format!("true, false or {}", words.join(", ")),
            ),
            Self::Number { min, max } => must(
                in_range(value, min, max),
                &format!("a whole number from {min} to {max}"),
            ),
            Self::NumberOrDisabled { max } => must(
                in_range(value, 0, max),
                &format!("a whole number from 0 to {max}, or \"disabled\""),
            ),
            Self::OneOf(words) => must(
                is_one_of(value, words),
                &format!("one of {}", words.join(", ")),
            ),
            Self::Texts => must(is_texts(value), "a list of texts"),
            Self::Packages => must(
                value
                    .as_array()
                    .is_some_and(|all| all.iter().all(is_package)),
                "a list of packages: texts, or objects with the text `source` and lists of texts",
            ),
            Self::Table(kind) => table_problem(*kind, value),
            Self::Numbers(names) => numbers_problem(names, value),
        }
    }

    /// The kind in words, for help and documentation.
    pub fn words(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::BoolOr(words) => format!("true, false or {}", words.join(", ")),
            Self::Number { min, max } => format!("{min} to {max}"),
            Self::NumberOrDisabled { max } => format!("0 to {max}, or \"disabled\""),
            Self::OneOf(words) => words.join(", "),
            Self::Texts => "list of texts".to_owned(),
            Self::Packages => "list of texts or objects".to_owned(),
            Self::Table(kind) => format!("object of names with: {}", kind.words()),
            Self::Numbers(names) => {
                let names: Vec<&str> = names.iter().map(|(name, ..)| *name).collect();
                format!("object of numbers: {}", names.join(", "))
            }
        }
    }
}

/// A whole number, also when it is written with a point.
fn whole(value: &Value) -> Option<u64> {
    // Every whole number up to here is exact as a float.
    const EXACT: f64 = 9_007_199_254_740_991.0;
    let float = value
        .as_f64()
        .filter(|n| n.fract() == 0.0 && (0.0..=EXACT).contains(n));
    value.as_u64().or(float.map(|n| n as u64))
}

fn in_range(value: &Value, min: u64, max: u64) -> bool {
    value.as_u64().is_some_and(|n| (min..=max).contains(&n))
}

fn is_one_of(value: &Value, words: &[&str]) -> bool {
    value.as_str().is_some_and(|word| words.contains(&word))
}

fn is_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|all| all.iter().all(Value::is_string))
}

fn is_package(value: &Value) -> bool {
    let Some(object) = value.as_object() else {
        return value.is_string();
    };
    let lists = FILTERS.iter().filter_map(|name| object.get(*name));
    object.get("source").is_some_and(Value::is_string) && lists.into_iter().all(is_texts)
}

fn table_problem(kind: SettingKind, value: &Value) -> Option<String> {
    let Some(object) = value.as_object() else {
        return Some("must be an object".to_owned());
    };
    let mut entries = object.iter();
    entries.find_map(|(name, value)| {
        let problem = kind.problem(value)?;
        Some(format!("has the entry `{name}`, which {problem}"))
    })
}

fn numbers_problem(names: &[(&str, u64, u64)], value: &Value) -> Option<String> {
    let Some(object) = value.as_object() else {
        return Some("must be an object".to_owned());
    };
    names.iter().find_map(|(name, min, max)| {
        let kind = SettingKind::Number {
            min: *min,
            max: *max,
        };
        let problem = kind.problem(object.get(*name)?)?;
        Some(format!("has the entry `{name}`, which {problem}"))
    })
}
