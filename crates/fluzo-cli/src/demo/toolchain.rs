//! What verification relies on and the agent could write to: the compiler, the linker, and what they read.
//!
//! The agent runs as the same user, without a sandbox, so nothing stops it from writing to the installed toolchain. That is
//! noticed instead: every file is remembered by its identity before the agent runs. The time of the last status change is
//! part of it, which no program can set.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::programs::ProgramError;

/// Programs that a build looks for in `PATH`.
const LOOKED_FOR: [&str; 9] = [
    "cargo", "rustc", "rustdoc", "git", "cc", "ld", "as", "ar", "sh",
];
/// Files that act on every build or program, wherever it runs.
const EVERYWHERE: [&str; 3] = [
    "/.cargo/config.toml",
    "/.cargo/config",
    "/etc/ld.so.preload",
];
/// Libraries of the compiler, by the start of their names.
const LIBRARIES: [&str; 3] = ["librustc_driver", "libLLVM", "libstd"];
/// A toolchain with more files than this is remembered in part.
const MOST_FILES: usize = 4000;

/// The toolchain behind `cargo` and `rustc`, by absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// The real `cargo`, not rustup's stand-in when there is one.
    pub cargo: PathBuf,
    /// Whether it is the one of `sysroot`, and needs none of rustup's variables.
    pub apart: bool,
    variables: Vec<(OsString, OsString)>,
    sysroot: PathBuf,
    host: String,
}

/// What the files were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks(BTreeMap<PathBuf, Option<Mark>>);

/// A file by its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    real: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Toolchain {
    /// Takes what `rustc --print sysroot` and `rustc -vV` say. `cargo` and `linker` are the ones found in `PATH`.
    pub(crate) fn new(cargo: &Path, linker: &Path, sysroot: &str, versions: &str) -> Self {
        let sysroot = PathBuf::from(sysroot.trim());
        let host = versions
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let own = |name: &str| Some(sysroot.join("bin").join(name)).filter(|file| is_program(file));
        let mut variables: Vec<(OsString, OsString)> = [("RUSTC", "rustc"), ("RUSTDOC", "rustdoc")]
            .into_iter()
            .filter_map(|(variable, name)| Some((variable.into(), own(name)?.into())))
            .collect();
        if !host.is_empty() {
            let triple = host.to_uppercase().replace(['-', '.'], "_");
            let name = format!("CARGO_TARGET_{triple}_LINKER");
            variables.push((name.into(), linker.into()));
        }
        Self {
            cargo: own("cargo").unwrap_or_else(|| cargo.to_owned()),
            apart: own("cargo").is_some() && own("rustc").is_some(),
            variables,
            sysroot,
            host,
        }
    }

    /// Variables by which cargo takes the compiler and the linker from here, and not from `PATH`.
    pub(crate) fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// What its files are now, and which programs `path` leads to.
    pub(crate) fn marks(&self, path: &OsStr) -> Marks {
        let mut marks = Marks::default();
        for name in LOOKED_FOR {
            // A name that leads nowhere is remembered too: something may be put there.
            let found = look_up(name, path).ok();
            marks.add(found.unwrap_or_else(|| PathBuf::from(name)));
        }
        EVERYWHERE.iter().for_each(|file| marks.add(file.into()));
        for name in ["cargo", "rustc", "rustdoc"] {
            marks.add(self.sysroot.join("bin").join(name));
        }
        let library = self.sysroot.join("lib");
        for entry in std::fs::read_dir(&library).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let known = |start: &str| name.to_string_lossy().starts_with(start);
            if LIBRARIES.iter().any(|start| known(start)) {
                marks.add(entry.path());
            }
        }
        if !self.host.is_empty() {
            marks.add_all(&library.join("rustlib").join(&self.host));
        }
        marks
    }
}

impl Marks {
    /// Names the first file that is another one in `later`.
    pub(crate) fn difference(&self, later: &Self) -> Option<String> {
        let all = self.0.keys().chain(later.0.keys());
        all.into_iter()
            .find(|path| self.0.get(*path) != later.0.get(*path))
            .map(|path| format!("`{}` is not what it was before the run", path.display()))
    }

    fn add(&mut self, path: PathBuf) {
        let mark = Mark::of(&path);
        self.0.insert(path, mark);
    }

    fn add_all(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if self.0.len() >= MOST_FILES {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.add_all(&entry.path()),
                _ => self.add(entry.path()),
            }
        }
    }
}

impl Mark {
    fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self {
            real: path.canonicalize().ok()?,
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// The folders of a search path that mean the same wherever a program runs.
pub(crate) fn absolute_folders(path: &OsStr) -> OsString {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    // Folders that come from a search path can be joined to one.
    std::env::join_paths(folders).unwrap_or_default()
}

/// Finds a program in the absolute folders of `path`.
///
/// # Errors
/// None of them has it.
pub(crate) fn look_up(name: &'static str, path: &OsStr) -> Result<PathBuf, ProgramError> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
        .ok_or(ProgramError::Missing(name))
}

fn is_program(file: &Path) -> bool {
    let meta = std::fs::metadata(file);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "rustc 1.0.0\nhost: some-host.1\n";

    fn program(folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let file = folder.join(name);
        std::fs::write(&file, name).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cargo"), "").unwrap();
        for name in ["cargo", "git", "cc"] {
            let error = look_up(name, folder.path().as_os_str()).unwrap_err();
            assert!(error.to_string().contains(name));
            assert!(error.hint().contains("install"));
        }
    }

    #[test]
    fn relative_folders_are_left_out_of_the_search_path() {
        let path = absolute_folders(OsStr::new("bin::/usr/bin:./x:/bin"));
        assert_eq!(path, "/usr/bin:/bin");
    }

    #[test]
    fn compiler_and_linker_are_named_by_absolute_paths() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        let (cargo, rustc) = (program(&bin, "cargo"), program(&bin, "rustc"));
        let sysroot = root.path().to_str().unwrap();
        let linker = Path::new("/usr/bin/cc");
        let found = Toolchain::new(Path::new("/x/cargo"), linker, sysroot, HOST);
        assert_eq!(found.cargo, cargo);
        assert!(found.apart);
        let expected: [(OsString, OsString); 2] = [
            ("RUSTC".into(), rustc.into()),
            ("CARGO_TARGET_SOME_HOST_1_LINKER".into(), linker.into()),
        ];
        assert_eq!(found.variables(), expected);
        let none = Toolchain::new(Path::new("/x/cargo"), linker, "/nowhere", "");
        assert_eq!(none.cargo, Path::new("/x/cargo"));
        assert!(!none.apart && none.variables().is_empty());
    }

    #[test]
    fn programs_that_are_exchanged_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let (early, bin) = (root.path().join("early"), root.path().join("bin"));
        let host = root.path().join("lib/rustlib/some-host.1/lib");
        let (cc, library) = (program(&bin, "cc"), program(&host, "libtest.rlib"));
        std::fs::create_dir(&early).unwrap();
        let sysroot = root.path().to_str().unwrap();
        let toolchain = Toolchain::new(&cc, &cc, sysroot, HOST);
        let path = std::env::join_paths([&early, &bin]).unwrap();
        let mut before = toolchain.marks(&path);
        assert_eq!(before.difference(&toolchain.marks(&path)), None);
        let mut check = |file: &str| {
            let after = toolchain.marks(&path);
            let difference = before.difference(&after).unwrap_or_default();
            assert!(difference.contains(file), "{file}: {difference}");
            before = after;
        };
        std::fs::write(&cc, "xx").unwrap();
        check("bin/cc");
        std::fs::write(&library, "other").unwrap();
        check("libtest.rlib");
        program(&early, "cc");
        check("cc");
        program(&early, "rustdoc");
        check("rustdoc");
        program(&root.path().join("bin"), "rustc");
        check("rustc");
    }
}
