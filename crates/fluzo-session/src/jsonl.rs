//! Sessions in pi's JSON Lines files.
//!
//! Opening reads the file once and keeps ids, parents and places; payloads are read when
//! they are asked for. Opening never writes. Before the first append an older format is
//! rewritten and a last line that was cut off is moved aside. A file that someone else
//! writes is left alone: the session goes on in a new file, and says so.
#![allow(
    clippy::disallowed_methods,
    reason = "this store owns the session files"
)]

mod copy;
mod disk;
mod head;
pub mod import;
mod lines;
pub mod list;
pub mod locate;
mod migrate;
mod scan;
mod turn;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_stdx::ids::IdSource;
use fluzo_stdx::time::parse_iso;

use self::copy::{Copied, Place, Source};
use self::disk::{Claim, Disk, refused};
use self::scan::Span;
use self::turn::LeftOut;
use crate::entry::VERSION;
use crate::store::{Change, Claimed, DamageReport, Durability, Notice, SessionStore, StoreError};
use crate::{Entry, ForkError, Header, Index, Node, NodeKind, Role};

/// A session in a file.
///
/// A new session has no file until its first message of the user (or of a model); until
/// then entries are kept in memory, whatever durability they ask for.
pub struct JsonlStore {
    ids: Arc<dyn IdSource>,
    state: Mutex<State>,
}

struct State {
    header: Header,
    index: Index,
    /// Where each entry of the index is.
    places: Vec<Place>,
    damage: DamageReport,
    notices: Vec<Notice>,
    path: PathBuf,
    /// The file, once there is one.
    disk: Option<Disk>,
    /// Version of the format the file is in, and where its header is.
    version: u64,
    header_span: Span,
    /// What another process was writing when this session left it.
    left_out: Option<LeftOut>,
}

impl JsonlStore {
    /// Opens a session file. Nothing is written.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is no session; it stays as it is.
    pub fn open(path: &Path, ids: Arc<dyn IdSource>) -> Result<Self, StoreError> {
        // A pipe would be waited for without end, and a device may have none.
        let found = fs::metadata(path).map_err(refused("open", path))?;
        if !found.is_file() {
            return Err(StoreError::NotASession {
                path: path.to_owned(),
            });
        }
        let reader = File::open(path).map_err(refused("open", path))?;
        let before = reader.metadata().map_err(refused("read", path))?;
        let found = scan::scan(&reader, lines::MAX_LINE).map_err(refused("read", path))?;
        let mut found = found.ok_or_else(|| StoreError::NotASession {
            path: path.to_owned(),
        })?;
        let version = found.header.version;
        found.header.version = version.max(VERSION);
        let disk = Disk::opened(path.to_owned(), reader, &before, found.len, found.tail);
        let state = State {
            header: found.header,
            index: found.index,
            places: found.spans.into_iter().map(Place::Disk).collect(),
            damage: found.damage,
            notices: newer(path, version).into_iter().collect(),
            path: path.to_owned(),
            disk: Some(disk),
            version,
            header_span: found.header_span,
            left_out: None,
        };
        Ok(Self {
            ids,
            state: Mutex::new(state),
        })
    }

    /// A new session that is to be kept in `path`, beginning with `entries`. The folder is
    /// made at once; the file when there is something to keep.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made, the file exists, or cannot be written.
    pub fn create(
        path: &Path,
        header: Header,
        entries: Vec<Entry>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, StoreError> {
        make_folder(path)?;
        let mut state = State::unborn(path.to_owned(), header);
        for entry in entries {
            state.index.push(Node::of(&entry));
            state.places.push(Place::Memory(Arc::new(entry)));
        }
        state.damage.joined = state.index.join_orphans();
        if state.index.iter().any(|node| begins_file(&node.kind)) {
            state.write_file(&*ids)?;
        }
        Ok(Self {
            ids,
            state: Mutex::new(state),
        })
    }

    /// [`create`](Self::create) in `folder`, under the usual name.
    ///
    /// # Errors
    ///
    /// As `create`.
    pub fn create_in(
        folder: &Path,
        header: Header,
        entries: Vec<Entry>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, StoreError> {
        let path = folder.join(locate::file_name(&header.timestamp, &header.id));
        Self::create(&path, header, entries, ids)
    }

    /// Copies all entries of the session file `source`, as they are, into a new file in
    /// `folder` under `header`, which gets the source as its parent session. Of a source
    /// that another process writes, the turn that it may still be in is left out.
    ///
    /// # Errors
    ///
    /// When the source is no session, or the new file cannot be written.
    pub fn fork_from(
        source: &Path,
        folder: &Path,
        mut header: Header,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, ForkError> {
        let opened = Self::open(source, Arc::clone(&ids)).map_err(|error| match error {
            StoreError::NotASession { path } => ForkError::EmptySource { path },
            StoreError::Io { source, path, .. } if source.kind() == io::ErrorKind::NotFound => {
                ForkError::EmptySource { path }
            }
            error => ForkError::Store(error),
        })?;
        header.parent_session = Some(source.to_string_lossy().into_owned());
        let path = folder.join(locate::file_name(&header.timestamp, &header.id));
        let mut state = opened.lock();
        let busy = state.disk.as_ref().is_some_and(Disk::is_busy);
        state.move_whole(path, header, busy)?;
        drop(state);
        Ok(opened)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is made last and at once; a poisoned one is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for JsonlStore {
    fn header(&self) -> Header {
        self.lock().header.clone()
    }

    fn append(&self, mut entry: Entry, durability: Durability) -> Result<Arc<Entry>, StoreError> {
        let mut state = self.lock();
        state.adopt(&mut entry);
        state.index.admits(&entry)?;
        let mut line = entry.to_line().map_err(copy::unwritable(&entry.id))?;
        if line.len() > lines::MAX_LINE {
            return Err(StoreError::TooLong {
                id: entry.id,
                bytes: line.len(),
            });
        }
        if state.disk.is_some() {
            state.ready(&entry.timestamp, durability, &*self.ids)?;
            if state.adopt(&mut entry) {
                line = entry.to_line().map_err(copy::unwritable(&entry.id))?;
            }
        }
        let (node, entry) = (Node::of(&entry), Arc::new(entry));
        if state.disk.is_none() {
            state.append_unborn(node, Arc::clone(&entry), durability, &*self.ids)?;
            return Ok(entry);
        }
        if let Some(disk) = &mut state.disk {
            let place = Place::Disk(disk.append(&line, durability)?);
            state.index.push(node);
            state.places.push(place);
        }
        Ok(entry)
    }

    fn claim(&self, timestamp: &str) -> Result<Claimed, StoreError> {
        let mut state = self.lock();
        state.ready(timestamp, Durability::Buffered, &*self.ids)?;
        Ok(match &state.left_out {
            None => Claimed::Whole,
            Some(left) => Claimed::CutBack {
                leaf: left.leaf.clone(),
            },
        })
    }

    fn read_index(&self, look: &mut dyn FnMut(&Index)) {
        look(&self.lock().index);
    }

    fn payload(&self, id: &str) -> Result<Arc<Entry>, StoreError> {
        let (text, node, version) = {
            let mut state = self.lock();
            let missing = || StoreError::EntryNotFound { id: id.to_owned() };
            let at = state.index.position(id).ok_or_else(missing)?;
            let span = match state.places.get(at).ok_or_else(missing)? {
                Place::Memory(entry) => return Ok(Arc::clone(entry)),
                Place::Disk(span) => *span,
            };
            let text = state.disk.as_mut().and_then(|disk| disk.text(span));
            let node = state.index.raw().get(at).cloned().ok_or_else(missing)?;
            (text, node, state.version)
        };
        let entry = text.and_then(|text| copy::decode(&text, &node, version));
        entry
            .map(Arc::new)
            .ok_or_else(|| StoreError::Unreadable { id: id.to_owned() })
    }

    fn damage(&self) -> DamageReport {
        self.lock().damage.clone()
    }

    fn notices(&self) -> Vec<Notice> {
        self.lock().notices.clone()
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.lock().path.clone())
    }

    fn saved(&self) -> bool {
        self.lock().disk.is_some()
    }
}

impl State {
    fn unborn(path: PathBuf, header: Header) -> Self {
        Self {
            header,
            index: Index::default(),
            places: Vec::new(),
            damage: DamageReport::default(),
            notices: Vec::new(),
            path,
            disk: None,
            version: VERSION,
            header_span: Span::default(),
            left_out: None,
        }
    }

    /// Keeps an entry of a session without a file, and makes the file when it is time.
    fn append_unborn(
        &mut self,
        node: Node,
        entry: Arc<Entry>,
        durability: Durability,
        ids: &dyn IdSource,
    ) -> Result<(), StoreError> {
        if !begins_file(&node.kind) {
            self.index.push(node);
            self.places.push(Place::Memory(entry));
            return Ok(());
        }
        // Kept aside, so that a refusal leaves no trace.
        let (index, places) = (self.index.clone(), self.places.clone());
        self.index.push(node);
        self.places.push(Place::Memory(entry));
        let written = self.write_file(ids).and_then(|()| match durability {
            Durability::Synced => sync_new(&self.path),
            Durability::Buffered => Ok(()),
        });
        if written.is_err() {
            if self.disk.take().is_some() {
                // Not durable as asked: the caller hears of it and may try again.
                let _ = fs::remove_file(&self.path);
            }
            (self.index, self.places) = (index, places);
        }
        written
    }

    /// Writes the file of a session that has none.
    fn write_file(&mut self, ids: &dyn IdSource) -> Result<(), StoreError> {
        match self
            .move_to(self.path.clone(), self.header.clone())
            .map(|_| ())
        {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                let from = self.path.clone();
                let header = self.successor(&self.header.timestamp.clone(), None, ids);
                let to = self.sibling(&header);
                self.move_to(to.clone(), header)?;
                self.notices.push(Notice::ForkedBecauseBusy { from, to });
                Ok(())
            }
            done => done,
        }
    }

    /// Makes sure that the file may be appended to, or goes on in a new one.
    fn ready(
        &mut self,
        timestamp: &str,
        durability: Durability,
        ids: &dyn IdSource,
    ) -> Result<(), StoreError> {
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        match disk.claim()? {
            Claim::Ours => self.mend(durability),
            Claim::Unlocked(reason) => {
                self.notices.push(Notice::LockUnavailable {
                    path: self.path.clone(),
                    reason,
                });
                self.mend(durability)
            }
            Claim::Busy => self.fork(timestamp, None, ids),
            Claim::Changed(change) => self.fork(timestamp, Some(change), ids),
        }
    }

    /// Brings a claimed file into the state in which lines can be appended.
    fn mend(&mut self, durability: Durability) -> Result<(), StoreError> {
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        if self.version < VERSION {
            let (new, places, notices) = copy::migrate_in_place(
                disk,
                &self.header,
                self.header_span,
                &self.index,
                &self.places,
                self.version,
            )?;
            (self.disk, self.places, self.version) = (Some(new), places, VERSION);
            self.notices.extend(notices);
            return Ok(());
        }
        let moved = disk.mend_tail(durability)?;
        self.notices.extend(moved);
        Ok(())
    }

    /// The header of the session that goes on where this one cannot.
    fn successor(&self, timestamp: &str, parent: Option<String>, ids: &dyn IdSource) -> Header {
        let mut header = self.header.clone();
        header.id = ids.session_id(parse_iso(timestamp).unwrap_or(0));
        header.timestamp = timestamp.to_owned();
        header.parent_session = parent.or(header.parent_session);
        header
    }

    fn sibling(&self, header: &Header) -> PathBuf {
        self.path
            .with_file_name(locate::file_name(&header.timestamp, &header.id))
    }

    /// Writes everything to a new file under `header` and goes on in it. Returns how many
    /// entries could not be read any more. A refusal changes nothing.
    fn move_to(&mut self, path: PathBuf, header: Header) -> Result<usize, StoreError> {
        make_folder(&path)?;
        let source = Source {
            index: &self.index,
            places: &self.places,
            reader: self.disk.as_mut().map(Disk::reader),
            version: self.version,
        };
        let Copied {
            disk,
            places,
            lost,
            unlocked,
        } = copy::to_new_file(&path, &header, source)?;
        for at in &lost {
            self.index.lose(*at);
        }
        if let Some(reason) = unlocked {
            self.notices.push(Notice::LockUnavailable {
                path: path.clone(),
                reason,
            });
        }
        (self.disk, self.places, self.path, self.header) = (Some(disk), places, path, header);
        self.version = VERSION;
        Ok(lost.len())
    }

    /// Goes on in a new file, because the old one is busy or was changed.
    fn fork(
        &mut self,
        timestamp: &str,
        change: Option<Change>,
        ids: &dyn IdSource,
    ) -> Result<(), StoreError> {
        let from = self.path.clone();
        let parent = Some(from.to_string_lossy().into_owned());
        let header = self.successor(timestamp, parent, ids);
        let to = self.sibling(&header);
        let told = self.notices.len();
        let lost = self.move_whole(to.clone(), header, change.is_none())?;
        let notice = match change {
            None => Notice::ForkedBecauseBusy { from, to },
            Some(change) => Notice::ForkedBecauseChanged {
                from,
                to,
                change,
                lost,
            },
        };
        self.notices.insert(told, notice);
        Ok(())
    }

    /// [`move_to`](Self::move_to), from a file that is `busy` without the unfinished turn at
    /// its end.
    fn move_whole(
        &mut self,
        path: PathBuf,
        header: Header,
        busy: bool,
    ) -> Result<usize, StoreError> {
        let Some(cut) = busy.then(|| self.unfinished()).flatten() else {
            return self.move_to(path, header);
        };
        let from = self.path.clone();
        let left = LeftOut::of(&self.index, cut);
        let kept = self.places.iter().take(cut).cloned().collect();
        let index = std::mem::take(&mut self.index);
        self.index = index.prefix(cut);
        let places = std::mem::replace(&mut self.places, kept);
        let moved = self.move_to(path, header);
        if moved.is_err() {
            (self.index, self.places) = (index, places);
            return moved;
        }
        let entries = left.ids.len();
        self.notices.push(Notice::TurnLeftOut { from, entries });
        self.left_out = Some(left);
        moved
    }

    fn unfinished(&mut self) -> Option<usize> {
        let Self {
            index,
            places,
            disk,
            version,
            ..
        } = self;
        turn::unfinished(index, |at| match places.get(at)? {
            Place::Memory(entry) => Some(Entry::clone(entry)),
            Place::Disk(span) => {
                let text = disk.as_mut()?.text(*span)?;
                copy::decode(&text, index.raw().get(at)?, *version)
            }
        })
    }

    /// Lets an entry that would follow what was left out follow what is there;
    /// returns whether it was one.
    fn adopt(&self, entry: &mut Entry) -> bool {
        let left = self.left_out.as_ref();
        left.is_some_and(|left| left.adopt(entry))
    }
}

/// What is said of a file of a `version` that this program does not know.
fn newer(path: &Path, version: u64) -> Option<Notice> {
    let path = path.to_owned();
    (version > VERSION).then_some(Notice::NewerVersion { path, version })
}

/// A file begins when there is something of the user's, or of a model's, to lose.
fn begins_file(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::Message(Role::User | Role::Assistant))
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), |folder| {
        fs::create_dir_all(folder).map_err(refused("create the folder", folder))
    })
}

/// Makes a new file and its name survive a power cut.
fn sync_new(path: &Path) -> Result<(), StoreError> {
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    sync(path).map_err(refused("write", path))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), |folder| {
        sync(folder).map_err(refused("write", folder))
    })
}
