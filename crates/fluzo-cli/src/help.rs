//! Help, completions and the man page, made from the table of flags.

use clap::{Arg, ArgAction, Command};

use crate::flags::{FLAGS, Takes};

/// The command line as clap sees it; used for what is printed, not for parsing.
pub(crate) fn command() -> Command {
    let pi = FLAGS.iter().fold(
        Command::new("pi")
            .about("The agent, as a drop-in for pi: no permissions are enforced")
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
        .subcommand(pi)
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
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .help("bash, elvish, fish, powershell or zsh"),
                ),
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

/// Help of the whole program.
pub(crate) fn program() -> String {
    command().render_long_help().to_string()
}

/// Help of `fluzo pi`.
pub(crate) fn pi() -> String {
    let mut command = command();
    command
        .find_subcommand_mut("pi")
        .map(|pi| pi.render_help().to_string())
        .unwrap_or_default()
}

/// The completion script for `shell`; `None` for a shell that is not known.
pub(crate) fn completions(shell: &str) -> Option<Vec<u8>> {
    let shell: clap_complete::Shell = shell.parse().ok()?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "fluzo", &mut script);
    Some(script)
}

/// The man page.
///
/// # Errors
///
/// Never, when written to memory.
pub(crate) fn man() -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut root = command();
    clap_mangen::Man::new(root.clone()).render(&mut page)?;
    if let Some(pi) = root.find_subcommand_mut("pi") {
        clap_mangen::Man::new(pi.clone()).render_options_section(&mut page)?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_help_completions_and_man_page() {
        let (help, man) = (pi(), String::from_utf8(man().unwrap()).unwrap());
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
}
