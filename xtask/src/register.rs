//! The register of requirements: parts in `docs/conformance.d/`, merged into `docs/conformance.tsv`.

use crate::Error;
use crate::repo::{Repo, SourceFile};
use crate::test_index::TestIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Folder of the parts.
pub const PARTS: &str = "docs/conformance.d";
/// The merged register.
pub const MERGED: &str = "docs/conformance.tsv";
/// Where the requirement texts lie, when they are there at all.
const REQUIREMENTS: &str = "../shared/requirements";
const CASES: &str = "../shared/cases/cases.md";
const HEADER: &str = "id\tstatus\ttest\tnote";
const NO_TEST: &str = "-";

/// How far a requirement is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// A test shows it.
    Verified,
    /// Nothing shows it yet.
    Unverified,
    /// Only the owner can sign it.
    AwaitingOwner,
}

impl Status {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "verified" => Some(Self::Verified),
            "unverified" => Some(Self::Unverified),
            "awaiting owner" => Some(Self::AwaitingOwner),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unverified => "unverified",
            Self::AwaitingOwner => "awaiting owner",
        }
    }
}

/// One line of the register.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// `P001`, `F001` or `case:E01`.
    pub id: String,
    /// How far it is shown.
    pub status: Status,
    /// The test, if any.
    pub test: Option<String>,
    /// What the test shows, or why there is none.
    pub note: String,
}

/// Reads one part.
///
/// # Errors
/// When a line has not four fields, an unknown status, no test where it needs one, or no note.
pub fn parse(file: &SourceFile) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let row = parse_line(line);
        rows.push(
            row.map_err(|why| Error::format(&file.path, format!("line {}: {why}", number + 1)))?,
        );
    }
    Ok(rows)
}

fn parse_line(line: &str) -> Result<Row, String> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    let (id, status, test, note) = match fields.as_slice() {
        [id, status, test] => (*id, *status, *test, ""),
        [id, status, test, note] => (*id, *status, *test, *note),
        _ => return Err(format!("{} fields instead of 4", fields.len())),
    };
    let status = Status::parse(status).ok_or_else(|| format!("unknown status `{status}`"))?;
    let test = (!test.is_empty() && test != NO_TEST).then(|| test.to_owned());
    if status == Status::Verified && test.is_none() {
        return Err(format!("`{id}` is verified by no test"));
    }
    if status != Status::Verified && note.is_empty() {
        return Err(format!("`{id}` says not why it is {}", status.text()));
    }
    let (id, note) = (id.to_owned(), note.to_owned());
    Ok(Row {
        id,
        status,
        test,
        note,
    })
}

/// Reads and merges all parts, sorted, each line once.
///
/// # Errors
/// When a part cannot be read or is malformed.
pub fn read(repo: &Repo) -> Result<Vec<Row>, Error> {
    let mut rows = BTreeSet::new();
    for part in repo.files(PARTS, "tsv")? {
        rows.extend(parse(&part)?);
    }
    Ok(rows.into_iter().collect())
}

/// The text of the merged register.
pub fn render(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let test = row.test.as_deref().unwrap_or(NO_TEST);
        format!("{}\t{}\t{test}\t{}", row.id, row.status.text(), row.note)
    });
    let mut text = std::iter::once(HEADER.to_owned())
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n");
    text.push('\n');
    text
}

/// Writes the merged register; returns how many rows it has.
///
/// # Errors
/// When a part is malformed or a file cannot be read or written.
pub fn write(repo: &Repo) -> Result<usize, Error> {
    let rows = read(repo)?;
    repo.write(MERGED, &render(&rows))?;
    Ok(rows.len())
}

/// The ids that requirements and cases have, or `None` where their texts are absent.
///
/// # Errors
/// When a text exists and cannot be read.
pub fn known_ids(repo: &Repo) -> Result<Option<BTreeSet<String>>, Error> {
    let mut ids = BTreeSet::new();
    for file in repo.files(REQUIREMENTS, "tsv")? {
        let rows = file
            .text
            .lines()
            .skip(1)
            .filter_map(|l| l.split('\t').next());
        ids.extend(rows.map(str::to_owned));
    }
    if ids.is_empty() {
        return Ok(None);
    }
    let cases = repo.read_if_exists(CASES)?.unwrap_or_default();
    ids.extend(cases.lines().filter_map(case_id));
    Ok(Some(ids))
}

/// `12. **E01** · edit …` heads a case.
fn case_id(line: &str) -> Option<String> {
    let (number, rest) = line.split_once(". **")?;
    let (id, _) = rest.split_once("**")?;
    number
        .chars()
        .all(|c| c.is_ascii_digit())
        .then(|| format!("case:{id}"))
}

/// Rows that contradict each other, name no test that exists, or an id that no text has.
pub fn check(rows: &[Row], index: &TestIndex, known: Option<&BTreeSet<String>>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut statuses: BTreeMap<&str, BTreeSet<Status>> = BTreeMap::new();
    for row in rows {
        statuses.entry(&row.id).or_default().insert(row.status);
        if let Some(test) = row.test.as_ref().filter(|t| !index.contains(t)) {
            findings.push(format!("`{}` names `{test}`, which is no test", row.id));
        }
    }
    for (id, found) in statuses {
        if found.contains(&Status::Verified) && found.contains(&Status::Unverified) {
            findings.push(format!("`{id}` is both verified and unverified"));
        }
        if known.is_some_and(|known| !known.contains(id)) {
            findings.push(format!("`{id}` is no requirement and no case"));
        }
    }
    findings
}

/// A finding when the committed register is not the merge of its parts.
///
/// # Errors
/// When the register exists and cannot be read.
pub fn check_merged(repo: &Repo, rows: &[Row]) -> Result<Vec<String>, Error> {
    let committed = repo.read_if_exists(MERGED)?.unwrap_or_default();
    if committed == render(rows) {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "{MERGED} is not the merge of {PARTS}: run `cargo xtask register`"
    )])
}
