//! The simulator judges the other crates, so it must not be made of them, nor do their work.

const MANIFEST: &str = include_str!("../../Cargo.toml");
const ROOT: &str = include_str!("../../src/lib.rs");

#[test]
fn it_is_built_on_none_of_our_crates_and_starts_no_process() {
    let dependencies = MANIFEST.split("[dependencies]").nth(1).unwrap();
    assert!(!dependencies.contains("fluzo-"), "{dependencies}");
    let tokio = dependencies
        .lines()
        .find(|line| line.starts_with("tokio"))
        .unwrap();
    assert!(
        !tokio.contains("\"fs\"") && !tokio.contains("\"process\""),
        "{tokio}"
    );
}

#[test]
fn it_opens_no_side_door() {
    assert!(MANIFEST.contains("[lints]\nworkspace = true"));
    assert!(!ROOT.contains("disallowed_methods"));
}
