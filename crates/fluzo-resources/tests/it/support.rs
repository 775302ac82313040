//! A home with an agent folder and a project in it, and a file system that ends at its walls.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_exec::{DirEntry, FileMeta, FileSystem, LocalFileSystem, ReadSeek, SpillFile};
use fluzo_resources::{Resources, Sources};

/// `home/.pi/agent`, `home/repo/.git`, and `home/repo/work`, the working folder.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    pub(crate) refused: Vec<PathBuf>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Self {
            folder,
            refused: Vec::new(),
        };
        for path in [".pi/agent", "repo/.git", "repo/work"] {
            fs::create_dir_all(fixture.path(path)).unwrap();
        }
        fixture
    }

    /// A path below the home.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        // Canonical, so that the temporary folder may lie behind a link.
        self.folder
            .path()
            .canonicalize()
            .unwrap()
            .join("home")
            .join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A skill at `path`, called `name`, described as `path`.
    pub(crate) fn skill(&self, path: &str, name: &str) -> PathBuf {
        let text = format!("---\nname: {name}\ndescription: {path}\n---\nBody of {name}\n");
        self.write(path, text)
    }

    pub(crate) fn link(&self, target: &str, at: &str) {
        let at = self.path(at);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, at).unwrap();
    }

    pub(crate) fn fifo(&self, path: &str) {
        let status = std::process::Command::new("mkfifo")
            .arg(self.path(path))
            .status();
        assert!(status.unwrap().success());
    }

    /// Sources of a trusted project.
    pub(crate) fn sources(&self) -> Sources {
        let fenced = Fenced {
            root: self.path(""),
            refused: self.refused.clone(),
        };
        let mut sources = Sources::new(
            Arc::new(fenced),
            self.path(".pi/agent"),
            Some(self.path("").components().collect()),
            self.path("repo/work"),
        );
        sources.trusted = true;
        sources
    }

    pub(crate) fn load(&self) -> Resources {
        Resources::load(&self.sources())
    }

    /// A text without the path of the home.
    pub(crate) fn plain(&self, text: &str) -> String {
        text.replace(&*self.path("").to_string_lossy(), "~/")
    }

    /// What is wrong, without the path of the home.
    pub(crate) fn told(&self, resources: &Resources) -> Vec<String> {
        let told = resources.diagnostics.iter();
        told.map(|told| self.plain(&told.to_string())).collect()
    }
}

/// Nothing exists outside of `root`, and what is refused may not be read.
struct Fenced {
    root: PathBuf,
    refused: Vec<PathBuf>,
}

impl Fenced {
    fn within(&self, path: &Path) -> io::Result<()> {
        if path.starts_with(&self.root) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn readable(&self, path: &Path) -> io::Result<()> {
        if self.refused.iter().any(|refused| refused == path) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.within(path)
    }
}

impl FileSystem for Fenced {
    fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
        self.within(path)?;
        LocalFileSystem.metadata(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>> {
        self.readable(path)?;
        LocalFileSystem.open(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.readable(path)?;
        LocalFileSystem.read_dir(path)
    }

    fn read_dir_up_to(&self, path: &Path, limit: usize) -> io::Result<(Vec<DirEntry>, bool)> {
        self.readable(path)?;
        LocalFileSystem.read_dir_up_to(path, limit)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.within(path)?;
        LocalFileSystem.canonicalize(path)
    }

    fn check_access(&self, _: &Path, _: bool, _: bool) -> io::Result<()> {
        unreachable!("loading asks for no access")
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        unreachable!("loading writes nothing")
    }

    fn replace(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        unreachable!("loading writes nothing")
    }

    fn create_spill(&self, _: &Path, _: &str) -> io::Result<SpillFile> {
        unreachable!("loading writes nothing")
    }
}
