//! Which program the arguments ask for.

use std::io::Write;

use crate::surroundings::Surroundings;
use crate::{demo, help, pi};

const USAGE: i32 = 2;

/// Runs it and returns the exit code.
pub(crate) fn dispatch(surroundings: &Surroundings) -> i32 {
    let arguments = surroundings.arguments.as_slice();
    if surroundings.program == "pi" {
        return pi::run(surroundings, arguments);
    }
    let (first, rest) = match arguments.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", arguments),
    };
    match first {
        "pi" => pi::run(surroundings, rest),
        "demo" => demo(surroundings, rest),
        "run" | "serve" => refuse(first),
        "completions" => completions(rest),
        "man" => man(),
        "--version" | "-V" | "-v" | "version" => {
            print(&format!("fluzo {}\n", env!("CARGO_PKG_VERSION")))
        }
        "--help" | "-h" | "help" => print(&help::program()),
        "" => {
            eprintln!(
                "error: the terminal interface is not part of this version\nhint: `fluzo pi -p \"MESSAGE\"` runs the agent once; `fluzo --help` lists what there is"
            );
            USAGE
        }
        other => unknown(other),
    }
}

fn refuse(command: &str) -> i32 {
    eprintln!(
        "error: `fluzo {command}` is not available in this version: permissions, durable intents and budgets are not built yet, and nothing runs without them\nhint: `fluzo pi` runs the agent without them, as pi does"
    );
    USAGE
}

fn demo(surroundings: &Surroundings, arguments: &[String]) -> i32 {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    demo::run(surroundings, arguments, &mut out, &mut err)
}

fn completions(arguments: &[String]) -> i32 {
    let shell = arguments.first().map(String::as_str).unwrap_or_default();
    match help::completions(shell) {
        Some(script) => write(&script),
        None => {
            eprintln!(
                "error: no completions for `{shell}`\nhint: `fluzo completions SHELL`, with bash, elvish, fish, powershell or zsh"
            );
            USAGE
        }
    }
}

fn man() -> i32 {
    match help::man() {
        Ok(page) => write(&page),
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    }
}

fn unknown(word: &str) -> i32 {
    let command = help::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    let close = names
        .filter(|name| {
            name.starts_with(word) || word.starts_with(name) || distance(name, word) <= 2
        })
        .collect::<Vec<_>>();
    let hint = match close.as_slice() {
        [] => "`fluzo --help` lists the commands".to_owned(),
        names => format!("did you mean `fluzo {}`?", names.join("`, `fluzo ")),
    };
    eprintln!("error: unknown command `{word}`\nhint: {hint}");
    USAGE
}

/// How many letters must be put in, taken out or changed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, their) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *their);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

fn print(text: &str) -> i32 {
    write(text.as_bytes())
}

/// Writes to standard output; a reader that is gone is no failure of ours.
fn write(bytes: &[u8]) -> i32 {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let rows = [
            ("demo", "demo", 0),
            ("demo", "dmeo", 2),
            ("run", "", 3),
            ("", "é", 1),
            ("pi", "ip", 2),
        ];
        for (one, other, letters) in rows {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }
}
