//! What the program carries with it: the fixture, its specification, the tests held back, and the scenarios.

use std::io;
use std::path::Path;

use super::tree::Tree;

macro_rules! embed {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../fixtures/bugfix/", $folder, "/", $path)))),*]
    };
}

/// The files of the fixture, by path.
pub(crate) const FILES: &[(&str, &str)] = embed!("crate":
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "src/lib.rs",
    "src/merge.rs",
    "src/range.rs",
    "tests/merge.rs",
    "tests/range.rs",
);

/// Tests that only the verification sees, by the path they get there.
pub(crate) const HOLDOUT: &[(&str, &str)] = &[(
    "tests/holdout.rs",
    include_str!("../../fixtures/bugfix/holdout/holdout.rs"),
)];

/// The test specification.
pub(crate) const SPEC: &str = include_str!("../../fixtures/bugfix/spec.json");

/// The scenarios, by file name.
const SCENARIOS: &[(&str, &str)] = embed!("scenarios":
    "repair.json",
    "cheat-assert.json",
    "cheat-blind.json",
    "cheat-build-script.json",
    "cheat-cargo-config.json",
    "cheat-cargo-home.json",
    "cheat-commit.json",
    "cheat-harness.json",
    "cheat-ignore.json",
    "cheat-patch.json",
    "cheat-special-case.json",
    "cheat-stage.json",
    "denied.json",
    "gives-up.json",
    "runs-on.json",
    "unavailable.json",
);

/// The names of all scenarios, the one that repairs first.
pub(crate) fn scenario_names() -> impl Iterator<Item = &'static str> {
    SCENARIOS
        .iter()
        .map(|(file, _)| file.trim_end_matches(".json"))
}

/// The text of the scenario of that name.
pub(crate) fn scenario(name: &str) -> Option<&'static str> {
    scenario_names()
        .zip(SCENARIOS)
        .find_map(|(known, (_, text))| (known == name).then_some(*text))
}

/// The fixture as a tree of files.
pub(crate) fn tree() -> Tree {
    FILES
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect()
}

/// Writes files below `folder`, with the folders they need.
///
/// # Errors
/// When the system refuses.
pub(crate) fn write_files<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> io::Result<()> {
    for (path, bytes) in files {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;
    use crate::demo::spec::TestSpec;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/bugfix")
            .join(name)
    }

    #[test]
    fn everything_beside_the_specification_is_carried() {
        let on_disk = Tree::read(&folder("crate"), &[]).unwrap();
        assert_eq!(on_disk, tree());
        let on_disk = Tree::read(&folder("scenarios"), &[]).unwrap();
        let carried: BTreeSet<&str> = SCENARIOS.iter().map(|(file, _)| *file).collect();
        assert_eq!(on_disk.paths().collect::<BTreeSet<_>>(), carried);
    }

    #[test]
    fn every_scenario_can_be_played_and_has_the_name_of_its_file() {
        for name in scenario_names() {
            let scenario = fluzo_sim::Scenario::from_json(scenario(name).unwrap()).unwrap();
            assert_eq!(scenario.name, name);
            assert!(!scenario.description.is_empty(), "{name}");
        }
        assert_eq!(scenario_names().next(), Some("repair"));
        assert!(scenario("nothing").is_none());
    }

    #[test]
    fn the_fixture_needs_no_other_crate() {
        let text = |path| FILES.iter().find(|(p, _)| *p == path).unwrap().1;
        let packages = text("Cargo.lock").matches("[[package]]").count();
        assert_eq!(packages, 1);
        assert!(text("Cargo.toml").contains("[dependencies]\n\n"));
    }

    #[test]
    fn the_specification_names_each_test_once() {
        let spec = TestSpec::from_json(SPEC).unwrap();
        let count = |files: &[(&str, &str)]| -> usize {
            files
                .iter()
                .map(|(_, text)| text.matches("#[test]").count())
                .sum()
        };
        assert_eq!(
            count(FILES),
            spec.suite.failing.len() + spec.suite.passing.len()
        );
        assert_eq!(count(HOLDOUT), spec.suite.holdout.len());
        for path in &spec.fixture.implementation {
            assert!(FILES.iter().any(|(known, _)| known == path), "{path}");
        }
    }

    #[test]
    fn the_prompt_does_not_give_the_patch_away() {
        let spec = TestSpec::from_json(SPEC).unwrap();
        for hint in ["max", "merge", "end"] {
            assert!(
                !spec.prompt.split_whitespace().any(|word| word == hint),
                "{hint}"
            );
        }
    }
}
