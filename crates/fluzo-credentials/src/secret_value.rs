//! The syntax of values that may name where a secret is.

use std::fmt;

use fluzo_llm::Secret;

/// A value of `models.json` or `auth.json` that may name where the secret is.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretValue {
    /// The value itself.
    Literal(Secret),
    /// `$NAME` or `${NAME}`: an environment variable.
    Variable(String),
    /// A bare name in capitals: the environment variable of that name if there is one,
    /// else the value itself.
    Bare(String),
    /// `!command`: the output of a command, whose text this is.
    Command(String),
}

impl SecretValue {
    /// Reads the syntax. `$$` and `$!` at the beginning stand for `$` and `!`.
    pub fn parse(text: &str) -> Self {
        if let Some(command) = text.strip_prefix('!') {
            return Self::Command(command.to_owned());
        }
        if let Some(rest) = text.strip_prefix("$$").or_else(|| text.strip_prefix("$!")) {
            let sign = &text[1..2];
            return Self::Literal(Secret::new(format!("{sign}{rest}")));
        }
        let name = text
            .strip_prefix("${")
            .and_then(|t| t.strip_suffix('}'))
            .or_else(|| text.strip_prefix('$'));
        match name.filter(|name| is_variable(name)) {
            Some(name) => Self::Variable(name.to_owned()),
            None if is_variable(text) && !text.contains(|c: char| c.is_ascii_lowercase()) => {
                Self::Bare(text.to_owned())
            }
            None => Self::Literal(Secret::new(text)),
        }
    }
}

// A bare name may be the secret itself.
impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::Variable(name) => write!(f, "Variable({name})"),
            Self::Bare(_) => f.write_str("Bare(…)"),
            Self::Command(command) => write!(f, "Command({command})"),
        }
    }
}

/// Whether `name` can be the name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(ok) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        let literal = |text: &str| SecretValue::Literal(Secret::new(text));
        let rows = [
            ("$MY", SecretValue::Variable("MY".into())),
            ("${My_1}", SecretValue::Variable("My_1".into())),
            ("$$MY", literal("$MY")),
            ("$!MY", literal("!MY")),
            ("$", literal("$")),
            ("${", literal("${")),
            ("${A-B}", literal("${A-B}")),
            ("$1A", literal("$1A")),
            ("MY", SecretValue::Bare("MY".into())),
            ("My", literal("My")),
            ("sk-x", literal("sk-x")),
            ("!echo $X", SecretValue::Command("echo $X".into())),
            ("", literal("")),
        ];
        for (text, expected) in rows {
            assert_eq!(SecretValue::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn debug_shows_no_value() {
        for text in ["sk-planted", "SK_PLANTED", "$$sk-planted"] {
            let shown = format!("{:?}", SecretValue::parse(text)).to_lowercase();
            assert!(!shown.contains("planted"), "{shown}");
        }
    }
}
