//! The block that an invoked skill becomes in a user message.

use crate::skills::Skill;

/// What `/skill:` is called in input.
const COMMAND: &str = "/skill:";

/// A skill block at the beginning of a message, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkillBlock<'a> {
    /// Name of the skill.
    pub name: &'a str,
    /// Its file.
    pub location: &'a str,
    /// Everything between the tags.
    pub content: &'a str,
    /// What the user said after it.
    pub message: Option<&'a str>,
}

impl<'a> SkillBlock<'a> {
    /// Takes apart a message that begins with a skill block; `None` when it does not.
    ///
    /// The block ends at the first closing tag on a line of its own that ends the message or has a blank line after it.
    pub fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix("<skill name=\"")?;
        let (name, rest) = rest.split_once("\" location=\"")?;
        let (location, rest) = rest.split_once("\">\n")?;
        let fits = |text: &str| !text.is_empty() && !text.contains(['"', '\n']);
        if !fits(name) || !fits(location) {
            return None;
        }
        if let Some(content) = rest.strip_suffix("\n</skill>")
            && !content.contains("\n</skill>\n\n")
        {
            return Some(Self {
                name,
                location,
                content,
                message: None,
            });
        }
        let (content, message) = rest.split_once("\n</skill>\n\n")?;
        let message = message.trim();
        Some(Self {
            name,
            location,
            content,
            message: (!message.is_empty()).then_some(message),
        })
    }
}

/// Name and arguments when `text` invokes a skill: the name ends at the first space.
pub(crate) fn invoked(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix(COMMAND)?;
    let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((name, arguments.trim()))
}

/// The message that an invocation becomes; `body` is the text of the skill without its frontmatter.
pub(crate) fn block(skill: &Skill, body: &str, arguments: &str) -> String {
    let mut block = format!(
        "<skill name=\"{}\" location=\"{}\">\nReferences are relative to {}.\n\n{body}\n</skill>",
        skill.name,
        skill.path.display(),
        skill.folder().display()
    );
    if !arguments.is_empty() {
        block.push_str("\n\n");
        block.push_str(arguments);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let check = |text: &str, expected: Option<(&str, &str, &str, Option<&str>)>| {
            let parsed = SkillBlock::parse(text);
            let parsed = parsed.map(|b| (b.name, b.location, b.content, b.message));
            assert_eq!(parsed, expected, "{text}");
        };
        let whole = (
            "a",
            "/s/SKILL.md",
            "References are relative to /s.\n\nDo it.",
        );
        let text = "<skill name=\"a\" location=\"/s/SKILL.md\">\nReferences are relative to /s.\n\nDo it.\n</skill>";
        check(text, Some((whole.0, whole.1, whole.2, None)));
        check(
            &format!("{text}\n\n now, please\n\nsoon "),
            Some((whole.0, whole.1, whole.2, Some("now, please\n\nsoon"))),
        );
        check(
            "<skill name=\"a\" location=\"b\">\nplain\n</skill>",
            Some(("a", "b", "plain", None)),
        );
        check(
            "<skill name=\"a\" location=\"b\">\nsay\n</skill>\nmore\n</skill>",
            Some(("a", "b", "say\n</skill>\nmore", None)),
        );
        for text in [
            "",
            " <skill name=\"a\" location=\"b\">\nx\n</skill>",
            "<skill name=\"a\" location=\"b\">x</skill>",
            "<skill name=\"a\">\nx\n</skill>",
            "<skill name=\"a\" location=\"b\">\nx\n</skill> trailing",
            "<skill name=\"a\" location=\"b\">\nx\n</skill>\ntrailing",
            "<skill name=\"a\" location=\"b\">\nx",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn invocations() {
        for (text, expected) in [
            ("/skill:a", Some(("a", ""))),
            ("/skill:a b c", Some(("a", "b c"))),
            ("/skill:a  b ", Some(("a", "b"))),
            ("/skill:", Some(("", ""))),
            ("/skill a", None),
            ("x /skill:a", None),
        ] {
            assert_eq!(invoked(text), expected, "{text}");
        }
    }
}
