//! The CI script: its syntax, and that its lists are complete.

use std::collections::BTreeSet;
use std::process::Command;
use xtask::lexer::{self, Kind};
use xtask::repo::Repo;
use xtask::syntax;

const SCRIPT: &str = ".ci/run";

/// The words of a shell array in the script.
fn array(name: &str) -> BTreeSet<String> {
    let script = Repo::here().read(SCRIPT).unwrap();
    let (_, after) = script.split_once(&format!("\n{name}=(")).unwrap();
    let (words, _) = after.split_once(')').unwrap();
    words.split_whitespace().map(str::to_owned).collect()
}

/// Whether a string in the source looks like the name of a variable that leads to a server.
fn is_server_variable(text: &str) -> bool {
    let shape = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let ends = ["_API_KEY", "_BASE_URL", "_PROXY"];
    text.chars().all(shape)
        && ends
            .iter()
            .any(|end| text.len() > end.len() && text.ends_with(end))
}

#[test]
fn script_is_valid_shell_and_executable() {
    use std::os::unix::fs::PermissionsExt as _;
    let script = Repo::here().root().join(SCRIPT);
    assert!(
        Command::new("bash")
            .arg("-n")
            .arg(&script)
            .status()
            .unwrap()
            .success()
    );
    assert_ne!(
        std::fs::metadata(&script).unwrap().permissions().mode() & 0o111,
        0
    );
}

#[test]
fn script_checks_each_crate_of_the_two_lowest_levels_alone() {
    let table = super::table();
    let low = table
        .crates
        .iter()
        .filter(|(_, rule)| rule.level.is_some_and(|l| l <= 1));
    let low: BTreeSet<String> = low.map(|(name, _)| name.clone()).collect();
    assert_eq!(array("low_crates"), low);
}

#[test]
fn script_poisons_every_server_variable_that_the_product_names() {
    let mut poisoned = array("key_variables");
    poisoned.extend(array("url_variables"));
    assert!(is_server_variable("OPENAI_API_KEY") && !is_server_variable("_PROXY"));
    for file in xtask::product_files(&Repo::here()).unwrap() {
        for token in syntax::without_tests(&lexer::tokens(&file.text)).tokens {
            let Kind::Text(text) = token.kind else {
                continue;
            };
            let safe = !is_server_variable(&text) || text == "NO_PROXY";
            assert!(safe || poisoned.contains(&text), "{}: {text}", file.path);
        }
    }
}
