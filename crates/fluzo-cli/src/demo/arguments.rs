//! The command line of `fluzo demo`.

use clap::{Arg, ArgAction, Command};

use super::fixture;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The demo.
    Bugfix(Options),
    /// This text, and nothing else.
    Text(String),
}

/// Options of `fluzo demo bugfix`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Name or file of the scenario; the specification's without one.
    pub scenario: Option<String>,
    /// One result object on standard output and nothing else.
    pub json: bool,
    /// The folder stays.
    pub keep: bool,
}

/// `fluzo demo` as clap sees it.
pub(crate) fn command() -> Command {
    let names: Vec<&str> = fixture::scenario_names().collect();
    let bugfix = Command::new("bugfix")
        .about("Repair a failing test in a throw-away copy, on the open engine, with a scripted provider")
        .after_help(format!("Scenarios: {}", names.join(", ")))
        .arg(
            Arg::new("scenario")
                .long("scenario")
                .value_name("NAME|FILE.json")
                .help("What the scripted provider plays; other scenarios than `repair` end in failure"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one result object and nothing else"),
        )
        .arg(
            Arg::new("keep")
                .long("keep")
                .action(ArgAction::SetTrue)
                .help("Keep the throw-away folder and say where it is"),
        );
    Command::new("demo")
        .about("Scripted scenarios with an embedded provider")
        .subcommand_required(true)
        .subcommand(bugfix)
}

/// Reads the arguments after `fluzo demo`.
///
/// # Errors
/// The text for the user.
pub(crate) fn parse(arguments: &[String]) -> Result<Asked, String> {
    let all = ["fluzo demo".to_owned()]
        .into_iter()
        .chain(arguments.iter().cloned());
    let matches = match command().bin_name("fluzo demo").try_get_matches_from(all) {
        Ok(matches) => matches,
        Err(error) if error.use_stderr() => return Err(error.to_string()),
        Err(help) => return Ok(Asked::Text(help.to_string())),
    };
    let Some(("bugfix", matches)) = matches.subcommand() else {
        return Ok(Asked::Text(command().render_help().to_string()));
    };
    Ok(Asked::Bugfix(Options {
        scenario: matches.get_one("scenario").cloned(),
        json: matches.get_flag("json"),
        keep: matches.get_flag("keep"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn options_are_read() {
        let options = |scenario: Option<&str>, json, keep| {
            Ok(Asked::Bugfix(Options {
                scenario: scenario.map(str::to_owned),
                json,
                keep,
            }))
        };
        assert_eq!(parsed("bugfix"), options(None, false, false));
        assert_eq!(
            parsed("bugfix --json --keep --scenario gives-up"),
            options(Some("gives-up"), true, true)
        );
        for wrong in [
            "",
            "nothing",
            "bugfix --wrong",
            "bugfix more",
            "bugfix --scenario",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn help_lists_the_scenarios() {
        let Ok(Asked::Text(help)) = parsed("bugfix --help") else {
            panic!("no help");
        };
        for name in fixture::scenario_names() {
            assert!(help.contains(name), "{name}");
        }
    }
}
