//! Taking a session file from elsewhere into a folder of sessions.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::disk::refused;
use super::locate;
use crate::store::StoreError;

/// A session file that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Where it is now.
    pub path: PathBuf,
    /// Another session has the name that it would have had.
    pub taken: Option<PathBuf>,
    /// A copy was made; else the file was there already.
    pub copied: bool,
}

/// Why a session cannot be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is no such file.
    #[error("File not found: {}", path.display())]
    NotFound {
        /// The file asked for.
        path: PathBuf,
    },
    /// It is no session, or files cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Imported {
    /// What the user should know about the name that was chosen.
    pub fn notice(&self) -> Option<String> {
        let taken = self.taken.as_ref()?;
        Some(format!(
            "another session is in `{}`; the imported one is in `{}`",
            taken.display(),
            self.path.display()
        ))
    }
}

/// Copies the session file `source` into `folder` under its own name, or under a free one
/// when another session has that name. A file that is there already, or a copy of which is,
/// stays where it is.
///
/// # Errors
///
/// When there is no such file, it is no session, or the copy cannot be written. Then
/// nothing is left behind.
pub fn import(source: &Path, folder: &Path) -> Result<Imported, ImportError> {
    let metadata = match fs::metadata(source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ImportError::NotFound {
                path: source.to_owned(),
            });
        }
        metadata => metadata.map_err(refused("read", source))?,
    };
    // A pipe is never opened: it would wait for a writer.
    let header = match metadata.is_file() {
        true => locate::read_header(source).map_err(refused("read", source))?,
        false => None,
    };
    if header.is_none() {
        return Err(StoreError::NotASession {
            path: source.to_owned(),
        }
        .into());
    }
    fs::create_dir_all(folder).map_err(refused("create the folder", folder))?;
    if is_in(source, folder) {
        return Ok(Imported {
            path: source.to_owned(),
            taken: None,
            copied: false,
        });
    }
    Ok(copy(source, folder)?)
}

fn is_in(source: &Path, folder: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let (Some(source), Some(folder)) = (real(source), real(folder)) else {
        return false;
    };
    source.parent() == Some(&*folder)
        && source
            .extension()
            .is_some_and(|extension| extension == "jsonl")
}

fn copy(source: &Path, folder: &Path) -> Result<Imported, StoreError> {
    let mut from = File::open(source).map_err(refused("open", source))?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".fluzo-")
        .tempfile_in(folder)
        .map_err(refused("create a file in", folder))?;
    io::copy(&mut from, temporary.as_file_mut())
        .and_then(|_| temporary.as_file().sync_all())
        .map_err(refused("copy to", folder))?;
    let mut taken = None;
    for number in 1_u32.. {
        let path = folder.join(name(source, number));
        match temporary.persist_noclobber(&path) {
            Ok(_) => {
                return Ok(Imported {
                    path,
                    taken,
                    copied: true,
                });
            }
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                temporary = error.file;
            }
            Err(error) => return Err(refused("create", &path)(error.error)),
        }
        if same_bytes(source, &path) {
            return Ok(Imported {
                path,
                taken: None,
                copied: false,
            });
        }
        taken.get_or_insert(path);
    }
    Err(refused("create a file in", folder)(
        io::ErrorKind::AlreadyExists.into(),
    ))
}

/// The name of the copy at the try of this number.
fn name(source: &Path, number: u32) -> OsString {
    let is_jsonl = source.extension().is_some_and(|e| e == "jsonl");
    let stem = if is_jsonl {
        source.file_stem()
    } else {
        source.file_name()
    };
    let mut name = stem.unwrap_or_default().to_owned();
    if number > 1 {
        name.push(format!("-{number}"));
    }
    name.push(".jsonl");
    name
}

fn same_bytes(a: &Path, b: &Path) -> bool {
    let compare = || -> io::Result<bool> {
        let (mut a, mut b) = (File::open(a)?, File::open(b)?);
        if a.metadata()?.len() != b.metadata()?.len() {
            return Ok(false);
        }
        let (mut one, mut other) = (Vec::new(), Vec::new());
        loop {
            one.clear();
            other.clear();
            Read::by_ref(&mut a).take(PIECE).read_to_end(&mut one)?;
            Read::by_ref(&mut b).take(PIECE).read_to_end(&mut other)?;
            if one != other || one.is_empty() {
                return Ok(one == other);
            }
        }
    };
    // What cannot be compared is another file.
    compare().unwrap_or(false)
}

/// Files are compared in pieces of this many bytes.
const PIECE: u64 = 1 << 20;
