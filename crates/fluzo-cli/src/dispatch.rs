//! Which program the arguments ask for.

use fluzo_stdx::similar;

use crate::output::write;
use crate::surroundings::Surroundings;
use crate::{demo, discover, flags, help, man, packages, pi, unavailable};

const USAGE: i32 = 2;

/// Runs it and returns the exit code.
pub(crate) fn dispatch(surroundings: &Surroundings) -> i32 {
    let arguments = surroundings.arguments.as_slice();
    if surroundings.program == "pi" {
        return pi(surroundings, arguments);
    }
    let (first, rest) = match arguments.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", arguments),
    };
    if let Some(text) = asked_help(arguments) {
        return print(&text);
    }
    match first {
        "pi" => pi(surroundings, rest),
        "demo" => demo(surroundings, rest),
        "run" | "serve" => refuse(first),
        "completions" => completions(rest),
        "man" => print(&man::page()),
        "--version" | "-V" | "-v" | "version" => {
            print(&format!("fluzo {}\n", env!("CARGO_PKG_VERSION")))
        }
        "--help" | "-h" | "help" => help(rest),
        "" => fail(
            "the terminal interface is not part of this version",
            "`fluzo pi -p \"MESSAGE\"` runs the agent once; `fluzo --help` lists what there is",
        ),
        other => unknown(other),
    }
}

/// The help of a command that ends with `--help`; the open profile reads its own arguments.
fn asked_help(arguments: &[String]) -> Option<String> {
    let (last, words) = arguments.split_last()?;
    let is_asked = last == "--help" || last == "-h";
    let first = words.first()?;
    (is_asked && first != "pi").then(|| help::of(words))?
}

fn help(words: &[String]) -> i32 {
    match help::of(words) {
        Some(text) => print(&text),
        None => unknown(&words.join(" ")),
    }
}

fn fail(problem: &str, hint: &str) -> i32 {
    eprintln!("error: {problem}\nhint: {hint}");
    USAGE
}

fn pi(surroundings: &Surroundings, arguments: &[String]) -> i32 {
    if let Some((first, rest)) = arguments.split_first()
        && first == "discover"
    {
        return discover::run(surroundings, rest);
    }
    if arguments
        .first()
        .is_some_and(|first| packages::is_command(first))
    {
        return packages::run(surroundings, arguments);
    }
    if let Some(text) = unavailable::subcommand(arguments) {
        eprintln!("error: {text}");
        return USAGE;
    }
    pi::run(surroundings.clone(), arguments)
}

fn refuse(command: &str) -> i32 {
    fail(
        &format!(
            "`fluzo {command}` is not available in this version: permissions, durable intents and budgets are not built yet, and nothing runs without them"
        ),
        "`fluzo pi` runs the agent without them, as pi does",
    )
}

fn demo(surroundings: &Surroundings, arguments: &[String]) -> i32 {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    demo::run(surroundings, arguments, &mut out, &mut err)
}

fn completions(arguments: &[String]) -> i32 {
    let shells = help::shells();
    let Some(shell) = arguments.first() else {
        return fail("`fluzo completions` needs a shell", &shells);
    };
    match help::completions(shell) {
        Some(script) => write(&script),
        None => fail(
            &format!("no completions for `{shell}`"),
            &format!("`fluzo completions SHELL`, with {shells}"),
        ),
    }
}

fn unknown(word: &str) -> i32 {
    let is_input = word.starts_with('@') || word.contains(char::is_whitespace);
    if is_input || flags::find(word).is_some() || unavailable::option(word).is_some() {
        return fail(
            &format!("`{word}` is for `fluzo pi`"),
            "`fluzo pi -p \"MESSAGE\"` runs the agent once; `fluzo pi --help` lists its options",
        );
    }
    let command = help::command();
    let close = similar::close(word, command.get_subcommands().map(clap::Command::get_name));
    let hint = match close.as_slice() {
        [] => "`fluzo --help` lists the commands".to_owned(),
        names => format!("did you mean `fluzo {}`?", names.join("`, `fluzo ")),
    };
    let kind = if word.starts_with('-') {
        "option"
    } else {
        "command"
    };
    fail(&format!("unknown {kind} `{word}`"), &hint)
}

fn print(text: &str) -> i32 {
    write(text.as_bytes())
}
