//! Which session is used, from flags and what is on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_session::jsonl::locate::{self, Found};
use fluzo_session::{Header, JsonlStore, MemoryStore, Session, SessionStore};
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
    let own_id = typed.value(Id::BeginAs).map(checked_id).transpose()?;
    let header = || {
        let id = own_id.map_or_else(|| ids.session_id(now_ms), str::to_owned);
        Header::new(id, iso_utc(now_ms), places.workspace.to_string_lossy())
    };
    if typed.has(Id::NoSession) {
        return Ok(Arc::new(MemoryStore::new(header())));
    }
    let same_id = own_id.map(|id| with_id(places, id)).transpose()?.flatten();
    if let Some(source) = typed.value(Id::Fork) {
        if let (Some(id), Some(_)) = (own_id, same_id) {
            return Err(Refusal::Error(format!(
                "Session already exists with id '{id}'"
            )));
        }
        return forked(source, places, ids, header());
    }
    if let Some(argument) = typed.value(Id::Session) {
        return named(argument, places, ids, header());
    }
    let existing = match same_id {
        None if typed.has(Id::Continue) => newest(places)?,
        same_id => same_id,
    };
    if let Some(path) = existing {
        return Ok(open(&path, ids)?);
    }
    let store = JsonlStore::create_in(&places.folder, header(), Vec::new(), Arc::clone(ids));
    Ok(Arc::new(store.map_err(|error| with_causes(&error))?))
}

/// Names the session in `store`, before anything else is added to it.
///
/// # Errors
///
/// The text for the user.
pub(crate) fn name(store: &Arc<dyn SessionStore>, name: &str, now_ms: i64) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("--name requires a non-empty value".to_owned());
    }
    let session = Session::new(Arc::clone(store), Arc::new(RandomIds));
    session
        .claim(now_ms)
        .and_then(|_| session.append_session_info(name, now_ms))
        .map(|_| ())
        .map_err(|error| format!("the session could not be named: {}", with_causes(&error)))
}

/// An id that can be part of a file name.
fn checked_id(id: &str) -> Result<&str, String> {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = ends(id.chars().next()) && ends(id.chars().last()) && id.chars().all(inner);
    if fits {
        return Ok(id);
    }
    Err(format!(
        "--session-id '{id}' cannot be used: letters, digits, `.`, `_` and `-` make an id, which begins and ends with a letter or digit"
    ))
}

/// The session of this folder that has exactly this id.
fn with_id(places: &Places<'_>, id: &str) -> Result<Option<PathBuf>, String> {
    let found = places.find(id).map_err(|error| unlisted(&error))?;
    let path = match found {
        Found::Here(path) => path,
        _ => return Ok(None),
    };
    let is_same = locate::header(&path).is_some_and(|header| header.id == id);
    Ok(is_same.then_some(path))
}

/// A copy of the session that `argument` names, of whatever folder, for this folder.
fn forked(
    argument: &str,
    places: &Places<'_>,
    ids: &Arc<dyn IdSource>,
    header: Header,
) -> Result<Arc<dyn SessionStore>, Refusal> {
    let source = match places.find(argument).map_err(|error| unlisted(&error))? {
        Found::Path(path) => places.workspace.join(path),
        Found::Here(path) => {
            say_which(argument, &path, places);
            path
        }
        Found::Elsewhere { path, .. } => path,
        Found::Nothing => return Err(nothing(argument)),
    };
    let fork = JsonlStore::fork_from(&source, &places.folder, header, Arc::clone(ids));
    Ok(Arc::new(fork.map_err(|error| with_causes(&error))?))
}

fn unlisted(error: &std::io::Error) -> String {
    format!("sessions cannot be listed: {}", with_causes(error))
}

fn nothing(argument: &str) -> Refusal {
    Refusal::Plain(format!("No session found matching '{argument}'"))
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
    let given = |rows: &[(Id, &'static str)]| -> Vec<&'static str> {
        let given = rows.iter().filter(|(id, _)| typed.has(*id));
        given.map(|(_, name)| *name).collect()
    };
    let choices = [
        (Id::Session, "--session"),
        (Id::Continue, "--continue"),
        (Id::NoSession, "--no-session"),
    ];
    let mut rows = vec![(Id::Fork, "--fork")];
    rows.extend(choices);
    let mut all = given(&rows);
    if all.len() < 2 && typed.has(Id::BeginAs) {
        all = given(&choices);
        all.insert(0, "--session-id");
    }
    match all.as_slice() {
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
    match places.find(argument).map_err(|error| unlisted(&error))? {
        Found::Path(path) => {
            let path = places.workspace.join(path);
            if path.symlink_metadata().is_ok() {
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
            "Session found in different project: {cwd}\nhint: run in that folder, or fork it into this one: --fork {}",
            path.display()
        ))),
        Found::Nothing => Err(nothing(argument)),
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
