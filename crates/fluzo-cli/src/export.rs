//! Exports: a session as a page, or its current path as a session file of its own.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_export::names::{self, Format, NothingToExport};
use fluzo_export::{Extras, write_page};
use fluzo_session::jsonl::locate;
use fluzo_session::{Index, JsonlStore, SessionStore, fork};
use fluzo_stdx::error::with_causes;
use fluzo_stdx::ids::RandomIds;

/// Exports the session file `source` to `target`, or to the usual name in the working
/// folder, at the entry that was written last. Returns the path as it is to be shown.
///
/// # Errors
///
/// The text for the user. Nothing is left behind then.
pub(crate) fn session_file(source: &Path, target: Option<&Path>) -> Result<PathBuf, String> {
    if !source.exists() {
        return Err(format!("File not found: {}", source.display()));
    }
    if !source.is_file() {
        return Err(format!("no file: `{}`", source.display()));
    }
    let store = JsonlStore::open(source, Arc::new(RandomIds)).map_err(|e| with_causes(&e))?;
    let store: &dyn SessionStore = &store;
    let last = |index: &Index| index.last().map(|node| node.id.to_string());
    let leaf = store.look(last).flatten();
    if leaf.is_none() {
        return Err(NothingToExport::NotYet.to_string());
    }
    let target = target.map_or_else(|| names::html_name(source).into(), Path::to_owned);
    to_file(store, leaf.as_deref(), &Extras::default(), &target)?;
    Ok(target)
}

/// Writes the session in `store` to `target`, in the form that its name asks for. A file
/// that is there is replaced as a whole, unless it is another session, or this one.
///
/// # Errors
///
/// The text for the user. What was there is then as before.
pub(crate) fn to_file(
    store: &dyn SessionStore,
    leaf: Option<&str>,
    extras: &Extras<'_>,
    target: &Path,
) -> Result<(), String> {
    // A link stays one: what it leads to is replaced.
    let target = &fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    keep_sessions(store, target)?;
    let cannot = |error: std::io::Error| format!("cannot write `{}`: {error}", target.display());
    if target.exists() && !target.is_file() {
        // A device or a pipe takes what it is given.
        let mut out = File::options().write(true).open(target).map_err(cannot)?;
        return write(store, leaf, extras, target, &mut out);
    }
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut temporary = tempfile::Builder::new()
        .prefix(".fluzo-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(cannot)?;
    write(store, leaf, extras, target, temporary.as_file_mut())?;
    temporary
        .persist(target)
        .map_err(|error| cannot(error.error))?;
    Ok(())
}

/// Refuses a target that is a session and no earlier export of this one.
fn keep_sessions(store: &dyn SessionStore, target: &Path) -> Result<(), String> {
    let Some(there) = target.is_file().then(|| locate::header(target)).flatten() else {
        return Ok(());
    };
    let own = store.path().and_then(|path| fs::canonicalize(path).ok());
    if there.id == store.header().id && own.as_deref() != Some(target) {
        return Ok(());
    }
    Err(format!(
        "`{}` is a session and stays as it is\nhint: name another file",
        target.display()
    ))
}

fn write(
    store: &dyn SessionStore,
    leaf: Option<&str>,
    extras: &Extras<'_>,
    target: &Path,
    out: &mut File,
) -> Result<(), String> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    match Format::of(target) {
        Format::Html => {
            write_page(store, leaf, extras, &mut out).map_err(|error| with_causes(&error))?;
        }
        Format::Jsonl => {
            fork::export_linear(store, leaf, &mut out).map_err(|error| with_causes(&error))?;
        }
    }
    out.flush()
        .map_err(|error| format!("cannot write `{}`: {error}", target.display()))
}
