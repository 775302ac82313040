//! What the process was started with, read once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;

/// Arguments, environment, folders and streams of the process.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// Name the program was called by, without folders.
    pub(crate) program: String,
    /// Arguments after it.
    pub(crate) arguments: Vec<String>,
    /// Environment variables with valid names and values.
    pub(crate) environment: BTreeMap<String, String>,
    /// The environment as commands inherit it.
    pub(crate) raw_environment: Vec<(OsString, OsString)>,
    /// Working folder, or why there is none.
    pub(crate) cwd: Result<PathBuf, String>,
    /// Home folder.
    pub(crate) home: Option<PathBuf>,
    /// Standard input is a terminal.
    pub(crate) stdin_is_terminal: bool,
}

impl Surroundings {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let mut arguments = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
        let program = arguments.next().unwrap_or_default();
        let name = Path::new(&program).file_name();
        let raw_environment: Vec<_> = std::env::vars_os().collect();
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        Self {
            program: name
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default(),
            arguments: arguments.collect(),
            environment: raw_environment.iter().filter_map(text).collect(),
            raw_environment,
            cwd: std::env::current_dir().map_err(|error| error.to_string()),
            home: std::env::home_dir(),
            stdin_is_terminal: std::io::stdin().is_terminal(),
        }
    }

    /// A variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// `~` and `~/x` with the home folder in place; other paths below the working folder
    /// if there is one.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        let rest = text.strip_prefix("~/").or((text == "~").then_some(""));
        match (rest, &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => match &self.cwd {
                Ok(cwd) => cwd.join(text),
                Err(_) => PathBuf::from(text),
            },
        }
    }
}

/// The wall clock in Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Today's local date as `YYYY-MM-DD`.
pub(crate) fn local_date() -> String {
    let now = jiff::Timestamp::now();
    now.to_zoned_datetime(local_zone()).date().to_string()
}

/// The zone that the machine is set to. It is read by itself: for a name, as in `TZ`, the whole
/// database of zones is walked through, which takes longer than anything else at a start.
fn local_zone() -> TimeZone {
    let named = std::env::var_os("TZ").is_some();
    let own = std::fs::read("/etc/localtime").ok().filter(|_| !named);
    let zone = own.and_then(|data| TimeZone::tzif("Local", &data).ok());
    zone.unwrap_or_else(TimeZone::system)
}
