//! Trust in projects on disk: what a project brings, a digest of it, and the answers that
//! were saved.
//!
//! `trust.json` in the agent folder has pi's form, `{FOLDER: true|false}`, with canonical
//! folders. `trust-content.json` beside it has the digest of what a folder brought when it
//! was trusted here; it is a file of its own because pi takes no other values in the first.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fluzo_settings::trust::SavedAnswer;
use fluzo_stdx::raw_json::{RawObject, raw};
use ring::digest::{Context, SHA256};
use serde_json::Value;

use crate::kept_file::{self, LockError, LockFolder, Room};

const ANSWERS: &str = "trust.json";
const CONTENT: &str = "trust-content.json";
const UNFINISHED: &str = ".trust-";
/// What of a project's `.pi` acts. Sessions and the like that a run writes there do not.
const ACTING: [&str; 13] = [
    "settings.json",
    "mcp.json",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "extensions",
    "skills",
    "prompts",
    "commands",
    "themes",
    "hooks",
    "tools",
    "npm",
    "git",
];
/// More than this is not looked through; it is then asked about every time.
const MOST_FILES: usize = 20_000;
const MOST_BYTES: u64 = 256 << 20;

/// What a project brings that would act.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// The canonical working folder.
    workspace: PathBuf,
    /// Folders that hold it, for the user: `.pi`, `.agents/skills`.
    pub(crate) places: Vec<PathBuf>,
    /// What acts, in a fixed order.
    acting: Vec<PathBuf>,
}

impl Brought {
    /// Looks for what acts in `.pi` of `workspace`, and in `.agents/skills` of it and the
    /// folders above, up to the top of its git repository if it is in one. The user's own
    /// skills in `home` are no project's.
    pub(crate) fn find(workspace: &Path, home: Option<&Path>) -> Self {
        let workspace = workspace.canonicalize().unwrap_or(workspace.to_owned());
        let own = home.map(|home| home.canonicalize().unwrap_or(home.to_owned()));
        let pi = workspace.join(".pi");
        let acting = ACTING.iter().map(|name| pi.join(name));
        let mut acting: Vec<PathBuf> = acting.filter(|path| is_there(path)).collect();
        let mut places = Vec::new();
        if !acting.is_empty() {
            places.push(pi);
        }
        for folder in workspace.ancestors() {
            let skills = folder.join(".agents").join("skills");
            if Some(folder) != own.as_deref() && is_there(&skills) {
                places.push(skills.clone());
                acting.push(skills);
            }
            if is_there(&folder.join(".git")) {
                break;
            }
        }
        Self {
            workspace,
            places,
            acting,
        }
    }

    /// Whether there is anything.
    pub(crate) fn is_something(&self) -> bool {
        !self.acting.is_empty()
    }

    /// A digest of names and contents, links followed; none when there is too much.
    fn digest(&self) -> Option<String> {
        let mut walk = Walk {
            context: Context::new(&SHA256),
            files: 0,
            bytes: 0,
            above: BTreeSet::new(),
        };
        for path in &self.acting {
            let name = path.strip_prefix(&self.workspace).unwrap_or(path);
            walk.path(path, &name.to_string_lossy())?;
        }
        let digest = walk.context.finish();
        Some(digest.as_ref().iter().map(|b| format!("{b:02x}")).collect())
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Takes files and folders into a digest.
struct Walk {
    context: Context,
    files: usize,
    bytes: u64,
    /// Folders that are being walked, so that a link back to one of them ends.
    above: BTreeSet<PathBuf>,
}

impl Walk {
    /// `None` once there is too much.
    fn path(&mut self, path: &Path, name: &str) -> Option<()> {
        self.files += 1;
        if self.files > MOST_FILES {
            return None;
        }
        if let Ok(link) = fs::read_link(path) {
            self.part(b'l', name, link.to_string_lossy().as_bytes());
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => self.folder(path, name),
            Ok(meta) if meta.is_file() => {
                self.bytes = self.bytes.saturating_add(meta.len());
                if self.bytes > MOST_BYTES {
                    return None;
                }
                match fs::read(path) {
                    Ok(content) => self.part(b'f', name, &content),
                    Err(_) => self.part(b'u', name, b""),
                }
                Some(())
            }
            // Neither pipes nor what cannot be reached can bring anything.
            _ => {
                self.part(b'u', name, b"");
                Some(())
            }
        }
    }

    fn folder(&mut self, path: &Path, name: &str) -> Option<()> {
        self.part(b'd', name, b"");
        let real = path.canonicalize().unwrap_or(path.to_owned());
        if !self.above.insert(real.clone()) {
            return Some(());
        }
        let mut names: Vec<_> = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .take(MOST_FILES)
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        for entry in names {
            self.path(
                &path.join(&entry),
                &format!("{name}/{}", entry.to_string_lossy()),
            )?;
        }
        self.above.remove(&real);
        Some(())
    }

    /// Lengths go before the bytes, so that no two different trees say the same.
    fn part(&mut self, kind: u8, name: &str, content: &[u8]) {
        self.context.update(&[kind]);
        for bytes in [name.as_bytes(), content] {
            self.context.update(&(bytes.len() as u64).to_be_bytes());
            self.context.update(bytes);
        }
    }
}

/// The saved answers of an agent folder.
pub(crate) struct TrustFile {
    folder: PathBuf,
}

/// Why an answer was not saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustFileError {
    /// A file is there and cannot be used.
    #[error("`{path}` cannot be used: {reason}")]
    Unusable { path: String, reason: String },
    /// There is too much to be looked through.
    #[error(
        "`{path}` holds too many files to be trusted for good; --approve trusts it for one run"
    )]
    TooMuch { path: String },
    /// The lock was not taken.
    #[error("`{path}` is not changed: {reason}")]
    Locked { path: String, reason: LockError },
}

impl TrustFile {
    /// The answers in `agent_folder`.
    pub(crate) fn new(agent_folder: &Path) -> Self {
        Self {
            folder: agent_folder.to_owned(),
        }
    }

    /// What was answered for the project that brings `brought`: for its folder, else for one
    /// above it. An answer that was given here holds for its own folder and for what the
    /// project brought then; one that pi saved holds for any content, and below as well.
    ///
    /// # Errors
    ///
    /// When a file cannot be used; there is no answer then.
    pub(crate) fn answer(&self, brought: &Brought) -> Result<SavedAnswer, TrustFileError> {
        let answers = self.read(ANSWERS)?;
        if answers.is_empty() {
            return Ok(SavedAnswer::None);
        }
        let content = self.read(CONTENT)?;
        for folder in brought.workspace.ancestors() {
            let name = folder.to_string_lossy();
            let seen = content.text(&name);
            let is_own = folder == brought.workspace;
            match (answers.value(&name), seen) {
                (Some(Value::Bool(false)), _) => return Ok(SavedAnswer::No),
                (Some(Value::Bool(true)), None) => return Ok(SavedAnswer::Yes),
                (Some(Value::Bool(true)), Some(seen)) if is_own => {
                    return Ok(if brought.digest() == Some(seen) {
                        SavedAnswer::Yes
                    } else {
                        SavedAnswer::YesForOther
                    });
                }
                _ => {}
            }
        }
        Ok(SavedAnswer::None)
    }

    /// Saves an answer for the project that brings `brought`, or takes it back with `None`.
    ///
    /// # Errors
    ///
    /// Why it was not saved.
    #[cfg_attr(not(test), expect(dead_code, reason = "for front ends that ask"))]
    pub(crate) fn save(
        &self,
        brought: &Brought,
        answer: Option<bool>,
    ) -> Result<(), TrustFileError> {
        let digest = match answer {
            Some(true) => Some(brought.digest().ok_or_else(|| TrustFileError::TooMuch {
                path: brought.workspace.display().to_string(),
            })?),
            _ => None,
        };
        kept_file::make_folder(&self.folder, 0o700).map_err(|e| self.unusable(ANSWERS, &e))?;
        let path = self.folder.join(ANSWERS);
        let _lock = LockFolder::take(&path).map_err(|reason| TrustFileError::Locked {
            path: path.display().to_string(),
            reason,
        })?;
        let name = brought.workspace.to_string_lossy();
        let (mut answers, mut content) = (self.read(ANSWERS)?, self.read(CONTENT)?);
        set(&mut content, &name, digest.map(Value::from));
        set(&mut answers, &name, answer.map(Value::from));
        // A digest without its answer says nothing, so it goes first, and leaves last.
        let mut files = [(CONTENT, content), (ANSWERS, answers)];
        if answer != Some(true) {
            files.reverse();
        }
        for (file, object) in files {
            self.write(file, &object)
                .map_err(|error| self.unusable(file, &error))?;
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Result<RawObject, TrustFileError> {
        let bytes = kept_file::read(&self.folder.join(name))
            .map_err(|error| self.unusable(name, &error))?;
        RawObject::parse(&bytes.map(|(bytes, _)| bytes).unwrap_or_default()).map_err(|_| {
            TrustFileError::Unusable {
                path: self.folder.join(name).display().to_string(),
                reason: "it is no JSON object".to_owned(),
            }
        })
    }

    fn write(&self, name: &str, object: &RawObject) -> io::Result<()> {
        let text = object.to_text(0) + "\n";
        let file = self.folder.join(name);
        Room::reserve(&file, UNFINISHED, kept_file::OWNER_ONLY, text.len())?.commit(&text)
    }

    fn unusable(&self, name: &str, error: &io::Error) -> TrustFileError {
        TrustFileError::Unusable {
            path: self.folder.join(name).display().to_string(),
            reason: error.to_string(),
        }
    }
}

fn set(object: &mut RawObject, name: &str, value: Option<Value>) {
    match value {
        Some(value) => object.put(name, raw(&value.to_string())),
        None => {
            object.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        file: TrustFile,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let place = Place {
            file: TrustFile::new(&root.join("agent")),
            root,
            _folder: folder,
        };
        place.write("p/.git/HEAD", "ref");
        place
    }

    impl Place {
        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }

        fn brought(&self, folder: &str) -> Brought {
            let home = self.root.join("home");
            Brought::find(&self.root.join(folder), Some(&home))
        }

        fn answer(&self, folder: &str) -> SavedAnswer {
            self.file.answer(&self.brought(folder)).unwrap()
        }
    }

    #[test]
    fn what_acts_is_found_up_to_the_top_of_the_repository() {
        let place = place();
        place.write("home/.agents/skills/s/SKILL.md", "");
        place.write("home/x/y", "");
        assert!(!place.brought("p").is_something());
        assert!(!place.brought("home/x").is_something());
        // A run's own files in `.pi` are nothing that acts.
        place.write("p/.pi/sessions/a.jsonl", "");
        place.write(".agents/skills/outside/SKILL.md", "");
        assert!(!place.brought("p").is_something());
        place.write("p/.agents/skills/s/SKILL.md", "");
        place.write("p/sub/.pi/SYSTEM.md", "");
        let brought = place.brought("p/sub");
        let p = place.root.join("p");
        assert_eq!(
            brought.places,
            [p.join("sub/.pi"), p.join(".agents/skills")]
        );
    }

    #[test]
    fn an_answer_holds_for_what_was_there() {
        let place = place();
        place.write("p/.pi/settings.json", "{}");
        place.write("p/.pi/skills/a/SKILL.md", "a");
        assert_eq!(place.answer("p"), SavedAnswer::None);
        place.file.save(&place.brought("p"), Some(true)).unwrap();
        assert_eq!(place.answer("p"), SavedAnswer::Yes);
        place.write("p/.pi/sessions/a.jsonl", "written by a run");
        place.write("p/src/main.rs", "");
        assert_eq!(place.answer("p"), SavedAnswer::Yes);
        let changes = [
            ("p/.pi/skills/a/SKILL.md", "b"),
            ("p/.pi/extensions/new.ts", ""),
            ("p/.agents/skills/b/SKILL.md", ""),
        ];
        for (name, text) in changes {
            place.write(name, text);
            assert_eq!(place.answer("p"), SavedAnswer::YesForOther, "{name}");
            place.file.save(&place.brought("p"), Some(true)).unwrap();
            assert_eq!(place.answer("p"), SavedAnswer::Yes, "{name}");
        }
        fs::remove_file(place.root.join("p/.pi/extensions/new.ts")).unwrap();
        assert_eq!(place.answer("p"), SavedAnswer::YesForOther);
        place.file.save(&place.brought("p"), Some(false)).unwrap();
        assert_eq!(place.answer("p"), SavedAnswer::No);
        place.file.save(&place.brought("p"), None).unwrap();
        assert_eq!(place.answer("p"), SavedAnswer::None);
        assert_eq!(fs::read_dir(place.root.join("agent")).unwrap().count(), 2);
    }

    #[test]
    fn links_are_followed_and_cycles_end() {
        let place = place();
        let real = place.write("p/skills/a/SKILL.md", "a");
        let pi = place.root.join("p/.pi");
        fs::create_dir_all(&pi).unwrap();
        std::os::unix::fs::symlink("../skills", pi.join("skills")).unwrap();
        std::os::unix::fs::symlink("..", place.root.join("p/skills/up")).unwrap();
        std::os::unix::fs::symlink("nowhere", place.root.join("p/skills/none")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(place.root.join("p/skills/pipe"))
            .status();
        assert!(made.unwrap().success());
        place.file.save(&place.brought("p"), Some(true)).unwrap();
        assert_eq!(place.answer("p"), SavedAnswer::Yes);
        fs::write(real, "b").unwrap();
        assert_eq!(place.answer("p"), SavedAnswer::YesForOther);
    }

    #[test]
    fn answers_of_pi_hold_as_in_pi_and_stay() {
        let place = place();
        place.write("p/.pi/settings.json", "{}");
        let folder = |name: &str| place.root.join(name).display().to_string();
        let rows = [
            (format!("{{\"{}\": true}}", folder("p")), SavedAnswer::Yes),
            (format!("{{\"{}\": false}}", folder("p")), SavedAnswer::No),
            (format!("{{\"{}\": null}}", folder("p")), SavedAnswer::None),
            (
                format!("{{\"{}\": true}}", place.root.display()),
                SavedAnswer::Yes,
            ),
            ("{\"/\": true}".to_owned(), SavedAnswer::Yes),
            (
                format!("{{\"/\": true, \"{}\": false}}", folder("p")),
                SavedAnswer::No,
            ),
        ];
        for (text, answer) in rows {
            place.write("agent/trust.json", &text);
            assert_eq!(place.answer("p"), answer, "{text}");
        }
        place.write("agent/trust.json", "{\"/other\": true}");
        place.file.save(&place.brought("p"), Some(true)).unwrap();
        let text = fs::read_to_string(place.root.join("agent/trust.json")).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["/other"], true);
        assert_eq!(object[folder("p")], true);
        // What was answered here for a folder says nothing of those below it.
        place.write("p/sub/.pi/settings.json", "{}");
        assert_eq!(place.answer("p/sub"), SavedAnswer::None);
        for broken in ["[]", "{ broken"] {
            place.write("agent/trust.json", broken);
            assert!(place.file.answer(&place.brought("p")).is_err());
            assert!(place.file.save(&place.brought("p"), None).is_err());
            let kept = fs::read_to_string(place.root.join("agent/trust.json")).unwrap();
            assert_eq!(kept, broken);
        }
    }
}
