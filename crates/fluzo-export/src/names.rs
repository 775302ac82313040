//! What exported files are called when nobody names them, and what is said when there is
//! nothing to export.

use std::ffi::OsString;
use std::path::Path;

use fluzo_session::SessionStore;
use fluzo_stdx::time::iso_utc;

/// Why a session cannot be exported as a page.
#[derive(Debug, thiserror::Error, Clone, Copy, PartialEq, Eq)]
pub enum NothingToExport {
    /// The session is kept in memory only.
    #[error("Cannot export in-memory session to HTML")]
    InMemory,
    /// The session has no file yet.
    #[error("Nothing to export yet - start a conversation first")]
    NotYet,
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One HTML page.
    Html,
    /// The current path as a session file of its own.
    Jsonl,
}

impl Format {
    /// The form that the name of the file asks for: JSON Lines by `.jsonl`, else a page.
    pub fn of(path: &Path) -> Self {
        let is_jsonl = path.extension().is_some_and(|end| end == "jsonl");
        if is_jsonl { Self::Jsonl } else { Self::Html }
    }
}

/// Whether `store` can be exported as a page.
///
/// # Errors
///
/// When it is in memory, or has no file yet.
pub fn exportable(store: &dyn SessionStore) -> Result<(), NothingToExport> {
    if store.path().is_none() {
        return Err(NothingToExport::InMemory);
    }
    if !store.saved() {
        return Err(NothingToExport::NotYet);
    }
    Ok(())
}

/// The name of a page of the session in `session_file`.
pub fn html_name(session_file: &Path) -> OsString {
    let mut name = OsString::from("pi-session-");
    name.push(session_file.file_stem().unwrap_or_default());
    name.push(".html");
    name
}

/// The name of a session file that is exported now, in Unix milliseconds.
pub fn jsonl_name(now_ms: i64) -> String {
    format!("session-{}.jsonl", iso_utc(now_ms).replace([':', '.'], "-"))
}

#[cfg(test)]
mod tests {
    use fluzo_session::{Header, MemoryStore};

    use super::*;

    #[test]
    fn names() {
        let path = Path::new("/s/2026-12-01T08-37-28-123Z_u-u.jsonl");
        assert_eq!(
            html_name(path),
            "pi-session-2026-12-01T08-37-28-123Z_u-u.html"
        );
        assert_eq!(jsonl_name(0), "session-1970-01-01T00-00-00-000Z.jsonl");
        let rows = [
            ("a.jsonl", Format::Jsonl),
            ("a.html", Format::Html),
            ("a", Format::Html),
        ];
        for (name, format) in rows {
            assert_eq!(Format::of(Path::new(name)), format);
        }
    }

    #[test]
    fn what_is_not_kept_is_not_exported() {
        let memory = MemoryStore::new(Header::new("s", "", ""));
        let text = exportable(&memory).unwrap_err().to_string();
        assert_eq!(text, "Cannot export in-memory session to HTML");
    }
}
