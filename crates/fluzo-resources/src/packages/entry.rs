//! Packages in settings: a source, or an object that also says which of its resources count.

use std::path::Path;

use serde_json::Value;
use thiserror::Error;

use super::manifest::{PackagePart, texts};
use super::source::{Base, PackageSource, SourceError};
use crate::sources::Scope;

/// An entry of the setting `packages`.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageEntry {
    /// The source as written.
    pub source: String,
    /// What the source means.
    pub parsed: PackageSource,
    /// Which resources count; `None` for an entry that is a plain text.
    pub filters: Option<Filters>,
}

/// Which resources of a package count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    lists: [Option<Vec<String>>; 4],
}

impl Filters {
    /// The patterns for one kind: `None` takes all, an empty list takes none.
    pub fn of(&self, kind: PackagePart) -> Option<&[String]> {
        self.lists[kind as usize].as_deref()
    }
}

/// Why an entry is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// Neither a text nor an object with `source`.
    #[error("entry {0} of `packages` must be a text or an object with `source`")]
    Kind(usize),
    /// A filter that is no list.
    #[error("`{1}` in entry {0} of `packages` must be a list of texts")]
    Filter(usize, &'static str),
    /// A source that cannot be understood.
    #[error("entry {0} of `packages`: {1}")]
    Source(usize, SourceError),
}

/// Reads the list `packages` of one settings file. Entries count from 1 in errors; those that
/// cannot be understood are left out.
pub fn read_entries(items: &[Value]) -> (Vec<PackageEntry>, Vec<EntryError>) {
    let (mut entries, mut errors) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        match PackageEntry::read(item, index + 1) {
            Ok(entry) => entries.push(entry),
            Err(error) => errors.push(error),
        }
    }
    (entries, errors)
}

impl PackageEntry {
    fn read(item: &Value, number: usize) -> Result<Self, EntryError> {
        let (source, filters) = match item {
            Value::String(source) => (source, None),
            Value::Object(object) => match object.get("source") {
                Some(Value::String(source)) => (source, Some(Filters::read(item, number)?)),
                _ => return Err(EntryError::Kind(number)),
            },
            _ => return Err(EntryError::Kind(number)),
        };
        let parsed =
            PackageSource::parse(source).map_err(|error| EntryError::Source(number, error))?;
        Ok(Self {
            source: source.clone(),
            parsed,
            filters,
        })
    }
}

impl Filters {
    fn read(item: &Value, number: usize) -> Result<Self, EntryError> {
        let mut filters = Self::default();
        for (kind, list) in PackagePart::ALL.into_iter().zip(&mut filters.lists) {
            if let Some(value) = item.get(kind.key()) {
                let texts = texts(value).ok_or(EntryError::Filter(number, kind.key()))?;
                *list = Some(texts);
            }
        }
        Ok(filters)
    }
}

/// Packages of both settings files, those of the project first. Of two entries for one package
/// the project's counts, and within a file the first.
pub fn configured<'a>(
    project: Option<(&'a [PackageEntry], Base<'a>)>,
    user: (&'a [PackageEntry], Base<'a>),
) -> Vec<(Scope, Base<'a>, &'a PackageEntry)> {
    let mut seen = std::collections::HashSet::new();
    let scopes = project
        .map(|(entries, scope)| (Scope::Project, entries, scope))
        .into_iter()
        .chain([(Scope::User, user.0, user.1)]);
    scopes
        .flat_map(|(kind, entries, scope)| entries.iter().map(move |entry| (kind, scope, entry)))
        .filter(|(_, scope, entry)| seen.insert(entry.parsed.identity(scope.base, scope.home)))
        .collect()
}

/// The place among `items` of the entry for the package that `source` means; items that cannot
/// be understood match nothing.
pub fn position(
    items: &[Value],
    source: &PackageSource,
    typed_base: &Path,
    scope: &Base<'_>,
) -> Option<usize> {
    let wanted = source.identity(typed_base, scope.home);
    items.iter().position(|item| {
        PackageEntry::read(item, 0)
            .is_ok_and(|entry| entry.parsed.identity(scope.base, scope.home) == wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> (Vec<PackageEntry>, Vec<String>) {
        let (entries, errors) = read_entries(value.as_array().unwrap());
        (entries, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_entry_is_a_text_or_an_object_with_filters() {
        let value =
            json!(["npm:a@1", {"source": "./b", "skills": [], "themes": ["x*"], "more": 1}]);
        let (entries, errors) = read(&value);
        assert!(errors.is_empty());
        assert!(entries[0].filters.is_none());
        let filters = entries[1].filters.as_ref().unwrap();
        assert_eq!(filters.of(PackagePart::Skill), Some(&[][..]));
        assert_eq!(filters.of(PackagePart::Theme), Some(&["x*".to_owned()][..]));
        assert_eq!(filters.of(PackagePart::Prompt), None);
        assert_eq!(read_entries(&[]), (vec![], vec![]));
    }

    #[test]
    fn what_is_no_entry_is_told_and_left_out() {
        let value =
            json!([7, {"skills": []}, {"source": "npm:a", "skills": "all"}, "npm:../x", "npm:b"]);
        let (entries, errors) = read(&value);
        assert_eq!(entries.len(), 1);
        assert_eq!(
            errors,
            [
                "entry 1 of `packages` must be a text or an object with `source`",
                "entry 2 of `packages` must be a text or an object with `source`",
                "`skills` in entry 3 of `packages` must be a list of texts",
                "entry 4 of `packages`: this is no npm package name; write `npm:NAME` or `npm:NAME@VERSION`",
            ]
        );
    }

    #[test]
    fn the_project_s_entry_beats_the_user_s() {
        let (user, _) = read(&json!([
            "npm:a@1",
            "git:h.com/u/r@v1",
            "./local",
            "npm:a@2"
        ]));
        let (project, _) = read(&json!(["npm:a@3", "https://h.com/u/r", "./local"]));
        let scope = |base| Base {
            base: Path::new(base),
            home: None,
        };
        let all = configured(Some((&project, scope("/p/.pi"))), (&user, scope("/agent")));
        let shown: Vec<_> = all
            .iter()
            .map(|(scope, _, entry)| (*scope, entry.source.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (Scope::Project, "npm:a@3"),
                (Scope::Project, "https://h.com/u/r"),
                (Scope::Project, "./local"),
                (Scope::User, "./local"),
            ]
        );
        let alone = configured(None, (&user, scope("/agent")));
        assert_eq!(alone.len(), 3);
    }
}
