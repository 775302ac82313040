//! The packages that one settings file names.

use std::path::{Path, PathBuf};

use fluzo_resources::Scope;
use fluzo_resources::packages::{Base, PackageSource, position, relative};
use fluzo_stdx::error::with_causes;
use fluzo_stdx::raw_json::RawObject;
use serde_json::Value;

use crate::kept_file;
use crate::settings_file::SettingsFile;

const KEY: &str = "packages";

/// The settings of the user or of the project, and the folder beside them.
pub(super) struct Owned {
    pub(super) scope: Scope,
    /// The agent folder, or `.pi` of the project; absolute and plain.
    pub(super) folder: PathBuf,
    pub(super) home: Option<PathBuf>,
    pub(super) file: SettingsFile,
}

impl Owned {
    pub(super) fn base(&self) -> Base<'_> {
        Base {
            base: &self.folder,
            home: self.home.as_deref(),
        }
    }

    /// The entries as they stand in the file, whether or not it is trusted.
    pub(super) fn items(&self) -> Result<Vec<Value>, String> {
        let path = self.file.path();
        let told = |problem: &str| format!("`{}` {problem}", path.display());
        let read = kept_file::read(path).map_err(|e| told(&format!("cannot be read: {e}")))?;
        let (bytes, _) = read.unwrap_or_default();
        let settings = RawObject::parse(&bytes).map_err(|_| told("is no JSON object"))?;
        match settings.value(KEY) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(told("has no list in `packages`")),
        }
    }

    /// The source as written in the entry that means the same package as `source`, which was
    /// typed in `cwd`.
    pub(super) fn find(
        &self,
        source: &PackageSource,
        cwd: &Path,
    ) -> Result<Option<String>, String> {
        let items = self.items()?;
        let at = position(&items, source, cwd, &self.base());
        Ok(at.and_then(|at| written(&items[at]).map(str::to_owned)))
    }

    /// Adds a package, or writes `text` into the entry that is there and keeps its filters.
    pub(super) fn add(&self, source: &PackageSource, text: &str, cwd: &Path) -> Result<(), String> {
        self.change(|items| match position(items, source, cwd, &self.base()) {
            None => items.push(text.into()),
            Some(at) => match items[at].get_mut("source") {
                Some(written) => *written = text.into(),
                None => items[at] = text.into(),
            },
        })
    }

    /// Takes out the entry for a package.
    pub(super) fn take_out(&self, source: &PackageSource, cwd: &Path) -> Result<(), String> {
        self.change(|items| {
            if let Some(at) = position(items, source, cwd, &self.base()) {
                items.remove(at);
            }
        })
    }

    /// How a source that was typed in `cwd` is written into this file.
    pub(super) fn text(&self, source: &PackageSource, typed: &str, cwd: &Path) -> String {
        match source {
            PackageSource::Local(path) => {
                let path = fluzo_resources::packages::absolute(path, cwd, self.home.as_deref());
                relative(&path, &self.folder).to_string_lossy().into_owned()
            }
            PackageSource::Npm { .. } | PackageSource::Git(_) => typed.trim().to_owned(),
        }
    }

    /// Other processes may change the file meanwhile: the list that is changed is the one that
    /// is there then.
    fn change(&self, change: impl FnOnce(&mut Vec<Value>)) -> Result<(), String> {
        self.items()?;
        let changed = self.file.change(|settings| {
            let mut items = match settings.value(KEY) {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            change(&mut items);
            settings.set_at(&[KEY], &Value::Array(items))
        });
        changed.map_err(|error| with_causes(&error))
    }
}

/// The source of an entry as written.
pub(super) fn written(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| item.get("source")?.as_str())
}
