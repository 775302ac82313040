//! Environment variables of `fluzo pi`, each declared once. Help, man page, the layers of
//! settings and their tests derive from this table.

use fluzo_settings::key;
use serde_json::{Map, Value};

/// The variable that names where shared sessions are looked at.
pub(crate) const SHARE_VIEWER_URL: &str = "PI_SHARE_VIEWER_URL";
/// The variable that asks for long caching.
pub(crate) const CACHE_RETENTION: &str = "PI_CACHE_RETENTION";
/// The variable that names the agent folder.
pub(crate) const AGENT_FOLDER: &str = "PI_CODING_AGENT_DIR";
/// What `--offline` sets for commands.
pub(crate) const OFFLINE: [&str; 2] = ["PI_OFFLINE", "PI_SKIP_VERSION_CHECK"];

/// A variable, or several of one kind, separated by commas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    pub(crate) names: &'static str,
    /// What it holds.
    pub(crate) takes: &'static str,
    /// What counts without it.
    pub(crate) default: Option<&'static str>,
    /// What it does, or what pi does with it.
    pub(crate) doc: &'static str,
    pub(crate) effect: Effect,
}

/// What becomes of a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// It does what it says.
    Acts,
    /// It is accepted, and there is nothing that it could change, because …
    None(&'static str),
    /// It is the default of a setting, below every file.
    Default(&'static str, Reading),
    /// It goes before a setting in any file.
    Before(&'static str, Reading),
}

/// How the value of a setting is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    /// As text.
    Text,
    /// `1`, `true` and `yes` are on, anything else is off.
    Switch,
}

const NO_TERMINAL: Effect = Effect::None("as there is no terminal interface yet");
const NEVER_ASKED: Effect = Effect::None("as Fluzo connects only to what is configured");
const NOT_TIMED: Effect = Effect::None("as Fluzo does not time its start");

/// All variables but those of providers, in the order of the help.
pub(crate) const VARIABLES: &[Variable] = &[
    row(
        AGENT_FOLDER,
        "folder",
        Some("~/.pi/agent"),
        "folder of settings, keys and sessions",
        Effect::Acts,
    ),
    row(
        "PI_CODING_AGENT_SESSION_DIR",
        "folder",
        None,
        "folder for session files, before the setting `sessionDir`",
        Effect::Before(key::SESSION_DIR, Reading::Text),
    ),
    row(
        CACHE_RETENTION,
        "`long`",
        None,
        "servers are asked to keep prompts as long as they offer",
        Effect::Acts,
    ),
    row(
        SHARE_VIEWER_URL,
        "URL",
        Some("https://pi.dev/session/"),
        "beginning of the link to a shared session",
        Effect::Acts,
    ),
    row(
        "PI_CLEAR_ON_SHRINK",
        "`1`",
        None,
        "default of the setting `terminal.clearOnShrink`",
        Effect::Default(key::TERMINAL_CLEAR_ON_SHRINK, Reading::Switch),
    ),
    row(
        "PI_HARDWARE_CURSOR",
        "`1`",
        None,
        "default of the setting `showHardwareCursor`",
        Effect::Default(key::SHOW_HARDWARE_CURSOR, Reading::Switch),
    ),
    row(
        "PI_TELEMETRY",
        "`1`, `true`, `yes`, else off",
        None,
        "goes before the setting `enableInstallTelemetry`; nothing is reported in any case",
        Effect::Before(key::ENABLE_INSTALL_TELEMETRY, Reading::Switch),
    ),
    row(
        "PI_OFFLINE",
        "`1`",
        None,
        "starts without the network",
        NEVER_ASKED,
    ),
    row(
        "PI_SKIP_VERSION_CHECK",
        "`1`",
        None,
        "looks for no new version",
        NEVER_ASKED,
    ),
    row(
        "PI_PACKAGE_DIR",
        "folder",
        None,
        "folder with README.md, docs and examples, which the model is told of",
        Effect::Acts,
    ),
    row(
        "PI_OAUTH_CALLBACK_HOST",
        "host",
        Some("127.0.0.1"),
        "where a sign-in listens for the browser",
        Effect::None("as no command of this version signs in"),
    ),
    row(
        "PI_AI_ANTIGRAVITY_VERSION",
        "version",
        None,
        "name of the client at a former provider",
        Effect::None("as this provider no longer exists"),
    ),
    row(
        "PI_STARTUP_BENCHMARK, PI_TIMING",
        "`1`",
        None,
        "time the start",
        NOT_TIMED,
    ),
    row(
        "PI_TUI_WRITE_LOG, PI_DEBUG_REDRAW, PI_TUI_DEBUG",
        "file, `1`",
        None,
        "logs of the terminal interface",
        NO_TERMINAL,
    ),
    row(
        "VISUAL, EDITOR",
        "command",
        None,
        "editor for long messages",
        NO_TERMINAL,
    ),
    row(
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY",
        "URL",
        None,
        "proxy for https, http, both; also in small letters",
        Effect::Acts,
    ),
    row(
        "NO_PROXY",
        "list",
        None,
        "hosts reached without one: names, addresses, networks, *",
        Effect::Acts,
    ),
    row(
        "SSL_CERT_FILE, NODE_EXTRA_CA_CERTS",
        "file",
        None,
        "authorities (PEM) trusted besides the built-in ones",
        Effect::Acts,
    ),
];

const fn row(
    names: &'static str,
    takes: &'static str,
    default: Option<&'static str>,
    doc: &'static str,
    effect: Effect,
) -> Variable {
    Variable {
        names,
        takes,
        default,
        doc,
        effect,
    }
}

impl Variable {
    /// What it holds and does, in one line.
    pub(crate) fn meaning(&self) -> String {
        let default = self.default.map(|default| format!(" (default: {default})"));
        let none = match self.effect {
            Effect::None(why) => format!("; no effect here, {why}"),
            _ => String::new(),
        };
        format!(
            "{}: {}{}{none}",
            self.takes,
            self.doc,
            default.unwrap_or_default()
        )
    }
}

/// Layers of settings that variables make: one below every file, and one above. `read` gives
/// variables that are set and not empty.
pub(crate) fn layers<'a>(read: impl Fn(&str) -> Option<&'a str>) -> (Value, Value) {
    let (mut below, mut above) = (Map::new(), Map::new());
    for variable in VARIABLES {
        let (layer, key, reading) = match variable.effect {
            Effect::Default(key, reading) => (&mut below, key, reading),
            Effect::Before(key, reading) => (&mut above, key, reading),
            Effect::Acts | Effect::None(_) => continue,
        };
        if let Some(text) = read(variable.names) {
            put(layer, key, reading.value(text));
        }
    }
    (below.into(), above.into())
}

impl Reading {
    fn value(self, text: &str) -> Value {
        match self {
            Self::Text => text.into(),
            Self::Switch => ["1", "true", "yes"]
                .iter()
                .any(|on| text.eq_ignore_ascii_case(on))
                .into(),
        }
    }
}

/// Puts a value where the dots of `key` lead.
pub(crate) fn put(layer: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            layer.insert(key.to_owned(), value);
        }
        Some((parent, rest)) => {
            let below = layer
                .entry(parent)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(below) = below {
                put(below, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fluzo_settings::{OPEN, Settings, Source};
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_below_or_above_the_files() {
        let set = [
            ("PI_CODING_AGENT_SESSION_DIR", "~/s"),
            ("PI_TELEMETRY", "no"),
            ("PI_CLEAR_ON_SHRINK", "1"),
            ("PI_HARDWARE_CURSOR", "1"),
        ];
        let read = |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, v)| *v);
        let (below, above) = layers(read);
        let file = json!({
            "sessionDir": "x",
            "enableInstallTelemetry": true,
            "terminal": {"clearOnShrink": false},
        });
        let settings = Settings::resolve(
            OPEN,
            &[
                (Source::Environment, below),
                (Source::Global, file),
                (Source::Environment, above),
            ],
        );
        let rows = [
            (key::SESSION_DIR, json!("~/s"), Source::Environment),
            (
                key::ENABLE_INSTALL_TELEMETRY,
                json!(false),
                Source::Environment,
            ),
            (key::TERMINAL_CLEAR_ON_SHRINK, json!(false), Source::Global),
            (key::SHOW_HARDWARE_CURSOR, json!(true), Source::Environment),
        ];
        for (key, value, source) in rows {
            assert_eq!(settings.value(key), &value, "{key}");
            assert_eq!(settings.source(key), Some(source), "{key}");
        }
        assert!(settings.problems().is_empty());
        assert_eq!(layers(|_| None), (json!({}), json!({})));
    }

    #[test]
    fn every_variable_says_what_it_holds_and_does_or_why_not() {
        for variable in VARIABLES {
            let meaning = variable.meaning();
            assert!(meaning.starts_with(variable.takes), "{meaning}");
            if let Effect::None(why) = variable.effect {
                assert!(why.starts_with("as "), "{meaning}");
            }
            for name in OFFLINE {
                assert!(VARIABLES.iter().any(|known| known.names == name));
            }
        }
    }
}
