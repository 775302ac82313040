//! Which session is used, from flags and what is on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_session::jsonl::locate::{self, Found};
use fluzo_session::{Header, JsonlStore, MemoryStore, SessionStore};
use fluzo_stdx::error::with_causes;
use fluzo_stdx::ids::{IdSource, RandomIds};
use fluzo_stdx::time::iso_utc;

use crate::arguments::Typed;
use crate::flags::Id;
use crate::old_places;
use crate::pi::Refusal;

/// Where sessions are.
pub(crate) struct Places<'a> {
    /// Folder for those of this working folder.
    pub(crate) folder: PathBuf,
    /// Folder above it with those of all working folders, when there is one.
    pub(crate) root: Option<PathBuf>,
    /// The working folder.
    pub(crate) workspace: &'a Path,
    /// The agent folder, in which sessions lay before each working folder had its own.
    pub(crate) agent_folder: &'a Path,
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
    if typed.has(Id::Continue)
        && let Some(path) = newest(places)?
    {
        return Ok(open(&path, ids)?);
    }
    let store = JsonlStore::create_in(&places.folder, header(), Vec::new(), Arc::clone(ids));
    Ok(Arc::new(store.map_err(|error| with_causes(&error))?))
}

/// The session of this folder that was written last.
fn newest(places: &Places<'_>) -> Result<Option<PathBuf>, String> {
    let custom = places
        .root
        .is_none()
        .then(|| places.workspace.to_string_lossy());
    let newest =
        locate::newest(&places.folder, custom.as_deref()).map_err(|error| with_causes(&error))?;
    for skipped in &newest.skipped {
        eprintln!("Warning: session passed over: {skipped}");
    }
    let old = places.old().and_then(|old| {
        let found = locate::newest(old, Some(&places.workspace.to_string_lossy()));
        found.ok()?.path
    });
    let time = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified()).ok();
    match (newest.path, old) {
        (Some(path), Some(old)) if time(&old) <= time(&path) => Ok(Some(path)),
        (_, Some(old)) => {
            places.tell_old(&old);
            Ok(Some(old))
        }
        (path, None) => Ok(path),
    }
}

impl Places<'_> {
    /// Where sessions lay once, unless the user has chosen another folder.
    fn old(&self) -> Option<&Path> {
        self.root.as_ref().map(|_| self.agent_folder)
    }

    fn tell_old(&self, session: &Path) {
        let notice = old_places::session_notice(session, &self.folder);
        eprintln!("Warning: {notice}");
    }

    /// The session that `argument` names, in the old place if there is none in the usual ones.
    fn find(&self, argument: &str) -> std::io::Result<Found> {
        let found = locate::find(argument, &self.folder, self.root.as_deref())?;
        let (Found::Nothing | Found::Elsewhere { .. }, Some(old)) = (&found, self.old()) else {
            return Ok(found);
        };
        let cwd = self.workspace.to_string_lossy();
        match (locate::find_old(argument, old, &cwd)?, found) {
            (Found::Here(path), _) => {
                self.tell_old(&path);
                Ok(Found::Here(path))
            }
            (other, Found::Nothing) => Ok(other),
            (_, found) => Ok(found),
        }
    }
}

/// A copy of the session in `store`, in the file folder `folder`, for the working folder
/// `workspace`.
///
/// # Errors
///
/// The text for the user.
pub(crate) fn fork_of(
    store: &dyn SessionStore,
    folder: &Path,
    workspace: &Path,
    now_ms: i64,
) -> Result<Arc<dyn SessionStore>, String> {
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let source = store
        .path()
        .ok_or("a session in memory has no file to fork")?;
    let cwd = workspace.to_string_lossy();
    let header = Header::new(ids.session_id(now_ms), iso_utc(now_ms), cwd);
    let fork = JsonlStore::fork_from(&source, folder, header, ids);
    Ok(Arc::new(fork.map_err(|error| with_causes(&error))?))
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
    let found = places.find(argument);
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
