//! Arguments: their typed form, and the other names that models use for them.

use fluzo_agent::ToolError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::shown;

/// The typed form of validated arguments.
///
/// # Errors
///
/// Text for the model; cannot happen when the schema fits the type.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments).map_err(|error| {
        let text = error.to_string();
        ToolError::new(format!("Invalid arguments: {}", shown::bounded(&text)))
    })
}

/// Gives `other` the name `name`. Both at once are fine while they say the same.
///
/// # Errors
///
/// A validation error when the two differ.
pub(crate) fn rename(
    tool: &str,
    arguments: &mut Value,
    other: &str,
    name: &str,
) -> Result<(), ToolError> {
    let received = arguments.clone();
    let Some(map) = arguments.as_object_mut() else {
        return Ok(());
    };
    let Some(value) = map.shift_remove(other) else {
        return Ok(());
    };
    match map.get(name) {
        Some(named) if *named != value => Err(invalid(
            tool,
            name,
            &format!("must not differ from {other}"),
            &received,
        )),
        Some(_) => Ok(()),
        None => {
            map.insert(name.to_owned(), value);
            Ok(())
        }
    }
}

/// A validation error in the form that schema checks give; long arguments are shown in part.
pub(crate) fn invalid(tool: &str, path: &str, problem: &str, received: &Value) -> ToolError {
    let shown = serde_json::to_string_pretty(received).unwrap_or_default();
    let shown = shown::bounded(&shown);
    ToolError::new(format!(
        "Validation failed for tool \"{tool}\":\n  - {path}: {problem}\n\nReceived arguments:\n{shown}"
    ))
}

/// A count argument: whole, at least one, `default` when absent.
pub(crate) fn count(number: Option<f64>, default: usize) -> usize {
    // A float beyond the range of the type becomes the nearest end of it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    number.map_or(default, |n| (n.floor() as usize).max(1))
}
