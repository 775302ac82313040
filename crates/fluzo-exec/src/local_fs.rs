//! The file system of this machine, without confinement.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, XattrFlags};

use crate::fs::{
    DirEntry, FileKind, FileMeta, FileSystem, NotRegular, ReadSeek, SpillFile, code_of_kind,
};

/// Reaches every path the process may reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFileSystem;

impl FileSystem for LocalFileSystem {
    fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
        Ok(meta_of(&fs::metadata(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>> {
        Ok(Box::new(open_regular(path, OpenOptions::new().read(true))?))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry_of(&entry)))
            .collect()
    }

    fn read_dir_up_to(&self, path: &Path, limit: usize) -> io::Result<(Vec<DirEntry>, bool)> {
        let mut listed = fs::read_dir(path)?;
        let entries: io::Result<Vec<DirEntry>> = listed
            .by_ref()
            .take(limit)
            .map(|entry| entry.map(|entry| entry_of(&entry)))
            .collect();
        Ok((entries?, listed.next().is_some()))
    }

    fn check_access(&self, path: &Path, read: bool, write: bool) -> io::Result<()> {
        let mut wanted = Access::EXISTS;
        wanted.set(Access::READ_OK, read);
        wanted.set(Access::WRITE_OK, write);
        Ok(rustix::fs::access(path, wanted)?)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let target = resolve_links(path)?;
        match fs::symlink_metadata(&target) {
            Ok(existing) => replace_existing(&target, &existing, bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_new(&target, bytes),
            Err(error) => Err(error),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn create_spill(&self, folder: &Path, prefix: &str) -> io::Result<SpillFile> {
        let mut random = [0_u8; 8];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let digits = u64::from_ne_bytes(random);
        let path = folder.join(format!("{prefix}{digits:016x}.log"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(SpillFile {
            path,
            writer: Box::new(file),
        })
    }
}

/// Opens `path` when it is a regular file. `O_NONBLOCK` keeps the open from waiting for the other end of a pipe; it means
/// nothing for the regular file that passes.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    require_regular(&file.metadata()?)?;
    Ok(file)
}

fn require_regular(meta: &fs::Metadata) -> io::Result<()> {
    match kind_of(meta.file_type()) {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        FileKind::Other => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            NotRegular(special_text(meta.file_type())),
        )),
    }
}

fn special_text(kind: fs::FileType) -> &'static str {
    if kind.is_fifo() {
        "not a regular file but a named pipe"
    } else if kind.is_socket() {
        "not a regular file but a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "not a regular file but a device"
    } else {
        "not a regular file but a special file"
    }
}

fn kind_of(kind: fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else {
        FileKind::Other
    }
}

fn meta_of(meta: &fs::Metadata) -> FileMeta {
    FileMeta {
        kind: kind_of(meta.file_type()),
        len: meta.len(),
        mode: meta.mode() & 0o7777,
        modified_ms: meta
            .mtime()
            .saturating_mul(1000)
            .saturating_add(meta.mtime_nsec() / 1_000_000),
        identity: (meta.dev(), meta.ino()),
    }
}

fn entry_of(entry: &fs::DirEntry) -> DirEntry {
    let own = entry.file_type().ok();
    let is_symlink = own.is_some_and(|kind| kind.is_symlink());
    let kind = if is_symlink {
        fs::metadata(entry.path())
            .ok()
            .map(|meta| kind_of(meta.file_type()))
    } else {
        own.map(kind_of)
    };
    DirEntry {
        name: entry.file_name(),
        kind,
        is_symlink,
    }
}

/// Follows links at the end of `path`, also to a target that does not exist yet.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    const MAX_LINKS: usize = 40;
    let mut current = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&current) {
            Ok(link) => {
                let parent = current.parent().unwrap_or(Path::new("/"));
                current = parent.join(link);
            }
            Err(error) if is_no_link(&error) => return Ok(current),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn is_no_link(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::EINVAL)
}

fn create_new(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temp = temp_beside(target, 0o666)?;
    temp.write_all(bytes)?;
    temp.persist(target).map_err(|failed| failed.error)?;
    Ok(())
}

fn replace_existing(target: &Path, existing: &fs::Metadata, bytes: &[u8]) -> io::Result<()> {
    require_regular(existing)?;
    // A rename needs no right on the file itself, so a read-only file would be replaced without this check.
    rustix::fs::access(target, Access::WRITE_OK)?;
    if existing.nlink() > 1 {
        return rewrite_in_place(target, bytes);
    }
    match replace_by_rename(target, existing, bytes) {
        Err(error) if asks_for_in_place(&error) => rewrite_in_place(target, bytes),
        result => result,
    }
}

/// The directory refuses entries, the owner cannot be kept, or the file is a mount point of its own.
fn asks_for_in_place(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::EBUSY | libc::EXDEV)
    )
}

fn replace_by_rename(target: &Path, existing: &fs::Metadata, bytes: &[u8]) -> io::Result<()> {
    let mut temp = temp_beside(target, 0o600)?;
    temp.write_all(bytes)?;
    let new = temp.as_file().metadata()?;
    if (new.uid(), new.gid()) != (existing.uid(), existing.gid()) {
        std::os::unix::fs::fchown(temp.as_file(), Some(existing.uid()), Some(existing.gid()))?;
    }
    copy_attributes(target, temp.as_file());
    // After the change of owner, which clears the set-id bits.
    temp.as_file()
        .set_permissions(Permissions::from_mode(existing.mode() & 0o7777))?;
    temp.persist(target).map_err(|failed| failed.error)?;
    Ok(())
}

fn temp_beside(target: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".fluzo-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(parent)
        .map_err(plain)
}

/// The system's error without the name of the temporary file, which means nothing to the caller.
fn plain(error: io::Error) -> io::Error {
    code_of_kind(error.kind()).map_or(error, io::Error::from_raw_os_error)
}

/// Best effort: a file system without attributes, or a namespace reserved to the system, leaves the new file as it is.
fn copy_attributes(from: &Path, to: &File) {
    let mut names = Vec::with_capacity(1024);
    if rustix::fs::listxattr(from, rustix::buffer::spare_capacity(&mut names)).is_err() {
        return;
    }
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let mut value = Vec::with_capacity(4096);
        if rustix::fs::getxattr(from, name, rustix::buffer::spare_capacity(&mut value)).is_ok() {
            let _ = rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty());
        }
    }
}

fn rewrite_in_place(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_regular(target, OpenOptions::new().write(true))?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_spill_file_is_new_private_and_written_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = LocalFileSystem
            .create_spill(folder.path(), "pi-bash-")
            .unwrap();
        let second = LocalFileSystem
            .create_spill(folder.path(), "pi-bash-")
            .unwrap();
        first.writer.write_all(b"text").unwrap();
        assert_eq!(fs::read(&first.path).unwrap(), b"text");
        assert_ne!(first.path, second.path);
        let mode = fs::metadata(&first.path).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o600);
        let name = first.path.file_name().unwrap().to_str().unwrap();
        let digits = name.strip_prefix("pi-bash-").unwrap();
        let digits = digits.strip_suffix(".log").unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    }

    #[test]
    fn a_long_folder_is_listed_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        for (limit, count, more) in [(2, 2, true), (3, 3, false), (4, 3, false)] {
            let listed = LocalFileSystem.read_dir_up_to(folder.path(), limit);
            let (entries, further) = listed.unwrap();
            assert_eq!((entries.len(), further), (count, more), "{limit}");
        }
    }

    #[test]
    fn a_spill_file_needs_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let failed = LocalFileSystem.create_spill(&missing, "x-").err().unwrap();
        assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    }
}
