//! Base URLs with places for values of the environment.

/// A base URL cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingVariable {
    /// No variable of a place is set.
    #[error("environment variable `{name}` is not set")]
    NotSet {
        /// The variable to set; the first one when several would do.
        name: String,
    },
    /// The value of a variable does not fit into a URL.
    #[error("environment variable `{name}` may hold letters, digits, `.`, `_` and `-` only")]
    Unfit {
        /// The variable.
        name: String,
    },
}

impl MissingVariable {
    /// The variable that it is about.
    pub fn name(&self) -> &str {
        match self {
            Self::NotSet { name } | Self::Unfit { name } => name,
        }
    }
}

/// Vertex's region `global` has no prefix in the name of its server.
const GLOBAL: (&str, &str) = ("//global-aiplatform.", "//aiplatform.");

/// Fills the places of `template` with what `variable` knows; an empty value counts as none.
///
/// A place is `{NAME}`, or `{NAME|OTHER}` where the first variable that is set counts, or
/// `{NAME|=value}` where `value` stands in for a variable that is not set. A value may hold
/// letters, digits, `.`, `_` and `-`, so that it can never lead to another server.
///
/// # Errors
///
/// When a place has no value, or one that does not fit.
pub fn fill(
    template: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, MissingVariable> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, place, after)) = next_place(rest) {
        filled.push_str(before);
        filled.push_str(&value(place, variable)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled.replacen(GLOBAL.0, GLOBAL.1, 1))
}

/// The names of the variables that `template` asks for.
pub(crate) fn variables(template: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), template);
    while let Some((_, place, after)) = next_place(rest) {
        names.extend(place.split('|').filter(|name| !name.starts_with('=')));
        rest = after;
    }
    names
}

/// What stands before the next place, in it and after it.
fn next_place(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (place, after) = rest.split_once('}')?;
    Some((before, place, after))
}

fn value(
    place: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, MissingVariable> {
    for choice in place.split('|') {
        if let Some(literal) = choice.strip_prefix('=') {
            return Ok(literal.to_owned());
        }
        let Some(value) = variable(choice).filter(|value| !value.is_empty()) else {
            continue;
        };
        let name = choice.to_owned();
        return if value.chars().all(fits) {
            Ok(value)
        } else {
            Err(MissingVariable::Unfit { name })
        };
    }
    let name = place.split('|').next().unwrap_or(place).to_owned();
    Err(MissingVariable::NotSet { name })
}

fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        let value = match name {
            "A" => "one",
            "B" => "two-2",
            "EMPTY" => "",
            "EVIL" => "evil.example/#",
            "USER" => "me@evil.example",
            "LOCATION" => "global",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn places_are_filled_or_named() {
        let rows = [
            ("https://a/v1", Ok("https://a/v1")),
            ("https://{A}.b/{B}/v1", Ok("https://one.b/two-2/v1")),
            ("{NOT|B}", Ok("two-2")),
            ("{EMPTY|A}", Ok("one")),
            ("{NOT|=us-east-1}.x", Ok("us-east-1.x")),
            ("{A|=us-east-1}.x", Ok("one.x")),
            (
                "https://{LOCATION}-aiplatform.x/l/{LOCATION}",
                Ok("https://aiplatform.x/l/global"),
            ),
            ("{NOT}/x", Err("environment variable `NOT` is not set")),
            ("{NOT|NOR}", Err("environment variable `NOT` is not set")),
            ("{EMPTY}", Err("environment variable `EMPTY` is not set")),
            (
                "https://{EVIL}.b",
                Err("environment variable `EVIL` may hold letters, digits, `.`, `_` and `-` only"),
            ),
            (
                "https://{USER}.b",
                Err("environment variable `USER` may hold letters, digits, `.`, `_` and `-` only"),
            ),
            ("a{b", Ok("a{b")),
            ("a}b", Ok("a}b")),
        ];
        for (template, expected) in rows {
            let got = fill(template, &environment).map_err(|error| error.to_string());
            assert_eq!(
                got.as_deref().map_err(String::as_str),
                expected,
                "{template}"
            );
        }
    }

    #[test]
    fn the_variables_of_a_template() {
        assert_eq!(variables("https://{A|B|=x}/{C}"), ["A", "B", "C"]);
        assert!(variables("https://a/v1").is_empty());
    }
}
