//! The session at hand as a page, a file of its own or a gist.

use std::path::{Path, PathBuf};

use fluzo_export::share::PageSource;
use fluzo_export::{ExportError, Extras, Gist, GistMaker, names, write_page};
use fluzo_host::{Export, Exporter, Shared};
use fluzo_llm::{AbortSignal, BoxFuture};

use crate::export;
use crate::surroundings::{Surroundings, now_ms};

/// Name of the file in a gist.
const IN_GIST: &str = "session.html";

/// Writes exports to files of the working folder and to gists.
pub(crate) struct FileExports {
    /// Names without a folder are in this one.
    pub(crate) workspace: PathBuf,
    /// Where `~` leads.
    pub(crate) surroundings: Surroundings,
    /// Makes gists.
    pub(crate) gists: Box<dyn GistMaker>,
    /// Where shared sessions are looked at, if the user has named a place.
    pub(crate) viewer: Option<String>,
}

impl FileExports {
    fn target(&self, path: Option<&str>, usual: impl FnOnce() -> PathBuf) -> PathBuf {
        match path {
            Some(path) if path.starts_with('~') => self.surroundings.path(path),
            Some(path) => self.workspace.join(path),
            None => self.workspace.join(usual()),
        }
    }

    fn write(&self, export: &Export<'_>, target: PathBuf) -> Result<PathBuf, String> {
        let store = export.session.store();
        names::exportable(&**store).map_err(|error| error.to_string())?;
        let specs = export.tools.specs();
        let leaf = export.session.leaf_id();
        export::to_file(&**store, leaf.as_deref(), &extras(export, &specs), &target)?;
        Ok(target)
    }
}

fn extras<'a>(export: &Export<'a>, tools: &'a [fluzo_llm::ToolSpec]) -> Extras<'a> {
    Extras {
        system_prompt: Some(export.system_prompt),
        tools,
    }
}

impl Exporter for FileExports {
    fn html(&self, export: &Export<'_>, path: Option<&str>) -> Result<PathBuf, String> {
        let file = export.session.path().unwrap_or_default();
        let target = self.target(path, || names::html_name(&file).into());
        self.write(export, target)
    }

    fn jsonl(&self, export: &Export<'_>, path: Option<&str>) -> Result<PathBuf, String> {
        let target = self.target(path, || names::jsonl_name(now_ms()).into());
        self.write(export, target)
    }

    fn share<'a>(
        &'a self,
        export: &'a Export<'a>,
        abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<Shared, String>> {
        Box::pin(async move {
            let store = export.session.store();
            names::exportable(&**store).map_err(|error| error.to_string())?;
            let page = Page(export);
            let made = abort
                .run_until_cancelled(self.gists.make(IN_GIST, &page))
                .await;
            let made: Gist = made
                .ok_or("Sharing cancelled")?
                .map_err(|error| error.to_string())?;
            Ok(Shared {
                url: made.share_url(self.viewer.as_deref()),
                gist: made.url,
            })
        })
    }
}

/// The page of an export, written when it is wanted.
struct Page<'a>(&'a Export<'a>);

impl PageSource for Page<'_> {
    fn write(&self, out: &mut dyn std::io::Write) -> Result<(), ExportError> {
        let specs = self.0.tools.specs();
        let leaf = self.0.session.leaf_id();
        let store = self.0.session.store();
        write_page(&**store, leaf.as_deref(), &extras(self.0, &specs), out).map(|_| ())
    }
}

/// The exports of a session that works in `workspace`.
pub(crate) fn of(surroundings: &Surroundings, workspace: &Path) -> FileExports {
    let search_path = surroundings.variable("PATH").unwrap_or_default();
    FileExports {
        workspace: workspace.to_owned(),
        gists: Box::new(crate::gist::GhGists::new(search_path)),
        viewer: surroundings
            .variable(crate::variables::SHARE_VIEWER_URL)
            .map(str::to_owned),
        surroundings: surroundings.clone(),
    }
}
