//! The commands that a user types after a `/`, each declared once. Front ends show them
//! and say what came of them; what they do is a [`Command`] or a matter of the front end.

use crate::Command;

/// A command of the user's.
#[derive(Debug, Clone, Copy)]
pub struct SlashCommand {
    /// Its name, without the `/`.
    pub name: &'static str,
    /// What may follow it, as help shows it; empty when nothing may.
    pub argument: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    make: fn(Option<&str>) -> Invocation,
}

/// What a typed line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// A command for the session.
    Command(Command),
    /// Something that only a front end can show or ask: a list, a form, a question.
    Screen {
        /// Name of the command.
        name: &'static str,
        /// What was typed behind it.
        argument: Option<String>,
    },
}

macro_rules! slash {
    ($name:literal, $argument:literal, $summary:literal, $make:expr) => {
        SlashCommand {
            name: $name,
            argument: $argument,
            summary: $summary,
            make: $make,
        }
    };
    ($name:literal, $argument:literal, $summary:literal) => {
        slash!($name, $argument, $summary, |argument| Invocation::Screen {
            name: $name,
            argument: argument.map(str::to_owned),
        })
    };
}

/// All of them, in the order help shows.
pub const SLASH_COMMANDS: &[SlashCommand] = &[
    slash!("new", "", "Begin another session", |_| {
        Invocation::Command(Command::NewSession {
            parent_session: None,
        })
    }),
    slash!("resume", "", "Go on with an earlier session"),
    slash!(
        "session",
        "",
        "Show counts, tokens and cost of the session",
        |_| { Invocation::Command(Command::GetSessionStats) }
    ),
    slash!(
        "compact",
        "[FOCUS]",
        "Replace the older part of the conversation by a summary",
        |focus| {
            Invocation::Command(Command::Compact {
                custom_instructions: focus.map(str::to_owned),
            })
        }
    ),
    slash!(
        "name",
        "[NAME]",
        "Show or set the name of the session",
        |name| {
            match name {
                Some(name) => Invocation::Command(Command::SetSessionName {
                    name: name.to_owned(),
                }),
                None => Invocation::Screen {
                    name: "name",
                    argument: None,
                },
            }
        }
    ),
    slash!(
        "fork",
        "",
        "Make a session of what was said before a message"
    ),
    slash!("clone", "", "Make a session of the current branch", |_| {
        Invocation::Command(Command::Clone)
    }),
    slash!("tree", "", "Move to another point of the conversation"),
    slash!(
        "export",
        "[FILE]",
        "Write the session as a page, or as JSON lines when FILE ends in .jsonl",
        |path| {
            let output_path = path.map(unquoted);
            Invocation::Command(match &output_path {
                Some(path) if path.ends_with(".jsonl") => Command::ExportJsonl { output_path },
                _ => Command::ExportHtml { output_path },
            })
        }
    ),
    slash!("import", "FILE", "Copy a session file and go on with it"),
    slash!("share", "", "Publish the session as a secret gist", |_| {
        Invocation::Command(Command::Share)
    }),
    slash!("settings", "", "Look at the settings and change them"),
    slash!("model", "[MODEL]", "Use another model"),
    slash!("scoped-models", "", "Choose the models to cycle through"),
    slash!("login", "", "Sign in to a provider"),
    slash!("logout", "", "Forget a stored sign-in"),
    slash!(
        "reload",
        "",
        "Read settings, skills, templates and themes again",
        |_| { Invocation::Command(Command::Reload) }
    ),
    slash!("prompt", "", "Show the body of the next request", |_| {
        Invocation::Command(Command::GetRequest)
    }),
    slash!("hotkeys", "", "Show the keys"),
    slash!("changelog", "", "Show what is new"),
    slash!("copy", "", "Copy the last response", |_| {
        Invocation::Command(Command::GetLastAssistantText)
    }),
    slash!("quit", "", "End the program"),
];

impl SlashCommand {
    /// What `line` asks for when it is one of [`SLASH_COMMANDS`]: the whole line, with an
    /// argument only where one may follow. Any other line is a message.
    pub fn parse(line: &str) -> Option<Invocation> {
        let rest = line.trim().strip_prefix('/')?;
        let (name, argument) = match rest.split_once(char::is_whitespace) {
            Some((name, argument)) => (name, Some(argument.trim()).filter(|a| !a.is_empty())),
            None => (rest, None),
        };
        let command = SLASH_COMMANDS.iter().find(|command| command.name == name)?;
        if argument.is_some() && command.argument.is_empty() {
            return None;
        }
        Some((command.make)(argument))
    }
}

/// A path without the quotation marks around it.
fn unquoted(text: &str) -> String {
    let inner = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('"')
        .or_else(|| inner('\''))
        .unwrap_or(text)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let screen = |name, argument: Option<&str>| {
            let argument = argument.map(str::to_owned);
            Some(Invocation::Screen { name, argument })
        };
        let command = |command| Some(Invocation::Command(command));
        let rows = [
            (
                "/compact",
                command(Command::Compact {
                    custom_instructions: None,
                }),
            ),
            (
                "/compact  the tests ",
                command(Command::Compact {
                    custom_instructions: Some("the tests".into()),
                }),
            ),
            ("/model gpt", screen("model", Some("gpt"))),
            ("/name", screen("name", None)),
            (
                "/name a b",
                command(Command::SetSessionName { name: "a b".into() }),
            ),
            ("/quit now", None),
            ("/quit", screen("quit", None)),
            ("quit", None),
            ("/nothing", None),
            (
                "/export",
                command(Command::ExportHtml { output_path: None }),
            ),
            (
                "/export \"a b.jsonl\"",
                command(Command::ExportJsonl {
                    output_path: Some("a b.jsonl".into()),
                }),
            ),
            (
                "/export 'p.html'",
                command(Command::ExportHtml {
                    output_path: Some("p.html".into()),
                }),
            ),
        ];
        for (line, expected) in rows {
            assert_eq!(SlashCommand::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn every_command_is_found_by_its_name_and_says_what_it_does() {
        for command in SLASH_COMMANDS {
            let line = format!("/{}", command.name);
            assert!(SlashCommand::parse(&line).is_some(), "{line}");
            assert!(!command.summary.is_empty() && !command.summary.ends_with('.'));
        }
    }
}
