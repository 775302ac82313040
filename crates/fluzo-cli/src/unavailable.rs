//! What pi has and this version has not: its subcommands and options. They are refused by
//! name, so that none is mistaken for a message or a slip of the pen.

/// Words that make a subcommand of the first argument.
const SUBCOMMANDS: [&str; 3] = ["config", "auth", "mcp"];

/// An option: long name, short name, and what does something like it.
type Missing = (&'static str, Option<&'static str>, Option<&'static str>);

const SESSIONS: Option<&str> =
    Some("`--continue` goes on with the newest session, `--session ID` opens another");
const NO_TOOLS: Option<&str> = Some("`--no-tools` leaves out all tools");

const OPTIONS: &[Missing] = &[
    ("resume", Some("r"), SESSIONS),
    ("fork", None, SESSIONS),
    ("session-id", None, SESSIONS),
    ("name", Some("n"), None),
    ("no-builtin-tools", Some("nbt"), NO_TOOLS),
    ("extension", Some("e"), None),
    ("use-theme", None, None),
    ("tui-mode", None, None),
