//! Which session is used, from flags and what is on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_session::jsonl::locate::{self, Found};
use fluzo_session::{Header, JsonlStore, MemoryStore, SessionStore};
use fluzo_stdx::error::with_causes;
use fluzo_stdx::ids::IdSource;
use fluzo_stdx::time::iso_utc;

use crate::arguments::Typed;
use crate::flags::Id;
use crate::pi::Refusal;

/// Where sessions are.
pub(crate) struct Places<'a> {
    /// Folder for those of this working folder.
    pub(crate) folder: PathBuf,
    /// Folder above it with those of all working folders, when there is one.
    pub(crate) root: Option<PathBuf>,
    /// The working folder.
    pub(crate) workspace: &'a Path,
}

/// Opens or makes the session that the flags ask for.
///
/// # Errors
///
/// The text for the user.
pub(crate) fn session(
    typed: &Typed,
    places: &Places<'_>,
    ids: &Arc<dyn IdSource>,
    now_ms: i64,
) -> Result<Arc<dyn SessionStore>, Refusal> {
    conflicts(typed)?;
    let header = || {
        let cwd = places.workspace.to_string_lossy();
        Header::new(ids.session_id(now_ms), iso_utc(now_ms), cwd)
    };
    if typed.has(Id::NoSession) {
        return Ok(Arc::new(MemoryStore::new(header())));
    }
    if let Some(argument) = typed.value(Id::Session) {
        return named(argument, places, ids, header());
    }
    if typed.has(Id::Continue) {
        let custom = places
            .root
            .is_none()
            .then(|| places.workspace.to_string_lossy());
        let newest = locate::newest(&places.folder, custom.as_deref())
            .map_err(|error| with_causes(&error))?;
        for skipped in &newest.skipped {
            eprintln!("Warning: session passed over: {skipped}");
        }
        if let Some(path) = newest.path {
            return Ok(open(&path, ids)?);
        }
    }
    let store = JsonlStore::create_in(&places.folder, header(), Vec::new(), Arc::clone(ids));
    Ok(Arc::new(store.map_err(|error| with_causes(&error))?))
}

fn conflicts(typed: &Typed) -> Result<(), String> {
    let given = [
        (Id::Session, "--session"),
        (Id::Continue, "--continue"),
        (Id::NoSession, "--no-session"),
    ];
    let given: Vec<&str> = given
        .iter()
        .filter(|(id, _)| typed.has(*id))
        .map(|(_, name)| *name)
        .collect();
    match given.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => Err(format!(
            "{first} cannot be combined with {}",
            rest.join(", ")
        )),
        _ => Ok(()),
    }
}

fn named(
    argument: &str,
    places: &Places<'_>,
    ids: &Arc<dyn IdSource>,
    header: Header,
) -> Result<Arc<dyn SessionStore>, Refusal> {
    let found = locate::find(argument, &places.folder, places.root.as_deref());
    match found.map_err(|error| format!("sessions cannot be listed: {}", with_causes(&error)))? {
        Found::Path(path) => {
            let path = places.workspace.join(path);
            if path.exists() {
                return Ok(open(&path, ids)?);
            }
            let store = JsonlStore::create(&path, header, Vec::new(), Arc::clone(ids));
            Ok(Arc::new(store.map_err(|error| with_causes(&error))?))
        }
        Found::Here(path) => {
            say_which(argument, &path, places);
            Ok(open(&path, ids)?)
        }
        Found::Elsewhere { path, cwd } => Err(Refusal::Plain(format!(
            "Session found in different project: {cwd}\nhint: run in that folder, or name the file: --session {}",
            path.display()
        ))),
        Found::Nothing => Err(Refusal::Plain(format!(
            "No session found matching '{argument}'"
        ))),
    }
}

/// Says which session is opened when `argument` is the beginning of several ids.
fn say_which(argument: &str, chosen: &Path, places: &Places<'_>) {
    let chosen_id = locate::header(chosen).map(|header| header.id);
    if chosen_id.as_deref() == Some(argument) {
        return;
    }
    let listed = locate::list(&places.folder).unwrap_or_default();
    let matches = listed
        .iter()
        .filter(|session| session.header.id.starts_with(argument))
        .count();
    if matches > 1 {
        let id = chosen_id.unwrap_or_default();
        eprintln!(
            "Warning: '{argument}' begins the ids of {matches} sessions; opening the newest: {id}"
        );
    }
}

fn open(path: &Path, ids: &Arc<dyn IdSource>) -> Result<Arc<dyn SessionStore>, String> {
    match JsonlStore::open(path, Arc::clone(ids)) {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(with_causes(&error)),
    }
}
