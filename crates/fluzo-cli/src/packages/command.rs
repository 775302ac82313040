//! What was typed after `fluzo pi install`, `remove`, `uninstall`, `update` or `list`. Parsing,
//! help, completions and the man page derive from the tables here.

use clap::{Arg, ArgAction, Command};
use fluzo_stdx::similar;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Install,
    Remove,
    Update,
    List,
}

/// A command: its names, what it takes, what it does.
struct Def {
    word: Word,
    names: &'static [&'static str],
    source: Option<&'static str>,
    usage: &'static str,
    about: &'static str,
}

const COMMANDS: &[Def] = &[
    Def {
        word: Word::Install,
        names: &["install"],
        source: Some("npm:NAME[@VERSION], git:HOST/USER/REPO[@REF], an address of git, or a path"),
        usage: "pi install <source> [-l]",
        about: "Install a package and add it to the settings",
    },
    Def {
        word: Word::Remove,
        names: &["remove", "uninstall"],
        source: Some("The package as it was installed; version and reference do not count"),
        usage: "pi remove <source> [-l]",
        about: "Remove a package and take it out of the settings",
    },
    Def {
        word: Word::Update,
        names: &["update"],
        source: Some("One package; without it all, and `self` or `pi` for the program"),
        usage: "pi update [source|self|pi] [--self] [--extensions] [--extension <source>] [--force]",
        about: "Update packages, and install those that are missing",
    },
    Def {
        word: Word::List,
        names: &["list"],
        source: None,
        usage: "pi list",
        about: "List the packages in the settings",
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    AllowScripts,
    Approve,
    Extension,
    Extensions,
    Force,
    Help,
    Local,
    NoApprove,
    Own,
}

/// An option, and which commands take it.
struct Opt {
    switch: Switch,
    long: &'static str,
    short: Option<&'static str>,
    value: Option<&'static str>,
    of: &'static [Word],
    help: &'static str,
}

const ALL: &[Word] = &[Word::Install, Word::Remove, Word::Update, Word::List];
const FETCHING: &[Word] = &[Word::Install, Word::Update];

const OPTIONS: &[Opt] = &[
    Opt {
        switch: Switch::Local,
        long: "local",
        short: Some("l"),
        value: None,
        of: &[Word::Install, Word::Remove],
        help: "In the project's .pi instead of the agent folder",
    },
    Opt {
        switch: Switch::AllowScripts,
        long: "allow-scripts",
        short: None,
        value: None,
        of: FETCHING,
        help: "Run the install scripts of packages and of what they need",
    },
    Opt {
        switch: Switch::Own,
        long: "self",
        short: None,
        value: None,
        of: &[Word::Update],
        help: "The program itself, which tells how it is updated",
    },
    Opt {
        switch: Switch::Extensions,
        long: "extensions",
        short: None,
        value: None,
        of: &[Word::Update],
        help: "All packages and not the program",
    },
    Opt {
        switch: Switch::Extension,
        long: "extension",
        short: None,
        value: Some("SOURCE"),
        of: &[Word::Update],
        help: "One package",
    },
    Opt {
        switch: Switch::Force,
        long: "force",
        short: None,
        value: None,
        of: &[Word::Update],
        help: "Fetch again what is up to date",
    },
    Opt {
        switch: Switch::Approve,
        long: "approve",
        short: Some("a"),
        value: None,
        of: ALL,
        help: "Trust this project for this run: its packages and its npmCommand count",
    },
    Opt {
        switch: Switch::NoApprove,
        long: "no-approve",
        short: Some("na"),
        value: None,
        of: ALL,
        help: "Do not trust this project in this run",
    },
    Opt {
        switch: Switch::Help,
        long: "help",
        short: Some("h"),
        value: None,
        of: ALL,
        help: "Print help",
    },
];

/// What is updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Packages, and a word about the program.
    Everything,
    /// The packages and the program, asked for by name.
    Both,
    /// The program.
    Own,
    /// The packages.
    Packages,
    /// One package.
    One(String),
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Help,
    Install(String),
    Remove(String),
    Update(Target),
    List,
}

/// A command with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) action: Action,
    /// In the project.
    pub(super) local: bool,
    /// The user consents to scripts.
    pub(super) allow_scripts: bool,
    /// Fetch what is up to date.
    pub(super) force: bool,
    /// The answer whether the project is trusted, if one was given.
    pub(super) approve: Option<bool>,
}

/// Whether `word` is one of the commands.
pub(crate) fn is_command(word: &str) -> bool {
    find(word).is_some()
}

fn find(word: &str) -> Option<&'static Def> {
    COMMANDS.iter().find(|def| def.names.contains(&word))
}

/// The commands as clap sees them; used for what is printed, not for parsing.
pub(crate) fn commands() -> Vec<Command> {
    let command = |def: &Def| {
        let mut command = Command::new(def.names[0])
            .about(def.about)
            .disable_help_flag(true);
        for alias in &def.names[1..] {
            command = command.visible_alias(*alias);
        }
        if let Some(source) = def.source {
            let required = def.word != Word::Update;
            let arg = Arg::new("source").value_name("SOURCE").help(source);
            command = command.arg(arg.required(required));
        }
        let options = OPTIONS
            .iter()
            .filter(|option| option.of.contains(&def.word));
        options.fold(command, |command, option| command.arg(option.arg()))
    };
    COMMANDS.iter().map(command).collect()
}

impl Opt {
    fn arg(&self) -> Arg {
        let arg = Arg::new(self.long).long(self.long).help(self.help);
        let arg = match self.short {
            Some(short) if short.len() == 1 => arg.short(short.chars().next().unwrap_or_default()),
            // clap knows only short names of one letter.
            Some(short) => arg.help(format!("{} (or -{short})", self.help)),
            None => arg,
        };
        match self.value {
            Some(value) => arg.value_name(value),
            None => arg.action(ArgAction::SetTrue),
        }
    }

    fn find(argument: &str, word: Word) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| {
            let name = argument
                .strip_prefix("--")
                .map(|name| name == option.long)
                .or_else(|| Some(Some(argument.strip_prefix('-')?) == option.short));
            name == Some(true) && option.of.contains(&word)
        })
    }
}

/// Reads `rest`, the arguments after the command `name`.
///
/// # Errors
///
/// The lines for the user.
pub(super) fn parse(name: &str, rest: &[String]) -> Result<Asked, String> {
    let Some(def) = find(name) else {
        return Err(format!("no such command: `{name}`"));
    };
    let mut typed = Typed::default();
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        match Opt::find(argument, def.word) {
            Some(option) if option.value.is_some() => {
                let value = rest.next().filter(|value| !value.starts_with('-'));
                typed.value(option, value);
            }
            Some(option) => typed.switches.push(option.switch),
            None if argument.starts_with('-') => typed.problem(unknown(argument, name, def)),
            None if def.source.is_some() && typed.source.is_none() => {
                typed.source = Some(argument.clone());
            }
            None => typed.problem(format!("Unexpected argument {argument}.\n{}", usage(def))),
        }
    }
    typed.asked(name, def)
}

fn usage(def: &Def) -> String {
    format!("Usage: {}", def.usage)
}

fn unknown(argument: &str, name: &str, def: &Def) -> String {
    let own = OPTIONS
        .iter()
        .filter(|option| option.of.contains(&def.word));
    let word = argument.trim_start_matches('-');
    let close = similar::close(word, own.map(|option| option.long));
    let hint = match close.as_slice() {
        [] => usage(def),
        names => format!("Did you mean --{}?", names.join(", --")),
    };
    format!("Unknown option {argument} for \"{name}\".\n{hint}")
}

#[derive(Default)]
struct Typed {
    switches: Vec<Switch>,
    source: Option<String>,
    extension: Option<String>,
    /// The first one counts.
    problem: Option<String>,
}

impl Typed {
    fn problem(&mut self, text: impl Into<String>) {
        self.problem.get_or_insert_with(|| text.into());
    }

    fn value(&mut self, option: &Opt, value: Option<&String>) {
        match value {
            None => self.problem(format!("Missing value for --{}.", option.long)),
            Some(_) if self.extension.is_some() => {
                self.problem(format!("--{} can only be provided once", option.long));
            }
            Some(value) => self.extension = Some(value.clone()),
        }
    }

    fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }

    fn asked(mut self, name: &str, def: &Def) -> Result<Asked, String> {
        let action = if self.has(Switch::Help) {
            Action::Help
        } else {
            if let Some(problem) = self.problem.take().or_else(|| self.conflict()) {
                return Err(problem);
            }
            self.action(name, def)?
        };
        let mut answers = self.switches.iter().filter_map(|switch| match switch {
            Switch::Approve => Some(true),
            Switch::NoApprove => Some(false),
            _ => None,
        });
        Ok(Asked {
            action,
            local: self.has(Switch::Local),
            allow_scripts: self.has(Switch::AllowScripts),
            force: self.has(Switch::Force),
            approve: answers.next_back(),
        })
    }

    fn conflict(&self) -> Option<String> {
        let all = self.has(Switch::Own) || self.has(Switch::Extensions);
        let text = match (&self.extension, &self.source) {
            (Some(_), _) if all => "--extension cannot be combined with --self or --extensions",
            (Some(_), Some(_)) => "--extension cannot be combined with a positional source",
            (None, Some(_)) if all => {
                "positional update targets cannot be combined with --self or --extensions"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn action(&mut self, name: &str, def: &Def) -> Result<Action, String> {
        let source = self.source.take();
        Ok(match def.word {
            Word::List => Action::List,
            Word::Update => Action::Update(self.target(source)),
            Word::Install => Action::Install(source.ok_or_else(|| missing(name, def))?),
            Word::Remove => Action::Remove(source.ok_or_else(|| missing(name, def))?),
        })
    }

    fn target(&mut self, source: Option<String>) -> Target {
        let (own, packages) = (self.has(Switch::Own), self.has(Switch::Extensions));
        match self.extension.take().or(source) {
            Some(word) if word == "self" || word == "pi" => Target::Own,
            Some(source) => Target::One(source),
            None if own && !packages => Target::Own,
            None if packages && own => Target::Both,
            None if packages => Target::Packages,
            None => Target::Everything,
        }
    }
}

fn missing(name: &str, def: &Def) -> String {
    format!("Missing {name} source.\n{}", usage(def))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words[0], &words[1..])
    }

    #[track_caller]
    fn is(line: &str, action: Action) {
        assert_eq!(read(line).unwrap().action, action, "{line}");
    }

    #[test]
    fn what_commands_take() {
        is("install npm:a", Action::Install("npm:a".into()));
        is("install -l ./x", Action::Install("./x".into()));
        is("remove npm:a --local", Action::Remove("npm:a".into()));
        is("uninstall npm:a", Action::Remove("npm:a".into()));
        is("list", Action::List);
        is("list -h x --nope", Action::Help);
        is("update", Action::Update(Target::Everything));
        is("update self", Action::Update(Target::Own));
        is("update pi --force", Action::Update(Target::Own));
        is("update --self", Action::Update(Target::Own));
        is("update --extensions", Action::Update(Target::Packages));
        is("update --self --extensions", Action::Update(Target::Both));
        is("update npm:a", Action::Update(Target::One("npm:a".into())));
        is(
            "update --extension npm:a",
            Action::Update(Target::One("npm:a".into())),
        );
        let asked = read("install x -l --allow-scripts -a -na").unwrap();
        assert!(asked.local && asked.allow_scripts && !asked.force);
        assert_eq!(asked.approve, Some(false));
        assert_eq!(read("list").unwrap().approve, None);
    }

    #[test]
    fn errors_of_options() {
        let rows = [
            (
                "install",
                "Missing install source.\nUsage: pi install <source> [-l]",
            ),
            (
                "remove",
                "Missing remove source.\nUsage: pi remove <source> [-l]",
            ),
            (
                "uninstall -l",
                "Missing uninstall source.\nUsage: pi remove <source> [-l]",
            ),
            (
                "install a b",
                "Unexpected argument b.\nUsage: pi install <source> [-l]",
            ),
            ("list x", "Unexpected argument x.\nUsage: pi list"),
            ("list -l", "Unknown option -l for \"list\".\nUsage: pi list"),
            (
                "install a --forse",
                "Unknown option --forse for \"install\".\nUsage: pi install <source> [-l]",
            ),
            (
                "update --extenson a",
                "Unknown option --extenson for \"update\".\nDid you mean --extension?",
            ),
            ("update --extension", "Missing value for --extension."),
            (
                "update --extension --force",
                "Missing value for --extension.",
            ),
            (
                "update --extension a --extension b",
                "--extension can only be provided once",
            ),
            (
                "update --extension a --self",
                "--extension cannot be combined with --self or --extensions",
            ),
            (
                "update --extensions --extension a",
                "--extension cannot be combined with --self or --extensions",
            ),
            (
                "update a --extension b",
                "--extension cannot be combined with a positional source",
            ),
            (
                "update a --self",
                "positional update targets cannot be combined with --self or --extensions",
            ),
            (
                "update self --extensions",
                "positional update targets cannot be combined with --self or --extensions",
            ),
        ];
        for (line, text) in rows {
            assert_eq!(read(line).unwrap_err(), text, "{line}");
        }
    }

    #[test]
    fn help_names_every_option() {
        for mut command in commands() {
            let (name, help) = (
                command.get_name().to_owned(),
                command.render_help().to_string(),
            );
            let word = find(&name).unwrap().word;
            for option in OPTIONS {
                let is_named = help.contains(&format!("--{} ", option.long))
                    || help.contains(&format!("--{}\n", option.long));
                assert_eq!(
                    is_named,
                    option.of.contains(&word),
                    "{} {help}",
                    option.long
                );
            }
        }
    }
}
