//! The stored credentials of all processes: read, changed in turn, never lost.

use std::sync::Arc;
use std::time::Duration;

use crate::auth_json::{Broken, Document};
use crate::outside::{Clock, CredentialFile, ReservedFile};

/// How long another process may hold the lock: a whole refresh, with a slow server.
const LOCK_WAIT: Duration = Duration::from_secs(90);
/// Waits between attempts to take it grow from here …
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// … to here.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Room for what a change adds to the file: tokens are a few kilobytes at most.
const SPARE: usize = 64 * 1024;

/// `auth.json` and its lock. Clones share them.
#[derive(Clone)]
pub struct AuthStore {
    file: Arc<dyn CredentialFile>,
    clock: Arc<dyn Clock>,
}

/// Why stored credentials cannot be read or changed. The file is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file is there and cannot be read.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The file is no document. It is left alone until a person has mended it.
    #[error("`{path}`, {broken}")]
    Broken {
        /// The file.
        path: String,
        /// What is wrong, and where.
        broken: Broken,
    },
    /// Another process has the lock all the time.
    #[error("`{path}` has been locked by another process for {} seconds", LOCK_WAIT.as_secs())]
    Locked {
        /// The file.
        path: String,
    },
    /// No lock can be taken, or nothing be written.
    #[error("`{path}` cannot be written: {reason}")]
    Unwritable {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
}

/// The exclusive right to change the file, held until dropped.
pub(crate) struct Turn {
    store: AuthStore,
    _lock: Box<dyn Send>,
}

/// Room for a change.
pub(crate) struct Room(Box<dyn ReservedFile>, String);

impl AuthStore {
    /// The credentials of `file`.
    pub fn new(file: Arc<dyn CredentialFile>, clock: Arc<dyn Clock>) -> Self {
        Self { file, clock }
    }

    /// The path of the file, for messages.
    pub fn path(&self) -> String {
        self.file.path()
    }

    /// What is stored now. Without a file there is nothing.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is broken.
    pub fn read(&self) -> Result<Document, StoreError> {
        let stored = self.file.read().map_err(|error| StoreError::Unreadable {
            path: self.path(),
            reason: error.to_string(),
        })?;
        let bytes = stored.map(|stored| stored.bytes).unwrap_or_default();
        Document::parse(&bytes).map_err(|broken| StoreError::Broken {
            path: self.path(),
            broken,
        })
    }

    /// What the user should know about the file: that it cannot be used, that entries of it
    /// cannot, or that others may read it.
    pub fn warnings(&self) -> Vec<String> {
        let document = match self.read() {
            Ok(document) => document,
            Err(error) => return vec![error.to_string()],
        };
        let path = self.path();
        let mut warnings: Vec<String> = document
            .providers()
            .filter_map(|provider| match document.get(provider) {
                Some(crate::auth_json::Stored::Unusable(problem)) => Some(format!(
                    "`{path}`: the entry of `{provider}` is left out: {problem}"
                )),
                _ => None,
            })
            .collect();
        if let Ok(Some(stored)) = self.file.read()
            && stored.mode & 0o077 != 0
        {
            warnings.push(format!(
                "`{path}` can be read by others (mode {:04o}): run `chmod 600 '{path}'`",
                stored.mode & 0o7777
            ));
        }
        warnings
    }

    /// Changes the file in turn with every other process, and keeps what it does not know.
    /// `change` says whether there is anything to write. Dropping the future before it is
    /// done leaves the file as it was.
    ///
    /// # Errors
    ///
    /// When the file is broken, stays locked or cannot be written; it is as it was then.
    pub async fn change(
        &self,
        change: impl FnOnce(&mut Document) -> bool,
    ) -> Result<(), StoreError> {
        let turn = self.turn().await?;
        let mut document = self.read()?;
        if !change(&mut document) {
            return Ok(());
        }
        turn.room(&document)?.write(&document)
    }

    /// Waits for the exclusive right to change the file.
    pub(crate) async fn turn(&self) -> Result<Turn, StoreError> {
        let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
        loop {
            match self.file.try_lock() {
                Ok(Some(lock)) => {
                    return Ok(Turn {
                        store: self.clone(),
                        _lock: lock,
                    });
                }
                Ok(None) if waited >= LOCK_WAIT => {
                    return Err(StoreError::Locked { path: self.path() });
                }
                Ok(None) => self.clock.sleep(pause).await,
                Err(error) => return Err(self.unwritable(&error)),
            }
            waited += pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn unwritable(&self, error: &std::io::Error) -> StoreError {
        StoreError::Unwritable {
            path: self.path(),
            reason: error.to_string(),
        }
    }
}

impl Turn {
    /// Makes sure that `document` can be written with a new entry in it.
    pub(crate) fn room(&self, document: &Document) -> Result<Room, StoreError> {
        let store = &self.store;
        let reserved = store.file.reserve(document.to_text().len() + SPARE);
        let reserved = reserved.map_err(|error| store.unwritable(&error))?;
        Ok(Room(reserved, store.path()))
    }
}

impl Room {
    pub(crate) fn write(self, document: &Document) -> Result<(), StoreError> {
        let Self(reserved, path) = self;
        reserved
            .commit(&document.to_text())
            .map_err(|error| StoreError::Unwritable {
                path,
                reason: error.to_string(),
            })
    }
}
