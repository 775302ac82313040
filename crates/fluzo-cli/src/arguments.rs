//! What was typed: one pass over the arguments, as pi reads them.

use std::collections::HashMap;

use fluzo_stdx::similar;
use fluzo_tools::registry;

use crate::flags::{FLAGS, Flag, Id, Takes, find};
use crate::unavailable;

/// Arguments by flag, and what is none.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Typed {
    values: HashMap<Id, Vec<String>>,
    /// Paths given as `@path`, without the `@`.
    pub(crate) files: Vec<String>,
    /// Messages, in order.
    pub(crate) messages: Vec<String>,
}

impl Typed {
    /// Reads `arguments`.
    ///
    /// # Errors
    ///
    /// The text for the user when an option is unknown.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut typed = Self::default();
        let mut problems = Problems::default();
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                typed.messages.extend(rest.by_ref().cloned());
            } else if let Some(flag) = find(argument) {
                let value = match flag.takes {
                    Takes::Nothing => Some(String::new()),
                    Takes::Value(_) => rest.next().cloned(),
                    Takes::OptionalMessage => {
                        typed
                            .messages
                            .extend(rest.next_if(|next| is_message(next)).cloned());
                        Some(String::new())
                    }
                    Takes::OptionalSearch => Some(
                        rest.next_if(|next| is_search(next))
                            .cloned()
                            .unwrap_or_default(),
                    ),
                };
                match value {
                    Some(value) => typed.set(flag.id, value),
                    None => problems.without_value(argument),
                }
            } else if let Some(path) = argument.strip_prefix('@') {
                typed.files.push(path.to_owned());
            } else if argument.starts_with('-') && argument.len() > 1 {
                if argument.starts_with("--") && !argument.contains('=') {
                    // The value of an option nobody knows is not a message.
                    rest.next_if(|next| is_search(next));
                }
                problems.unknown(argument);
            } else {
                typed.messages.push(argument.clone());
            }
        }
        problems.into_result()?;
        if !typed.has(Id::Help) && !typed.has(Id::Version) {
            typed.some_tool_is_known()?;
        }
        Ok(typed)
    }

    /// A list of tools that do not exist is a mistake and no wish for a run without tools.
    fn some_tool_is_known(&self) -> Result<(), String> {
        let names = self.list(Id::Tools).unwrap_or_default();
        let known = |name: &String| registry::ALL.contains(&name.as_str());
        if names.is_empty() || names.iter().any(known) {
            return Ok(());
        }
        Err(format!(
            "no such tools: {}\nhint: the tools are {}; `--no-tools` runs without",
            names.join(", "),
            registry::ALL.join(", ")
        ))
    }

    /// What is passed over, for the user.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mode = self
            .value(Id::Mode)
            .filter(|mode| !["text", "json", "rpc"].contains(mode));
        mode.map(|mode| format!("unknown mode \"{mode}\" was passed over: text, json or rpc"))
            .into_iter()
            .collect()
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.values.contains_key(&id)
    }

    /// The last value of a flag.
    pub(crate) fn value(&self, id: Id) -> Option<&str> {
        self.values(id).last().map(String::as_str)
    }

    /// All values of a flag.
    pub(crate) fn values(&self, id: Id) -> &[String] {
        self.values.get(&id).map_or(&[], Vec::as_slice)
    }

    /// A list of names separated by commas.
    pub(crate) fn list(&self, id: Id) -> Option<Vec<String>> {
        let text = self.value(id)?;
        Some(
            text.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }

    fn set(&mut self, id: Id, value: String) {
        if id == Id::Prompt {
            return self.messages.push(value);
        }
        self.values.entry(id).or_default().push(value);
    }
}

/// Options that are refused, and how to do better.
#[derive(Default)]
struct Problems {
    unknown: Vec<String>,
    unavailable: Vec<String>,
    hints: Vec<String>,
}

impl Problems {
    fn without_value(&mut self, argument: &str) {
        self.unknown.push(argument.to_owned());
        self.hints.push(format!("`{argument}` needs a value"));
    }

    fn unknown(&mut self, argument: &str) {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        if let Some((problem, hint)) = unavailable::option(name) {
            self.unavailable.push(problem);
            self.hints.extend(hint.map(str::to_owned));
            return;
        }
        self.unknown.push(name.to_owned());
        let hint = match (find(name), value) {
            (Some(flag), Some(value)) => Some(instead_of_equals(flag, name, value)),
            _ => meant(name),
        };
        self.hints.extend(hint);
    }

    /// The first line is what the reference says.
    fn into_result(self) -> Result<(), String> {
        let mut lines = match self.unknown.as_slice() {
            [] => Vec::new(),
            [one] => vec![format!("Unknown option: {one}")],
            several => vec![format!("Unknown options: {}", several.join(", "))],
        };
        lines.extend(self.unavailable);
        if lines.is_empty() {
            return Ok(());
        }
        let mut hints: Vec<String> = self.hints.iter().map(|h| format!("hint: {h}")).collect();
        hints.dedup();
        lines.extend(hints);
        Err(lines.join("\n"))
    }
}

fn instead_of_equals(flag: &Flag, name: &str, value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:,@".contains(c);
    let value = match flag.takes {
        Takes::Nothing => return format!("`{name}` takes no value"),
        // A key must not get into a log by way of an error.
        Takes::Value(kind) if flag.id == Id::ApiKey || !value.chars().all(plain) => kind,
        _ if value.is_empty() || !value.chars().all(plain) => "TEXT",
        _ => value,
    };
    format!("write `{name} {value}`")
}

/// The option that was perhaps meant by `name`.
fn meant(name: &str) -> Option<String> {
    let word = name.trim_start_matches('-');
    if word.len() < 3 {
        return None;
    }
    let close = similar::close(word, FLAGS.iter().map(|flag| flag.long));
    (!close.is_empty()).then(|| format!("did you mean `--{}`?", close.join("`, `--")))
}

fn is_message(next: &str) -> bool {
    !next.starts_with('@') && (!next.starts_with('-') || next.starts_with("---"))
}

fn is_search(next: &str) -> bool {
    !next.starts_with('@') && !next.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Typed, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Typed::parse(&words)
    }

    #[test]
    fn messages_files_and_flags_mix() {
        let typed = parse("-p hi @a.txt --model m --tools read,,grep more -c").unwrap();
        assert_eq!(typed.messages, ["hi", "more"]);
        assert_eq!(typed.files, ["a.txt"]);
        assert_eq!(typed.value(Id::Model), Some("m"));
        assert_eq!(typed.list(Id::Tools).unwrap(), ["read", "grep"]);
        assert!(typed.has(Id::Print) && typed.has(Id::Continue));
    }

    #[test]
    fn print_takes_a_message_only_when_it_can_be_one() {
        let rows = [
            ("-p ---x", vec!["---x"]),
            ("-p -c", vec![]),
            ("-p @f", vec![]),
            ("-p", vec![]),
            ("-- -p", vec!["-p"]),
        ];
        for (line, messages) in rows {
            assert_eq!(parse(line).unwrap().messages, messages, "{line}");
        }
    }

    #[test]
    fn a_prompt_is_a_message_whatever_it_begins_with() {
        let typed = Typed::parse(&["--prompt".into(), "-x @y".into()]).unwrap();
        assert_eq!(typed.messages, ["-x @y"]);
    }

    #[test]
    fn unknown_options_are_named() {
        let rows = [
            ("-z", "Unknown option: -z"),
            ("--nope v", "Unknown option: --nope"),
            ("--nope=v", "Unknown option: --nope"),
            ("--a --b", "Unknown options: --a, --b"),
            (
                "--model",
                "Unknown option: --model\nhint: `--model` needs a value",
            ),
            (
                "--model=fake/m1",
                "Unknown option: --model\nhint: write `--model fake/m1`",
            ),
            (
                "--api-key=secret",
                "Unknown option: --api-key\nhint: write `--api-key KEY`",
            ),
            (
                "--no-tools=x",
                "Unknown option: --no-tools\nhint: `--no-tools` takes no value",
            ),
            (
                "-tools read",
                "Unknown option: -tools\nhint: did you mean `--tools`?",
            ),
            (
                "--modle m",
                "Unknown option: --modle\nhint: did you mean `--mode`, `--model`?",
            ),
        ];
        for (line, text) in rows {
            assert_eq!(parse(line).unwrap_err(), text, "{line}");
        }
    }

    #[test]
    fn options_of_pi_that_are_missing_are_not_called_unknown() {
        let missing = |name: &str| format!("`{name}` is not available in this version");
        let names = ["--resume", "-r", "-e"];
        for name in names {
            let text = parse(&format!("{name} v")).unwrap_err();
            assert!(text.starts_with(&missing(name)), "{text}");
        }
        let text = parse("--nope --tui-mode=x").unwrap_err();
        let lines = format!("Unknown option: --nope\n{}", missing("--tui-mode"));
        assert_eq!(text, lines);
    }

    #[test]
    fn what_switches_off_what_is_not_there_is_accepted() {
        for flag in FLAGS.iter().filter(|flag| flag.id == Id::Accepted) {
            let typed = parse(&format!("--{} hi", flag.long)).unwrap();
            assert_eq!(typed.messages, ["hi"], "{}", flag.long);
        }
        assert!(parse("-ne -ns -np -nc").unwrap().messages.is_empty());
    }

    #[test]
    fn a_mode_that_does_not_exist_is_passed_over_with_a_warning() {
        assert_eq!(parse("--mode xml").unwrap().warnings().len(), 1);
        for mode in ["text", "json", "rpc"] {
            let typed = parse(&format!("--mode {mode}")).unwrap();
            assert!(typed.warnings().is_empty(), "{mode}");
        }
    }

    #[test]
    fn tools_of_which_none_exists_are_refused() {
        let text = parse("--tools fly,swim hi").unwrap_err();
        assert!(text.starts_with("no such tools: fly, swim\nhint: the tools are read, bash, "));
        for line in ["--tools fly,read", "--tools ,", "--tools fly --help", "-nt"] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }
}
