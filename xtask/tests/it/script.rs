//! The CI script: its syntax, and that it poisons what it must.

use std::process::Command;
use xtask::repo::Repo;

#[test]
fn script_is_valid_shell_and_executable() {
    use std::os::unix::fs::PermissionsExt as _;
    let script = Repo::here().root().join(".ci/run");
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
