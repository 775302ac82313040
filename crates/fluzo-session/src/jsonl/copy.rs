//! Whole session files: new ones, copies into a new session, and rewriting an old format.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, Lock, beside, create_new, lock, read_text, refused};
use super::head::{self, Content};
use super::migrate;
use super::scan::Span;
use crate::entry::parse_object;
use crate::store::{Durability, Notice, StoreError};
use crate::{Entry, EntryKind, Header, Index, Node, NodeKind};

/// Where the payload of an entry is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Memory(Arc<Entry>),
    Disk(Span),
}

/// Entries that are to be copied, and how to read them.
pub(super) struct Source<'a> {
    pub(super) index: &'a Index,
    pub(super) places: &'a [Place],
    /// The file, where entries are in one.
    pub(super) reader: Option<&'a mut File>,
    /// Version of the format that the file is in.
    pub(super) version: u64,
}

/// A copy that was made.
pub(super) struct Copied {
    pub(super) disk: Disk,
    pub(super) places: Vec<Place>,
    /// Positions of entries that could not be read any more.
    pub(super) lost: Vec<usize>,
    /// Why the new file could not be locked.
    pub(super) unlocked: Option<String>,
}

/// Type name of an entry that stands where one was lost, so that the tree keeps its shape.
pub(super) const LOST: &str = "fluzo_lost";

/// Writes `header` and all entries of `source` to a new file, entries as they are.
pub(super) fn to_new_file(
    path: &Path,
    header: &Header,
    mut source: Source<'_>,
) -> Result<Copied, StoreError> {
    let file = create_new(path).map_err(refused("create", path))?;
    let unlocked = match lock(&file) {
        Lock::Held | Lock::Busy => None,
        Lock::Unavailable(reason) => Some(reason),
    };
    let copied = fill(file, path, header, &mut source).and_then(|(file, places, lost)| {
        let disk = Disk::written(path.to_owned(), file)?;
        Ok(Copied {
            disk,
            places,
            lost,
            unlocked,
        })
    });
    if copied.is_err() {
        // The half-written file is ours and of no use. Should it stay, it is only litter.
        let _ = fs::remove_file(path);
    }
    copied
}

fn fill(
    file: File,
    path: &Path,
    header: &Header,
    source: &mut Source<'_>,
) -> Result<(File, Vec<Place>, Vec<usize>), StoreError> {
    let mut out = LineWriter::new(file);
    let mut lost = Vec::new();
    let mut places = Vec::with_capacity(source.places.len());
    out.line(&header_line(header)?)
        .map_err(refused("write", path))?;
    for (at, node) in source.index.raw().iter().enumerate() {
        let line = match source.line(at, node)? {
            Some(line) => line,
            None => {
                lost.push(at);
                stand_in(node, header)
                    .to_line()
                    .map_err(unwritable(&node.id))?
            }
        };
        places.push(Place::Disk(
            out.line(&line).map_err(refused("write", path))?,
        ));
    }
    Ok((out.finish().map_err(refused("write", path))?, places, lost))
}

/// Rewrites a file of an older version in place: a new file takes its name, and the old
/// one is kept beside it. Lines that are no entries stay where they are among the others;
/// a part of a line at the end goes to `<file>.damaged`.
pub(super) fn migrate_in_place(
    disk: &mut Disk,
    header: &Header,
    header_span: Span,
    index: &Index,
    places: &[Place],
    version: u64,
) -> Result<(Disk, Vec<Place>, Vec<Notice>), StoreError> {
    let path = disk.path().to_owned();
    let mut notices = disk.save_tail(Durability::Synced)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new()
        .append(true)
        .prefix(".fluzo-")
        .tempfile_in(folder)
        .map_err(refused("create a file in", folder))?;
    let (file, temporary) = temporary.into_parts();
    if let Lock::Unavailable(reason) = lock(&file) {
        notices.push(Notice::LockUnavailable {
            path: path.clone(),
            reason,
        });
    }
    let permissions = fs::metadata(&path).map(|old| old.permissions());
    permissions
        .and_then(|permissions| file.set_permissions(permissions))
        .map_err(refused("read", &path))?;
    let mut rewrite = Rewrite {
        out: LineWriter::new(file),
        from: 0,
        path: &path,
        version,
    };
    let new_places = rewrite.all(disk, header, header_span, index, places)?;
    let file = rewrite.out.finish().map_err(refused("write", &path))?;
    file.sync_all().map_err(refused("write", &path))?;
    let backup = keep_old(&path, version).map_err(refused("back up", &path))?;
    temporary
        .persist(&path)
        .map_err(|error| refused("replace", &path)(error.error))?;
    notices.push(Notice::Migrated {
        from_version: version,
        backup,
    });
    Ok((Disk::written(path, file)?, new_places, notices))
}

/// Gives the old file a second name that stays.
fn keep_old(path: &Path, version: u64) -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for try_number in 0..100 {
        let suffix = match try_number {
            0 => format!("v{version}"),
            n => format!("v{version}.{n}"),
        };
        let backup = beside(path, &suffix);
        match fs::hard_link(path, &backup).or_else(|error| copy_new(path, &backup, error)) {
            Ok(()) => return Ok(backup),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Copies where the file system has no second names.
fn copy_new(from: &Path, to: &Path, error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Err(error);
    }
    let mut copy = create_new(to)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()
}

/// An old file on its way into a new one.
struct Rewrite<'a> {
    out: LineWriter,
    /// Bytes of the old file that are dealt with.
    from: u64,
    path: &'a Path,
    version: u64,
}

impl Rewrite<'_> {
    fn all(
        &mut self,
        disk: &mut Disk,
        header: &Header,
        header_span: Span,
        index: &Index,
        places: &[Place],
    ) -> Result<Vec<Place>, StoreError> {
        self.between(disk, header_span)?;
        self.out
            .line(&header_line(header)?)
            .map_err(refused("write", self.path))?;
        let mut rewritten = Vec::with_capacity(places.len());
        for (node, place) in index.raw().iter().zip(places) {
            let Place::Disk(span) = place else { continue };
            self.between(disk, *span)?;
            let Some(text) = disk.text(*span) else {
                return Err(StoreError::Unreadable {
                    id: node.id.to_string(),
                });
            };
            // What cannot be built is not understood either, and stays as it is.
            let line = match decode(&text, node, self.version) {
                Some(entry) => entry.to_line().map_err(unwritable(&node.id))?,
                None => text,
            };
            let span = self.out.line(&line).map_err(refused("write", self.path))?;
            rewritten.push(Place::Disk(span));
        }
        self.between(
            disk,
            Span {
                offset: disk.sound_len(),
                len: 0,
            },
        )?;
        Ok(rewritten)
    }

    /// Copies what stands before `span` and is neither blank nor written yet.
    fn between(&mut self, disk: &mut Disk, span: Span) -> Result<(), StoreError> {
        let gap = span.offset.saturating_sub(self.from);
        let mut bytes = Vec::new();
        let reader = disk.reader();
        reader
            .seek(SeekFrom::Start(self.from))
            .map_err(refused("read", self.path))?;
        reader
            .take(gap)
            .read_to_end(&mut bytes)
            .map_err(refused("read", self.path))?;
        for line in bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
        {
            self.out
                .raw_line(line)
                .map_err(refused("write", self.path))?;
        }
        self.from = span.offset + u64::from(span.len);
        Ok(())
    }
}

impl Source<'_> {
    /// The line of an entry; none when it cannot be read any more.
    fn line(&mut self, at: usize, node: &Node) -> Result<Option<String>, StoreError> {
        let span = match self.places.get(at) {
            Some(Place::Memory(entry)) => {
                return entry.to_line().map(Some).map_err(unwritable(&node.id));
            }
            Some(Place::Disk(span)) => *span,
            None => return Ok(None),
        };
        let text = self
            .reader
            .as_mut()
            .and_then(|reader| read_text(reader, span));
        let Some(text) = text else { return Ok(None) };
        if self.version >= crate::entry::VERSION {
            return Ok(holds(&text, node).then_some(text));
        }
        let Some(entry) = decode(&text, node, self.version) else {
            return Ok(None);
        };
        entry.to_line().map(Some).map_err(unwritable(&node.id))
    }
}

/// The entry of `node`, whose line in a file of `version` is `text`. None when it is another.
pub(super) fn decode(text: &str, node: &Node, version: u64) -> Option<Entry> {
    let mut object = parse_object(text).ok()?;
    migrate::entry(&mut object, node, version);
    Entry::from_object(object).filter(|entry| *entry.id == *node.id)
}

fn holds(text: &str, node: &Node) -> bool {
    match head::read_line(text.as_bytes()).content {
        Content::Entry(head) => head.id.as_deref() == Some(&*node.id),
        _ => false,
    }
}

/// An entry in the place of a lost one. State that the index holds is not lost.
fn stand_in(node: &Node, header: &Header) -> Entry {
    let kind = match &node.kind {
        NodeKind::ThinkingLevelChange(level) => EntryKind::ThinkingLevelChange {
            level: level.to_string(),
        },
        NodeKind::ModelChange(model) => EntryKind::ModelChange {
            provider: model.0.clone(),
            model_id: model.1.clone(),
        },
        NodeKind::Label(label) => EntryKind::Label {
            target_id: label.0.to_string(),
            label: label.1.clone(),
        },
        NodeKind::SessionInfo(name) => EntryKind::SessionInfo {
            name: name.to_string(),
        },
        _ => EntryKind::Unknown {
            type_name: LOST.to_owned(),
        },
    };
    let parent = node.parent.as_deref().map(str::to_owned);
    Entry::new(&*node.id, parent, header.timestamp.clone(), kind)
}

fn header_line(header: &Header) -> Result<String, StoreError> {
    header.to_line().map_err(unwritable(&header.id))
}

/// Names the entry that cannot be written.
pub(super) fn unwritable(id: &str) -> impl FnOnce(serde_json::Error) -> StoreError {
    move |source| StoreError::Encode {
        id: id.to_owned(),
        source,
    }
}

/// Writes lines through a buffer and knows where they are.
struct LineWriter {
    out: BufWriter<File>,
    at: u64,
}

impl LineWriter {
    fn new(file: File) -> Self {
        Self {
            out: BufWriter::with_capacity(256 << 10, file),
            at: 0,
        }
    }

    fn line(&mut self, line: &str) -> io::Result<Span> {
        let offset = self.at;
        self.raw_line(line.as_bytes())?;
        Ok(Span {
            offset,
            len: u32::try_from(line.len()).unwrap_or(u32::MAX),
        })
    }

    fn raw_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.out.write_all(line)?;
        self.out.write_all(b"\n")?;
        self.at += line.len() as u64 + 1;
        Ok(())
    }

    fn finish(self) -> io::Result<File> {
        self.out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}
