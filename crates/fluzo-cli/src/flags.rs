//! Every flag of `fluzo pi`, declared once. Parsing, help, completions, the man page
//! and their tests derive from this table.

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing.
    Nothing,
    /// A value of this kind.
    Value(&'static str),
    /// A message, if the next argument can be one.
    OptionalMessage,
    /// A search text, if the next argument can be one.
    OptionalSearch,
}

/// A flag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    pub(crate) id: Id,
    pub(crate) long: &'static str,
    pub(crate) short: Option<&'static str>,
    pub(crate) takes: Takes,
    pub(crate) group: &'static str,
    pub(crate) help: &'static str,
}

/// Names flags in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    /// Taken and without effect: what it switches off does not exist.
    Accepted,
    ApiKey,
    AppendSystemPrompt,
    Approve,
    Continue,
    EnvFile,
    ExcludeTools,
    Export,
    Help,
    ListModels,
    Mode,
    Model,
    Models,
    NoContextFiles,
    NoPromptTemplates,
    NoApprove,
    Fork,
    Name,
    NoBuiltinTools,
    NoSession,
    NoSkills,
    NoThemes,
    NoTools,
    Offline,
    Print,
    PrintSystemPrompt,
    Prompt,
    PromptTemplate,
    Provider,
    Session,
    SessionDir,
    BeginAs,
    Skill,
    SystemPrompt,
    Theme,
    Thinking,
    Tools,
    Version,
    Workspace,
}

const RUN: &str = "Running";
const MODEL: &str = "Model";
const SESSION: &str = "Session";
const PROMPT: &str = "Tools and prompt";
const RESOURCES: &str = "Skills, templates, themes, context files";
const OTHER: &str = "Other";
const ACCEPTED: &str = "Accepted without effect, as there is nothing to switch off";

/// All flags, in the order of the help.
pub(crate) const FLAGS: &[Flag] = &[
    flag(
        Id::Print,
        "print",
        Some("p"),
        Takes::OptionalMessage,
        RUN,
        "Run once, print the last response, exit",
    ),
    flag(
        Id::Mode,
        "mode",
        None,
        Takes::Value("text|json|rpc"),
        RUN,
        "What standard output carries",
    ),
    flag(
        Id::Prompt,
        "prompt",
        None,
        Takes::Value("TEXT"),
        RUN,
        "A message, also when it begins with - or @",
    ),
    flag(
        Id::Workspace,
        "workspace",
        None,
        Takes::Value("DIR"),
        RUN,
        "Working folder of session and tools",
    ),
    flag(
        Id::Approve,
        "approve",
        Some("a"),
        Takes::Nothing,
        RUN,
        "Trust what the project's .pi brings for this run",
    ),
    flag(
        Id::NoApprove,
        "no-approve",
        Some("na"),
        Takes::Nothing,
        RUN,
        "Do not trust it for this run, whatever was answered",
    ),
    flag(
        Id::Provider,
        "provider",
        None,
        Takes::Value("NAME"),
        MODEL,
        "Provider of the model",
    ),
    flag(
        Id::Model,
        "model",
        None,
        Takes::Value("PATTERN"),
        MODEL,
        "Model: id, provider/id, part of a name, with :LEVEL",
    ),
    flag(
        Id::Models,
        "models",
        None,
        Takes::Value("PATTERNS"),
        MODEL,
        "Models to cycle through: patterns separated by commas",
    ),
    flag(
        Id::Thinking,
        "thinking",
        None,
        Takes::Value("LEVEL"),
        MODEL,
        "off, minimal, low, medium, high or xhigh",
    ),
    flag(
        Id::ApiKey,
        "api-key",
        None,
        Takes::Value("KEY"),
        MODEL,
        "Key for the provider of the model",
    ),
    flag(
        Id::EnvFile,
        "env-file",
        None,
        Takes::Value("FILE"),
        MODEL,
        "Take keys from a file of variables too",
    ),
    flag(
        Id::ListModels,
        "list-models",
        None,
        Takes::OptionalSearch,
        MODEL,
        "List models, perhaps only those that match",
    ),
    flag(
        Id::Continue,
        "continue",
        Some("c"),
        Takes::Nothing,
        SESSION,
        "Go on with the newest session of this folder",
    ),
    flag(
        Id::Session,
        "session",
        None,
        Takes::Value("PATH|ID"),
        SESSION,
        "Open a session by file or beginning of its id",
    ),
    flag(
        Id::SessionDir,
        "session-dir",
        None,
        Takes::Value("DIR"),
        SESSION,
        "Folder for session files",
    ),
    flag(
        Id::Fork,
        "fork",
        None,
        Takes::Value("ID"),
        SESSION,
        "Copy a session, by file or id, into a new one of this folder",
    ),
    flag(
        Id::BeginAs,
        "session-id",
        None,
        Takes::Value("ID"),
        SESSION,
        "Go on with the session of exactly this id, else begin it",
    ),
    flag(
        Id::Name,
        "name",
        Some("n"),
        Takes::Value("NAME"),
        SESSION,
        "Name the session",
    ),
    flag(
        Id::NoSession,
        "no-session",
        None,
        Takes::Nothing,
        SESSION,
        "Keep the session in memory only",
    ),
    flag(
        Id::Export,
        "export",
        None,
        Takes::Value("SESSION"),
        SESSION,
        "Write a session file as a page (HTML or .jsonl), exit",
    ),
    flag(
        Id::Tools,
        "tools",
        Some("t"),
        Takes::Value("LIST"),
        PROMPT,
        "Tools on offer, separated by commas",
    ),
    flag(
        Id::ExcludeTools,
        "exclude-tools",
        Some("xt"),
        Takes::Value("LIST"),
        PROMPT,
        "Tools to leave out",
    ),
    flag(
        Id::NoBuiltinTools,
        "no-builtin-tools",
        Some("nbt"),
        Takes::Nothing,
        PROMPT,
        "No built-in tools, unless --tools names some",
    ),
    flag(
        Id::NoTools,
        "no-tools",
        Some("nt"),
        Takes::Nothing,
        PROMPT,
        "No tools, unless --tools names some",
    ),
    flag(
        Id::SystemPrompt,
        "system-prompt",
        None,
        Takes::Value("TEXT|FILE"),
        PROMPT,
        "Replaces the system prompt",
    ),
    flag(
        Id::AppendSystemPrompt,
        "append-system-prompt",
        None,
        Takes::Value("TEXT|FILE"),
        PROMPT,
        "Put after the system prompt; may be repeated",
    ),
    flag(
        Id::PrintSystemPrompt,
        "print-system-prompt",
        None,
        Takes::Nothing,
        PROMPT,
        "Print the system prompt and exit",
    ),
    flag(
        Id::Skill,
        "skill",
        None,
        Takes::Value("PATH"),
        RESOURCES,
        "Add a skill or a folder of them; may be repeated",
    ),
    flag(
        Id::NoSkills,
        "no-skills",
        Some("ns"),
        Takes::Nothing,
        RESOURCES,
        "Use no skills but those of --skill",
    ),
    flag(
        Id::PromptTemplate,
        "prompt-template",
        None,
        Takes::Value("PATH"),
        RESOURCES,
        "Add a template or a folder of them; may be repeated",
    ),
    flag(
        Id::NoPromptTemplates,
        "no-prompt-templates",
        Some("np"),
        Takes::Nothing,
        RESOURCES,
        "Use no templates but those of --prompt-template",
    ),
    flag(
        Id::Theme,
        "theme",
        None,
        Takes::Value("PATH"),
        RESOURCES,
        "Add a theme or a folder of them; may be repeated",
    ),
    flag(
        Id::NoThemes,
        "no-themes",
        None,
        Takes::Nothing,
        RESOURCES,
        "Use no themes but built-in ones and those of --theme",
    ),
    flag(
        Id::NoContextFiles,
        "no-context-files",
        Some("nc"),
        Takes::Nothing,
        RESOURCES,
        "Leave AGENTS.md, CLAUDE.md and the like out",
    ),
    flag(
        Id::Help,
        "help",
        Some("h"),
        Takes::Nothing,
        OTHER,
        "Print help",
    ),
    flag(
        Id::Version,
        "version",
        Some("v"),
        Takes::Nothing,
        OTHER,
        "Print the version",
    ),
    flag(
        Id::Offline,
        "offline",
        None,
        Takes::Nothing,
        ACCEPTED,
        "Nothing is contacted unasked; commands get PI_OFFLINE",
    ),
    accepted("no-extensions", Some("ne"), "There are no extensions"),
    accepted("no-mcp", None, "There are no MCP servers"),
    accepted("verbose", None, "There is no start-up text to lengthen"),
];

const fn accepted(long: &'static str, short: Option<&'static str>, help: &'static str) -> Flag {
    flag(Id::Accepted, long, short, Takes::Nothing, ACCEPTED, help)
}

const fn flag(
    id: Id,
    long: &'static str,
    short: Option<&'static str>,
    takes: Takes,
    group: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        id,
        long,
        short,
        takes,
        group,
        help,
    }
}

/// The flag that `argument` spells, dashes included.
pub(crate) fn find(argument: &str) -> Option<&'static Flag> {
    if let Some(long) = argument.strip_prefix("--") {
        return FLAGS.iter().find(|flag| flag.long == long);
    }
    let short = argument.strip_prefix('-')?;
    FLAGS.iter().find(|flag| flag.short == Some(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_help_is_one_short_line() {
        let mut names = std::collections::HashSet::new();
        for flag in FLAGS {
            assert!(names.insert(flag.long), "{}", flag.long);
            assert!(
                flag.short.is_none_or(|short| names.insert(short)),
                "{}",
                flag.long
            );
            assert!(
                flag.help.len() <= 60 && !flag.help.ends_with('.'),
                "{}",
                flag.long
            );
        }
    }
}
