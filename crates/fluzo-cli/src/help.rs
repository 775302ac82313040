//! Help and completions, made from the table of flags.

use clap::{Arg, ArgAction, Command, ValueEnum};

use crate::flags::{FLAGS, Takes};
use crate::reference;

/// The command line as clap sees it; used for what is printed, not for parsing.
pub(crate) fn command() -> Command {
    let pi = FLAGS.iter().fold(
        Command::new("pi")
            .about("The agent with pi's flags and files: no permissions are enforced")
            .override_usage("fluzo pi [OPTIONS] [@FILE...] [MESSAGE...]")
            .disable_help_flag(true)
            .disable_version_flag(true)
            .arg(
                Arg::new("input")
                    .value_name("@FILE|MESSAGE")
                    .num_args(0..)
                    .help("Files and messages of the prompt"),
            ),
        |command, flag| command.arg(argument(flag)),
    );
    Command::new("fluzo")
        .about("A coding agent for the terminal")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(reference::text())
        .subcommand(
            pi.subcommand(crate::discover::command())
                .subcommands(crate::packages::commands()),
        )
        .subcommand(crate::demo::command())
        .subcommand(
            Command::new("run").about("One task under permissions and budgets (not available yet)"),
        )
        .subcommand(
            Command::new("serve")
                .about("The HTTP mode under permissions and budgets (not available yet)"),
        )
        .subcommand(
            Command::new("completions")
                .about("Print a completion script")
                .arg(Arg::new("shell").value_name("SHELL").help(shells())),
        )
        .subcommand(Command::new("man").about("Print the man page"))
}

fn argument(flag: &crate::flags::Flag) -> Arg {
    let arg = Arg::new(flag.long)
        .long(flag.long)
        .help(flag.help)
        .help_heading(flag.group);
    let arg = match flag.short {
        Some(short) if short.chars().count() == 1 => {
            arg.short(short.chars().next().unwrap_or_default())
        }
        // clap knows only short names of one letter.
        Some(short) => arg.help(format!("{} (or -{short})", flag.help)),
        None => arg,
    };
    match flag.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Value(name) => arg.value_name(name).action(ArgAction::Append),
        Takes::OptionalMessage => arg.value_name("MESSAGE").num_args(0..=1),
        Takes::OptionalSearch => arg.value_name("SEARCH").num_args(0..=1),
    }
}

/// Help of the command that `words` lead to, of the whole program without words; `None`
/// when there is no such command.
pub(crate) fn of(words: &[String]) -> Option<String> {
    let mut root = command();
    root.build();
    let mut command = &mut root;
    for word in words {
        command = command.find_subcommand_mut(word)?;
    }
    Some(command.render_help().to_string())
}

/// Help of `fluzo pi`.
pub(crate) fn pi() -> String {
    of(&["pi".to_owned()]).unwrap_or_default()
}

/// The shells that there are completions for.
pub(crate) fn shells() -> String {
    let names = clap_complete::Shell::value_variants().iter();
    names
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The completion script for `shell`; `None` for a shell that is not known.
pub(crate) fn completions(shell: &str) -> Option<Vec<u8>> {
    let shell: clap_complete::Shell = shell.parse().ok()?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "fluzo", &mut script);
    Some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_help_completions_and_man_page() {
        let (help, man) = (pi(), crate::man::page());
        let completions = String::from_utf8(completions("bash").unwrap()).unwrap();
        for flag in FLAGS {
            let long = format!("--{}", flag.long);
            assert!(help.contains(&long), "{long}");
            assert!(completions.contains(&long), "{long}");
            assert!(man.contains(&long.replace('-', "\\-")), "{long}");
        }
    }

    #[test]
    fn an_unknown_shell_has_no_completions() {
        assert!(completions("tcsh").is_none());
    }

    #[test]
    fn every_command_has_help() {
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for command in command().get_subcommands() {
            let help = of(&words(command.get_name())).unwrap();
            let usage = format!("Usage: fluzo {}", command.get_name());
            assert!(help.contains(&usage), "{help}");
        }
        assert!(of(&words("demo bugfix")).unwrap().contains("--scenario"));
        assert!(of(&words("demo nothing")).is_none());
    }

    #[test]
    fn the_short_help_names_codes_files_and_variables() {
        let help = of(&[]).unwrap();
        for (_, rows) in reference::sections() {
            for (name, _) in rows {
                assert!(help.contains(name), "{name}: {help}");
            }
        }
    }
}
