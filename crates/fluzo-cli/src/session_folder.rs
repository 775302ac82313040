//! Where a session goes on: in the folder it was made for, and in another one only when the
//! user says so.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use fluzo_session::SessionStore;

/// Where a session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its own folder.
    Own(PathBuf),
    /// In the present folder, as the user has said.
    Here,
    /// In the present folder, as a new session, as the user has said.
    ForkHere,
    /// Nowhere.
    Cancelled,
}

/// Decides for the session in `store` where `workspace` is the present folder. When its own
/// folder is gone, the user is asked through `terminal`: what is typed, and where the question
/// goes.
///
/// # Errors
///
/// The text for the user when the folder is gone and nobody can be asked.
pub(crate) fn place(
    store: &dyn SessionStore,
    workspace: &Path,
    terminal: Option<(&mut dyn BufRead, &mut dyn Write)>,
) -> Result<Place, String> {
    let own = PathBuf::from(store.header().cwd);
    if is_there(&own) {
        return Ok(Place::Own(own));
    }
    let Some((input, output)) = terminal else {
        let file = store.path().unwrap_or_default();
        return Err(format!(
            "Stored session working directory does not exist: {}\nSession file: {}\nCurrent working directory: {}",
            own.display(),
            file.display(),
            workspace.display()
        ));
    };
    Ok(ask(&own, workspace, input, output))
}

/// Whether a session can go on in its stored folder. A path that is not whole would be
/// another folder wherever the program happens to be started.
pub(crate) fn is_there(cwd: &Path) -> bool {
    cwd.is_absolute() && cwd.is_dir()
}

/// Anything but a clear answer, the end of the input included, runs nothing.
fn ask(own: &Path, workspace: &Path, input: &mut dyn BufRead, output: &mut dyn Write) -> Place {
    // A question that cannot be shown gets no answer either.
    let _ = write!(
        output,
        "The folder of this session does not exist any more: {}\n  c  continue here, in {}\n  f  fork: a new session here, with what was said\n  n  cancel\nWhat shall be done? [c/f/N] ",
        own.display(),
        workspace.display()
    );
    let _ = output.flush();
    let mut line = String::new();
    let read = input.read_line(&mut line);
    match (read, line.trim().to_lowercase().as_str()) {
        (Ok(_), "c" | "continue") => Place::Here,
        (Ok(_), "f" | "fork") => Place::ForkHere,
        _ => Place::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use fluzo_session::{Header, MemoryStore};

    use super::*;

    fn asked(answer: &str) -> (Place, String) {
        let store = MemoryStore::new(Header::new("s", "2026-12-01T00:00:00.000Z", "/gone/away"));
        let mut shown = Vec::new();
        let terminal = Some((
            &mut answer.as_bytes() as &mut dyn BufRead,
            &mut shown as &mut dyn Write,
        ));
        let place = place(&store, Path::new("/here"), terminal).unwrap();
        (place, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn a_session_whose_folder_is_gone_runs_elsewhere_only_after_a_clear_answer() {
        let rows = [
            ("c\n", Place::Here),
            ("Fork\n", Place::ForkHere),
            ("n\n", Place::Cancelled),
            ("\n", Place::Cancelled),
            ("", Place::Cancelled),
            ("yes\n", Place::Cancelled),
        ];
        for (answer, expected) in rows {
            let (place, shown) = asked(answer);
            assert_eq!(place, expected, "{answer:?}");
            assert!(shown.contains("/gone/away") && shown.contains("in /here"));
        }
    }

    #[test]
    fn a_folder_that_is_no_whole_path_is_not_there() {
        for cwd in ["", ".", "..", "src"] {
            let store = MemoryStore::new(Header::new("s", "2026-12-01T00:00:00.000Z", cwd));
            assert!(place(&store, Path::new("/here"), None).is_err(), "{cwd:?}");
        }
    }

    #[test]
    fn without_a_terminal_it_is_refused() {
        let store = MemoryStore::new(Header::new("s", "2026-12-01T00:00:00.000Z", "/gone/away"));
        let error = place(&store, Path::new("/here"), None).unwrap_err();
        assert!(
            error.starts_with("Stored session working directory does not exist: /gone/away\n"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_is_there_needs_no_question() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().to_string_lossy().into_owned();
        let store = MemoryStore::new(Header::new("s", "2026-12-01T00:00:00.000Z", cwd));
        let own = place(&store, Path::new("/here"), None).unwrap();
        assert_eq!(own, Place::Own(folder.path().to_owned()));
    }
}
