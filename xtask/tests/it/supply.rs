//! Foreign crates: the rule on made-up lock files, then the lock file of the repository.

use super::{assert_clean, assert_findings};
use xtask::repo::Repo;
use xtask::supply;

fn check(lock: &str, expected: &[&str]) {
    let rules = "[bans]\ndeny = [{ crate = \"native-tls\", reason = \"x\" }]";
    assert_findings(&supply::check(lock, rules).unwrap(), expected);
}

#[test]
fn banned_crates_and_other_sources_are_found() {
    check("[[package]]\nname = \"ours\"", &[]);
    check("[[package]]\nname = \"a\"\nsource = \"registry+x\"", &[]);
    check(
        "[[package]]\nname = \"native-tls\"\nsource = \"registry+x\"",
        &["`native-tls` is banned"],
    );
    check(
        "[[package]]\nname = \"a\"\nsource = \"git+x\"",
        &["`a` comes from `git+x`"],
    );
    let two = "[[package]]\nname = \"a\"\nsource = \"registry+x\"\n[[package]]\nname = \"b\"\nsource = \"registry+y\"";
    check(two, &["2 registries"]);
}

#[test]
fn this_lock_file_holds_no_banned_crate_and_one_registry() {
    let repo = Repo::here();
    let (lock, rules) = (
        repo.read(supply::LOCK).unwrap(),
        repo.read(supply::RULES).unwrap(),
    );
    assert_clean(&supply::check(&lock, &rules).unwrap());
}
