//! The local file system: what is read, what is refused, and what a replaced file keeps.

use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use fluzo_exec::{FileKind, FileSystem, LocalFileSystem, blocking, errno_name, errno_text};

use crate::support::folder;

const FS: LocalFileSystem = LocalFileSystem;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs `action` without the rights of the superuser, on a thread of its own.
#[allow(unsafe_code)]
fn as_nobody<T: Send>(action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                // SAFETY: the raw system call takes three plain numbers and changes the calling thread only, which ends
                // with this closure.
                let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
                assert_eq!(result, 0);
            }
            action()
        });
        thread.join().unwrap()
    })
}

#[test]
fn metadata_follows_links_and_identifies_files() {
    let (_dir, base) = folder();
    fs::write(base.join("f"), "four").unwrap();
    set_mode(&base.join("f"), 0o640);
    symlink("f", base.join("l")).unwrap();
    let file = FS.metadata(&base.join("f")).unwrap();
    assert_eq!((file.kind, file.len, file.mode), (FileKind::File, 4, 0o640));
    assert!(file.modified_ms > 1_500_000_000_000);
    assert_eq!(FS.metadata(&base.join("l")).unwrap(), file);
    assert_eq!(FS.metadata(&base).unwrap().kind, FileKind::Directory);
    assert_eq!(
        FS.metadata(Path::new("/dev/null")).unwrap().kind,
        FileKind::Other
    );
    assert_eq!(FS.canonicalize(&base.join("l")).unwrap(), base.join("f"));
}

#[test]
fn opens_regular_files_only_and_never_waits() {
    let (_dir, base) = folder();
    fs::write(base.join("f"), "hello").unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(base.join("p"))
            .status()
            .unwrap()
            .success()
    );
    let mut file = FS.open(&base.join("f")).unwrap();
    file.seek(SeekFrom::Start(3)).unwrap();
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(
        (rest.as_str(), FS.read(&base.join("f")).unwrap().as_slice()),
        ("lo", &b"hello"[..])
    );
    let check = |path: &Path, kind: ErrorKind, name: &str| {
        for error in [FS.open(path).err().unwrap(), FS.read(path).unwrap_err()] {
            assert_eq!((error.kind(), errno_name(&error)), (kind, name), "{path:?}");
        }
    };
    check(&base.join("p"), ErrorKind::InvalidInput, "EINVAL");
    check(Path::new("/dev/zero"), ErrorKind::InvalidInput, "EINVAL");
    check(&base, ErrorKind::IsADirectory, "EISDIR");
    check(&base.join("gone"), ErrorKind::NotFound, "ENOENT");
    check(&base.join("f/x"), ErrorKind::NotADirectory, "ENOTDIR");
}

#[test]
fn lists_directories_with_links_followed() {
    let (_dir, base) = folder();
    fs::write(base.join("f"), "").unwrap();
    fs::create_dir(base.join(".d")).unwrap();
    symlink(".d", base.join("to-d")).unwrap();
    symlink("gone", base.join("dangling")).unwrap();
    let mut entries = FS.read_dir(&base).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<_> = entries
        .iter()
        .map(|e| (e.name.to_str().unwrap(), e.kind, e.is_symlink))
        .collect();
    assert_eq!(
        seen,
        [
            (".d", Some(FileKind::Directory), false),
            ("dangling", None, true),
            ("f", Some(FileKind::File), false),
            ("to-d", Some(FileKind::Directory), true),
        ]
    );
    assert_eq!(
        FS.read_dir(&base.join("f")).unwrap_err().kind(),
        ErrorKind::NotADirectory
    );
}

#[test]
fn access_is_asked_of_the_system() {
    let (_dir, base) = folder();
    set_mode(&base, 0o755);
    fs::write(base.join("f"), "").unwrap();
    set_mode(&base.join("f"), 0o444);
    as_nobody(|| {
        FS.check_access(&base.join("f"), true, false).unwrap();
        FS.check_access(&base.join("f"), false, false).unwrap();
        let error = FS.check_access(&base.join("f"), true, true).unwrap_err();
        assert_eq!(errno_name(&error), "EACCES");
        let error = FS.check_access(&base.join("g"), true, false).unwrap_err();
        assert_eq!(errno_name(&error), "ENOENT");
    });
}

#[test]
fn a_new_file_honours_the_umask() {
    let (_dir, base) = folder();
    fs::write(base.join("plain"), "x").unwrap();
    FS.replace(&base.join("ours"), b"content").unwrap();
    assert_eq!(fs::read(base.join("ours")).unwrap(), b"content");
    assert_eq!(mode(&base.join("ours")), mode(&base.join("plain")));
    assert_eq!(names(&base), ["ours", "plain"]);
    let error = FS.replace(&base.join("no/dir"), b"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    FS.create_dir_all(&base.join("no/more")).unwrap();
    FS.create_dir_all(&base.join("no/more")).unwrap();
    FS.replace(&base.join("no/more/f"), b"").unwrap();
}

#[test]
fn replacing_keeps_the_mode_and_old_readers_keep_the_old_text() {
    let (_dir, base) = folder();
    let path = base.join("f");
    for wanted in [0o600, 0o640, 0o755, 0o4755, 0o666] {
        fs::write(&path, "old old old").unwrap();
        set_mode(&path, wanted);
        let mut reader = FS.open(&path).unwrap();
        FS.replace(&path, b"new").unwrap();
        let mut old = String::new();
        reader.read_to_string(&mut old).unwrap();
        assert_eq!(
            (old.as_str(), fs::read_to_string(&path).unwrap().as_str()),
            ("old old old", "new")
        );
        assert_eq!(mode(&path), wanted, "{wanted:o}");
        assert_eq!(names(&base), ["f"]);
    }
}

#[test]
fn replacing_keeps_the_owner() {
    let (_dir, base) = folder();
    let path = base.join("f");
    fs::write(&path, "old").unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    FS.replace(&path, b"new").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
    if root {
        // Somebody else who may write the file and the folder cannot give the file away again.
        set_mode(&base, 0o777);
        set_mode(&path, 0o666);
        as_nobody(|| FS.replace(&path, b"from another")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().uid(), 1234);
        assert_eq!(
            (fs::read(&path).unwrap(), names(&base)),
            (b"from another".to_vec(), vec!["f".to_owned()])
        );
    }
}

#[test]
fn a_link_stays_and_its_target_is_replaced() {
    let (_dir, base) = folder();
    fs::create_dir(base.join("d")).unwrap();
    fs::write(base.join("d/target"), "old").unwrap();
    symlink("d/target", base.join("one")).unwrap();
    symlink("one", base.join("two")).unwrap();
    symlink("d/new", base.join("dangling")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    FS.replace(&base.join("two"), b"new").unwrap();
    FS.replace(&base.join("dangling"), b"made").unwrap();
    for link in ["one", "two", "dangling"] {
        assert!(
            fs::symlink_metadata(base.join(link)).unwrap().is_symlink(),
            "{link}"
        );
    }
    assert_eq!(fs::read(base.join("d/target")).unwrap(), b"new");
    assert_eq!(fs::read(base.join("d/new")).unwrap(), b"made");
    assert_eq!(
        errno_name(&FS.replace(&base.join("loop"), b"").unwrap_err()),
        "ELOOP"
    );
}

#[test]
fn hard_links_stay_linked() {
    let (_dir, base) = folder();
    fs::write(base.join("a"), "a longer old text").unwrap();
    fs::hard_link(base.join("a"), base.join("b")).unwrap();
    FS.replace(&base.join("b"), b"short").unwrap();
    assert_eq!(fs::read(base.join("a")).unwrap(), b"short");
    assert_eq!(
        FS.metadata(&base.join("a")).unwrap().identity,
        FS.metadata(&base.join("b")).unwrap().identity
    );
}

#[test]
fn only_regular_writable_files_are_replaced() {
    let (_dir, base) = folder();
    set_mode(&base, 0o777);
    fs::create_dir(base.join("d")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(base.join("p"))
            .status()
            .unwrap()
            .success()
    );
    fs::write(base.join("locked"), "old").unwrap();
    set_mode(&base.join("locked"), 0o444);
    let check =
        |result: io::Result<()>, name: &str| assert_eq!(errno_name(&result.unwrap_err()), name);
    check(FS.replace(&base.join("d"), b"x"), "EISDIR");
    let refused = FS.replace(&base.join("p"), b"x").unwrap_err();
    assert_eq!(errno_text(&refused), "not a regular file but a named pipe");
    check(Err(refused), "EINVAL");
    as_nobody(|| check(FS.replace(&base.join("locked"), b"x"), "EACCES"));
    assert_eq!(fs::read(base.join("locked")).unwrap(), b"old");
    assert_eq!(names(&base), ["d", "locked", "p"]);
}

#[test]
fn a_file_in_a_closed_folder_is_rewritten_in_place() {
    let (_dir, base) = folder();
    let path = base.join("f");
    fs::write(&path, "a longer old text").unwrap();
    set_mode(&path, 0o666);
    set_mode(&base, 0o555);
    let before = FS.metadata(&path).unwrap().identity;
    as_nobody(|| FS.replace(&path, b"short")).unwrap();
    assert_eq!(
        (
            fs::read(&path).unwrap(),
            FS.metadata(&path).unwrap().identity
        ),
        (b"short".to_vec(), before)
    );
    let error = as_nobody(|| FS.replace(&base.join("new"), b"x")).unwrap_err();
    assert_eq!(errno_name(&error), "EACCES");
    set_mode(&base, 0o755);
}

#[test]
fn extended_attributes_are_kept_where_there_are_any() {
    let (_dir, base) = folder();
    let path = base.join("f");
    fs::write(&path, "old").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let supported = rustix::fs::setxattr(&path, "user.fluzo", b"kept", flags).is_ok();
    FS.replace(&path, b"new").unwrap();
    let mut value = Vec::with_capacity(16);
    let found = rustix::fs::getxattr(
        &path,
        "user.fluzo",
        rustix::buffer::spare_capacity(&mut value),
    )
    .is_ok();
    assert_eq!(
        (found, value.as_slice()),
        (supported, if supported { &b"kept"[..] } else { b"" })
    );
}

#[tokio::test]
async fn blocking_work_returns_its_value_or_an_error() {
    assert_eq!(blocking(|| 7).await.unwrap(), 7);
    let error = blocking(|| -> u8 { std::panic::resume_unwind(Box::new("gone wrong")) })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
}

#[test]
fn blocking_work_without_a_runtime_is_an_error() {
    let mut future = std::pin::pin!(blocking(|| 7));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) else {
        panic!("waits")
    };
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Other);
}
