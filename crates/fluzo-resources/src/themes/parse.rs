//! Reading theme files.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{Color, Export, Theme, Token};

/// Why a theme cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// It is no JSON.
    #[error("Failed to parse theme {label}: {text}")]
    Broken {
        /// What the theme is called.
        label: String,
        /// What the parser says.
        text: String,
    },
    /// Something is missing or of the wrong kind.
    #[error("Invalid theme \"{label}\":\n{}", problems(missing, other))]
    Invalid {
        /// What the theme is called.
        label: String,
        /// Colour tokens that are missing.
        missing: Vec<&'static str>,
        /// What else is wrong.
        other: Vec<String>,
    },
    /// Variables lead in a circle.
    #[error("Circular variable reference detected: {0}")]
    Circular(String),
    /// A variable does not exist.
    #[error("Variable reference not found: {0}")]
    Unknown(String),
}

fn problems(missing: &[&str], other: &[String]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if !missing.is_empty() {
        text.push_str("\nMissing required color tokens:\n");
        for token in missing {
            let _ = writeln!(text, "  - {token}");
        }
        text.push_str("\nAdd them to the theme's \"colors\".\n");
    }
    if !other.is_empty() {
        text.push_str("\nOther errors:\n");
        for problem in other {
            let _ = writeln!(text, "  - {problem}");
        }
    }
    text.trim_end().to_owned()
}

/// What a colour may be, for people.
const COLOR_FORM: &str =
    "expected \"#RRGGBB\", a number from 0 to 255, the name of a variable, or \"\"";

pub(super) fn theme(label: &str, text: &str) -> Result<Theme, ThemeError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ThemeError::Broken {
        label: label.to_owned(),
        text: error.to_string(),
    })?;
    let mut check = Check::default();
    let parts = check.parts(&value);
    let Some(parts) = parts.filter(|_| check.missing.is_empty() && check.other.is_empty()) else {
        return Err(ThemeError::Invalid {
            label: label.to_owned(),
            missing: check.missing,
            other: check.other,
        });
    };
    let mut colors = [Color::Default; Token::COUNT];
    for (color, token) in colors.iter_mut().zip(Token::ALL) {
        if let Some(value) = parts.colors.get(token.name()) {
            *color = resolve(value, &parts.variables)?;
        }
    }
    let export = |key: &str| {
        let value = parts.export.and_then(|export| export.get(key));
        value
            .map(|value| resolve(value, &parts.variables))
            .transpose()
    };
    Ok(Theme {
        name: parts.name.to_owned(),
        export: Export {
            page_bg: export("pageBg")?,
            card_bg: export("cardBg")?,
            info_bg: export("infoBg")?,
        },
        source: None,
        colors,
    })
}

/// Parts of a theme file.
struct Parts<'a> {
    name: &'a str,
    variables: Map<String, Value>,
    colors: &'a Map<String, Value>,
    export: Option<&'a Map<String, Value>>,
}

/// Collects what is wrong.
#[derive(Default)]
struct Check {
    missing: Vec<&'static str>,
    other: Vec<String>,
}

impl Check {
    fn parts<'a>(&mut self, value: &'a Value) -> Option<Parts<'a>> {
        let Some(root) = value.as_object() else {
            self.other.push("/: expected an object".to_owned());
            return None;
        };
        let name = match root.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => Some(name),
            _ => {
                self.other.push("/name: expected a text".to_owned());
                None
            }
        };
        let variables = self.object(root, "vars").cloned().unwrap_or_default();
        self.colors("/vars", &variables);
        let export = self.object(root, "export");
        if let Some(export) = export {
            self.colors("/export", export);
        }
        let colors = self.object(root, "colors");
        match colors {
            Some(colors) => {
                self.colors("/colors", colors);
                let missing = Token::ALL.iter().map(|token| token.name());
                self.missing
                    .extend(missing.filter(|name| !colors.contains_key(*name)));
            }
            None if root.contains_key("colors") => {}
            None => self
                .missing
                .extend(Token::ALL.iter().map(|token| token.name())),
        }
        Some(Parts {
            name: name?,
            variables,
            colors: colors?,
            export,
        })
    }

    fn object<'a>(
        &mut self,
        root: &'a Map<String, Value>,
        key: &str,
    ) -> Option<&'a Map<String, Value>> {
        let value = root.get(key)?;
        if !value.is_object() {
            self.other.push(format!("/{key}: expected an object"));
        }
        value.as_object()
    }

    fn colors(&mut self, at: &str, colors: &Map<String, Value>) {
        for (name, value) in colors {
            let fits = match value {
                Value::String(text) => !text.starts_with('#') || Color::from_hex(text).is_some(),
                Value::Number(number) => number.as_u64().is_some_and(|number| number < 256),
                _ => false,
            };
            if !fits {
                self.other.push(format!("{at}/{name}: {COLOR_FORM}"));
            }
        }
    }
}

/// Follows variables to a colour.
fn resolve(value: &Value, variables: &Map<String, Value>) -> Result<Color, ThemeError> {
    let mut value = value;
    // A way longer than there are variables goes in a circle.
    for _ in 0..=variables.len() {
        let name = match value {
            Value::Number(number) => {
                let number = number.as_u64().and_then(|number| u8::try_from(number).ok());
                return Ok(number.map_or(Color::Default, Color::Palette));
            }
            Value::String(text) if text.is_empty() => return Ok(Color::Default),
            Value::String(text) => text,
            _ => return Ok(Color::Default),
        };
        if let Some(color) = Color::from_hex(name) {
            return Ok(color);
        }
        let next = variables.get(name);
        value = next.ok_or_else(|| ThemeError::Unknown(name.clone()))?;
    }
    Err(ThemeError::Circular(
        value.as_str().unwrap_or_default().to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// A theme whose colours are all 7, changed.
    fn changed(change: impl FnOnce(&mut Value)) -> Result<Theme, ThemeError> {
        let colors = Token::ALL
            .iter()
            .map(|token| (token.name().to_owned(), json!(7)));
        let colors: Map<String, Value> = colors.collect();
        let mut value = json!({"$schema": "x", "name": "own", "colors": colors});
        change(&mut value);
        Theme::parse("LABEL", &value.to_string())
    }

    #[test]
    fn values() {
        let theme = changed(|theme| {
            theme["vars"] = json!({"a": "b", "b": "#010203", "n": 200, "e": ""});
            theme["colors"]["accent"] = json!("a");
            theme["colors"]["border"] = json!("n");
            theme["colors"]["error"] = json!("e");
            theme["colors"]["dim"] = json!("#0A0b0C");
            theme["colors"]["thinkingMax"] = json!("a");
            theme["export"] = json!({"pageBg": "a"});
        });
        let theme = theme.unwrap();
        assert_eq!(theme.name, "own");
        assert_eq!(theme.color(Token::Accent), Color::Rgb(1, 2, 3));
        assert_eq!(theme.color(Token::Border), Color::Palette(200));
        assert_eq!(theme.color(Token::Error), Color::Default);
        assert_eq!(theme.color(Token::Dim), Color::Rgb(10, 11, 12));
        assert_eq!(theme.color(Token::Text), Color::Palette(7));
        assert_eq!(theme.export.page_bg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(theme.export.card_bg, None);
    }

    #[test]
    fn errors() {
        let check = |change: fn(&mut Value), expected: &str| {
            assert_eq!(changed(change).unwrap_err().to_string(), expected);
        };
        check(
            |theme| {
                theme["colors"].as_object_mut().unwrap().remove("accent");
                theme["colors"].as_object_mut().unwrap().remove("bashMode");
            },
            "Invalid theme \"LABEL\":\n\nMissing required color tokens:\n  - accent\n  - bashMode\n\nAdd them to the theme's \"colors\".",
        );
        check(
            |theme| {
                theme["name"] = json!(3);
                theme["colors"]["dim"] = json!("#12");
                theme["colors"]["text"] = json!(256);
                theme["vars"] = json!([]);
            },
            "Invalid theme \"LABEL\":\n\nOther errors:\n  - /name: expected a text\n  - /vars: expected an object\n  - /colors/dim: expected \"#RRGGBB\", a number from 0 to 255, the name of a variable, or \"\"\n  - /colors/text: expected \"#RRGGBB\", a number from 0 to 255, the name of a variable, or \"\"",
        );
        check(
            |theme| theme["colors"]["dim"] = json!("nowhere"),
            "Variable reference not found: nowhere",
        );
        check(
            |theme| {
                theme["vars"] = json!({"a": "b", "b": "a"});
                theme["colors"]["dim"] = json!("a");
            },
            "Circular variable reference detected: b",
        );
        check(
            |theme| *theme = json!([]),
            "Invalid theme \"LABEL\":\n\nOther errors:\n  - /: expected an object",
        );
    }

    #[test]
    fn without_colours_every_token_is_named() {
        let error = changed(|theme| *theme = json!({"name": "x"})).unwrap_err();
        let ThemeError::Invalid { missing, other, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((missing.len(), other.len()), (51, 0));
    }

    #[test]
    fn hostile_json() {
        let check = |text: &str| {
            let error = Theme::parse("L", text).unwrap_err().to_string();
            assert!(error.starts_with("Failed to parse theme L: "), "{error}");
        };
        check("");
        check("{\"name\": ");
        check(&"[".repeat(100_000));
        check("\0");
    }
}
