//! What pi has and this version has not: its subcommands and options. They are refused by
//! name, so that none is mistaken for a message or a slip of the pen.

/// Words that make a subcommand of the first argument.
const SUBCOMMANDS: [&str; 3] = ["config", "auth", "mcp"];

/// An option: long name, short name, and what does something like it.
type Missing = (&'static str, Option<&'static str>, Option<&'static str>);

const SESSIONS: Option<&str> =
    Some("`--continue` goes on with the newest session, `--session ID` opens another");

const OPTIONS: &[Missing] = &[
    ("resume", Some("r"), SESSIONS),
    ("extension", Some("e"), None),
    ("use-theme", None, None),
    ("tui-mode", None, None),
];

/// Why the first of these arguments of `fluzo pi` cannot be run, when it is one of pi's
/// subcommands.
pub(crate) fn subcommand(arguments: &[String]) -> Option<String> {
    let first = arguments.first()?.as_str();
    SUBCOMMANDS.contains(&first).then(|| {
        format!(
            "`pi {first}` is not available in this version\nhint: to send the word as a message: `fluzo pi -p {first}`"
        )
    })
}

/// Why `argument`, dashes included and without a value, cannot be obeyed, when it is one of
/// pi's options: the problem, and a hint.
pub(crate) fn option(argument: &str) -> Option<(String, Option<&'static str>)> {
    let found = OPTIONS.iter().find(|(long, short, _)| {
        argument.strip_prefix("--").map_or_else(
            || short.is_some() && argument.strip_prefix('-') == *short,
            |name| name == *long,
        )
    });
    found.map(|(_, _, hint)| {
        (
            format!("`{argument}` is not available in this version"),
            *hint,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_not_also_there() {
        for (long, short, _) in OPTIONS {
            assert!(crate::flags::find(&format!("--{long}")).is_none(), "{long}");
            let short = short.map(|short| format!("-{short}"));
            assert!(
                short.is_none_or(|s| crate::flags::find(&s).is_none()),
                "{long}"
            );
        }
    }

    #[test]
    fn only_the_first_word_is_a_subcommand() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for word in SUBCOMMANDS {
            assert!(subcommand(&words(word)).is_some(), "{word}");
            assert!(
                subcommand(&words(&format!("-p {word}"))).is_none(),
                "{word}"
            );
        }
        assert!(subcommand(&["config of all".to_owned()]).is_none());
        assert!(subcommand(&[]).is_none());
    }
}
