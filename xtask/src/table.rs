//! The rules of the repository as `layers.toml` states them.

use crate::{Error, repo::Repo};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Name of the file, relative to the root.
pub const FILE: &str = "layers.toml";

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Names for sets of foreign crates.
    #[serde(default)]
    pub groups: BTreeMap<String, Vec<String>>,
    /// The rule of each crate of the workspace.
    #[serde(default)]
    pub crates: BTreeMap<String, Rule>,
    /// What appears in the source text of its owners only.
    #[serde(default)]
    pub owned: Vec<Owned>,
    /// Files over the limit, each with the reason.
    #[serde(default)]
    pub large_files: BTreeMap<String, String>,
}

/// What one crate may know and declare; `None` leaves a part free.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Height; `None` for a side crate.
    pub level: Option<u32>,
    /// Crates of the same level that it may know.
    #[serde(default)]
    pub beside: Vec<String>,
    /// The only crates of ours that it may know.
    pub knows: Option<Vec<String>>,
    /// The only crates that may know it, development dependencies apart.
    pub known_by: Option<Vec<String>>,
    /// The only crates of ours among its development dependencies.
    pub dev: Option<Vec<String>>,
    /// The only foreign crates that it may declare.
    pub external: Option<Vec<String>>,
    /// Foreign crates, or groups of them, that it must not declare.
    #[serde(default)]
    pub forbids: Vec<String>,
    /// The only features of a foreign crate that it may declare.
    #[serde(default)]
    pub features: BTreeMap<String, Vec<String>>,
}

/// One thing that only its owners may touch.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// Its name in findings.
    pub what: String,
    /// Rust paths that touch it.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Rust paths below those that touch nothing.
    #[serde(default)]
    pub except: Vec<String>,
    /// String literals that touch it.
    #[serde(default)]
    pub strings: Vec<String>,
    /// Beginnings of string literals that touch it.
    #[serde(default)]
    pub string_prefixes: Vec<String>,
    /// Lints whose allowing touches it.
    #[serde(default)]
    pub lints: Vec<String>,
    /// Crates, or files and folders of them.
    pub owners: Vec<String>,
}

impl Table {
    /// Reads the file of a repository.
    ///
    /// # Errors
    /// When it is missing or holds an unknown key.
    pub fn read(repo: &Repo) -> Result<Self, Error> {
        Self::parse(&repo.read(FILE)?)
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// When it is no TOML or holds an unknown key.
    pub fn parse(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|e| Error::format(FILE, e))
    }

    /// The crates that a name in `forbids` stands for: a group's members, or the crate itself.
    pub fn expand<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        match self.groups.get(name) {
            Some(members) => members.iter().map(String::as_str).collect(),
            None => vec![name],
        }
    }
}
