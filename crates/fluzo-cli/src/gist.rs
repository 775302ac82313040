//! Gists through the GitHub CLI.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use fluzo_exec::{
    CommandSpec, EndedBy, Environment, ExitStatus, LocalProcesses, LocalProcessesConfig,
    OutputSink, ProcessError, ProcessRunner,
};
use fluzo_export::share::PageSource;
use fluzo_export::{ExportError, Gist, GistMaker, ShareError};
use fluzo_llm::{AbortSignal, BoxFuture};
use fluzo_stdx::sanitize::terminal_text;

/// So much of what the tool says is read.
const OUTPUT: usize = 64 << 10;
/// So many characters of it are shown.
const SHOWN: usize = 500;

/// Runs `gh`.
pub(crate) struct GhGists {
    program: Option<PathBuf>,
    /// Variables that are set for it, beside those of this process.
    set: Vec<(OsString, OsString)>,
}

impl GhGists {
    /// With the `gh` that is found in the folders of `search_path`.
    pub(crate) fn new(search_path: &str) -> Self {
        let folders = std::env::split_paths(search_path).filter(|folder| folder.is_absolute());
        let mut programs = folders.map(|folder| folder.join("gh"));
        Self {
            program: programs.find(|program| program.is_file()),
            set: vec![
                // It never asks: there is nobody to answer.
                ("GH_PROMPT_DISABLED".into(), "1".into()),
                ("NO_COLOR".into(), "1".into()),
            ],
        }
    }

    async fn run(&self, folder: &Path, args: &[&str]) -> Result<(bool, String), ShareError> {
        let program = self.program.clone().ok_or(ShareError::NotInstalled)?;
        let spec = CommandSpec {
            program,
            args: args.iter().map(OsString::from).collect(),
            cwd: folder.to_owned(),
            env: Environment::Inherit {
                set: self.set.clone(),
                path_prefix: None,
            },
            timeout: None,
        };
        let mut said = Said(Vec::new());
        let processes = LocalProcesses::new(LocalProcessesConfig::default());
        // Dropping this future kills the tool.
        let report = processes.run(spec, &mut said, AbortSignal::new()).await;
        let report = report.map_err(|error| match error {
            ProcessError::Spawn { .. } => ShareError::NotInstalled,
            error => ShareError::Refused(error.to_string()),
        })?;
        let done = report.ended_by == EndedBy::Itself && report.status == Some(ExitStatus::Code(0));
        Ok((done, String::from_utf8_lossy(&said.0).into_owned()))
    }

    async fn publish(&self, name: &str, page: &(dyn PageSource + '_)) -> Result<Gist, ShareError> {
        // Nobody else may read it, and it goes when this future does.
        let folder = tempfile::Builder::new()
            .prefix("fluzo-share-")
            .tempdir()
            .map_err(unwritable)?;
        let (logged_in, _) = self.run(folder.path(), &["auth", "status"]).await?;
        if !logged_in {
            return Err(ShareError::NotLoggedIn);
        }
        let path = folder.path().join(name);
        {
            let file = File::create_new(&path).map_err(unwritable)?;
            page.write(&mut BufWriter::new(file))?;
        }
        // A relative name, which cannot be taken for an option.
        let file = format!("./{name}");
        let args = ["gist", "create", "--public=false", &file];
        let (done, said) = self.run(folder.path(), &args).await?;
        if !done {
            let said: String = terminal_text(said.trim()).chars().take(SHOWN).collect();
            return Err(ShareError::Refused(said));
        }
        Gist::from_output(&said).ok_or(ShareError::NoGist)
    }
}

impl GistMaker for GhGists {
    fn make<'a>(
        &'a self,
        name: &'a str,
        page: &'a (dyn PageSource + 'a),
    ) -> BoxFuture<'a, Result<Gist, ShareError>> {
        Box::pin(self.publish(name, page))
    }
}

fn unwritable(error: io::Error) -> ShareError {
    ShareError::Page(ExportError::Write(error))
}

struct Said(Vec<u8>);

impl OutputSink for Said {
    fn write(&mut self, chunk: &[u8]) {
        let room = OUTPUT - self.0.len();
        self.0.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const URL: &str = "https://gist.github.com/me/abc123";

    struct Page;

    impl PageSource for Page {
        fn write(&self, out: &mut dyn io::Write) -> Result<(), ExportError> {
            out.write_all(b"<!doctype html>page")?;
            out.flush()?;
            Ok(())
        }
    }

    /// A folder with a `gh` whose two commands are these, and what it was called with.
    fn fake(auth: &str, create: &str) -> (tempfile::TempDir, GhGists) {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().display();
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {here}/calls\ncase $1 in\nauth) {auth};;\ngist) pwd > {here}/folder; cat \"$4\" > {here}/seen; {create};;\nesac\n"
        );
        let path = folder.path().join("gh");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let gists = GhGists::new(&format!("relative:/none-9f3c:{here}"));
        (folder, gists)
    }

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    fn said(gists: &GhGists) -> String {
        match runtime().block_on(gists.make("session.html", &Page)) {
            Ok(gist) => gist.text(None),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_page_becomes_a_secret_gist_and_leaves_no_file() {
        let (folder, gists) = fake("true", &format!("echo '- Creating' >&2; echo {URL}"));
        let want = format!("Share URL: https://pi.dev/session/#abc123\nGist: {URL}");
        assert_eq!(said(&gists), want);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let calls = "auth status\ngist create --public=false ./session.html\n";
        assert_eq!(read("calls"), calls);
        assert_eq!(read("seen"), "<!doctype html>page");
        assert!(!Path::new(read("folder").trim()).exists());
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let rows = [
            (
                "exit 1",
                "true",
                "GitHub CLI is not logged in. Run 'gh auth login' first.",
            ),
            (
                "true",
                "echo 'HTTP 403: no' >&2; exit 1",
                "Failed to create gist: HTTP 403: no",
            ),
            (
                "true",
                "echo done",
                "Failed to parse gist ID from gh output",
            ),
        ];
        for (auth, create, text) in rows {
            assert_eq!(said(&fake(auth, create).1), text);
        }
        let none = GhGists::new("/none-9f3c");
        let text = "GitHub CLI (gh) is not installed. Install it from https://cli.github.com/";
        assert_eq!(said(&none), text);
    }

    #[test]
    fn dropping_it_ends_the_tool_and_leaves_no_file() {
        let (folder, gists) = fake("true", "exec sleep 600");
        let seen = folder.path().join("folder");
        let there = runtime().block_on(async {
            let mut making = gists.make("session.html", &Page);
            // Until the tool has told where it runs; other tasks go on meanwhile.
            loop {
                let poll = making
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                assert!(matches!(poll, Poll::Pending));
                let told = fs::read_to_string(&seen).unwrap_or_default();
                if told.ends_with('\n') {
                    break PathBuf::from(told.trim());
                }
                tokio::task::yield_now().await;
            }
        });
        assert!(!there.exists());
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        assert_eq!(calls.lines().count(), 2);
    }
}
