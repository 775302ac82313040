//! What was typed: one pass over the arguments, as pi reads them.

use std::collections::HashMap;

use crate::flags::{Id, Takes, find};

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
        let mut unknown = Vec::new();
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
                    None => unknown.push(argument.clone()),
                }
            } else if let Some(path) = argument.strip_prefix('@') {
                typed.files.push(path.to_owned());
            } else if argument.starts_with('-') && argument.len() > 1 {
                if argument.starts_with("--") && !argument.contains('=') {
                    // The value of an option nobody knows is not a message.
                    rest.next_if(|next| is_search(next));
                }
                unknown.push(argument.split('=').next().unwrap_or(argument).to_owned());
            } else {
                typed.messages.push(argument.clone());
            }
        }
        match unknown.as_slice() {
            [] => Ok(typed),
            [one] => Err(format!("Unknown option: {one}")),
            several => Err(format!("Unknown options: {}", several.join(", "))),
        }
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
            ("--model", "Unknown option: --model"),
        ];
        for (line, text) in rows {
            assert_eq!(parse(line).unwrap_err(), text, "{line}");
        }
    }
}
