//! Says what is wrong with a scenario in words of JSON.

use fluzo_sim::ScenarioError;

/// The reader's words, and what they mean to somebody who writes JSON. Longer ones come first.
const WORDS: [(&str, &str); 14] = [
    ("unknown variant", "unknown value"),
    ("missing field", "missing key"),
    ("unknown field", "unknown key"),
    ("duplicate field", "repeated key"),
    ("variant identifier", "a known word"),
    (
        "did not match any variant of untagged enum",
        "has none of the known forms of",
    ),
    ("internally tagged enum", "the object"),
    ("tuple variant", "list"),
    ("unit variant", "plain text"),
    ("newtype variant", "value"),
    ("a sequence", "a list"),
    ("sequence", "list"),
    ("a map", "an object"),
    ("map", "object"),
];
/// Kinds of numbers.
const NUMBERS: [&str; 8] = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64"];

/// The cause, once, without the words of the language that the reader is written in.
pub(crate) fn cause(error: &ScenarioError) -> String {
    match error {
        ScenarioError::Unreadable(cause) => plain(&cause.to_string()),
        other => other.to_string(),
    }
}

fn plain(text: &str) -> String {
    // What stands in quotation marks is the user's own.
    let parts = text.split('`').enumerate();
    let parts: Vec<String> = parts
        .map(|(at, part)| match at % 2 {
            0 => outside(part),
            _ => part.to_owned(),
        })
        .collect();
    parts.join("`")
}

fn outside(text: &str) -> String {
    let mut text = text.to_owned();
    for (word, meaning) in WORDS {
        text = text.replace(word, meaning);
    }
    let mut words = Vec::new();
    let mut rest = text.split(' ');
    while let Some(word) = rest.next() {
        let bare = word.trim_end_matches(',');
        if ["struct", "enum"].contains(&bare) {
            // The name of the type follows.
            let comma = rest.next().is_some_and(|name| name.ends_with(','));
            words.push(if comma { "an object," } else { "an object" });
        } else if NUMBERS.contains(&bare) {
            words.push(if bare == word {
                "a number"
            } else {
                "a number,"
            });
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use fluzo_sim::Scenario;

    use super::*;

    fn check(json: &str, says: &str) {
        let error = Scenario::from_json(json).unwrap_err();
        let text = cause(&error);
        assert!(text.contains(says), "{text}");
        let rust = [
            "struct", "enum", "variant", "u32", "usize", "map", "sequence", "field",
        ];
        for word in rust {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn scenarios_that_cannot_be_read_are_explained_without_the_language() {
        check(
            r#"{"version": 1, "name": "x", "models": [], "expect": 3}"#,
            "expected an object",
        );
        check("{", "line 1 column 1");
        check("not json", "line 1");
        check(r#"{"version": 1, "name": "x"}"#, "missing key `models`");
        check(
            r#"{"version": 1, "name": "x", "models": {}}"#,
            "expected a list",
        );
        check(
            r#"{"version": 1, "name": 3, "models": []}"#,
            "expected a string",
        );
        check(
            r#"{"version": 1, "nam": "x", "models": []}"#,
            "unknown key `nam`",
        );
        check(
            r#"{"version": 9, "name": "x", "models": []}"#,
            "version `9`",
        );
        check(
            r#"{"version": 1, "name": "x", "models": [{"id": "m"}], "steps": [{"endpoint": "x", "reply": {}}]}"#,
            "unknown value `x`",
        );
        check(
            r#"{"version": 1, "name": "x", "models": [{"id": "m"}], "expect": {"max_connections": "1"}}"#,
            "expected a number",
        );
    }
}
