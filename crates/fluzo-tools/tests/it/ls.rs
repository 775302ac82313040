//! `ls`: what is listed, in which order, within which limits.

use std::fs;
use std::os::unix::fs::symlink;

use fluzo_agent::ToolError;
use fluzo_llm::ToolOutput;
use fluzo_tools::registry::builtin;
use serde_json::{Value, json};

use crate::support::{call, env, plain_env, text, text_of};

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in [".hidden", "Zoo", "empty"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    for name in [".gitignore", "a.txt", "B.txt", "c.txt"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    symlink("empty", dir.path().join("link")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    dir
}

async fn ls(dir: &tempfile::TempDir, args: Value) -> Result<ToolOutput, ToolError> {
    call(builtin("ls", &env(dir.path())).unwrap(), args).await
}

#[tokio::test]
async fn sorted_without_case_with_dotfiles_and_slashes() {
    let output = ls(&folder(), json!({})).await.unwrap();
    assert_eq!(
        text(&output),
        ".gitignore\n.hidden/\na.txt\nB.txt\nc.txt\nempty/\nlink/\nZoo/"
    );
    assert_eq!(output.details, None);
}

#[tokio::test]
async fn limit_and_errors() {
    let dir = folder();
    let output = ls(&dir, json!({"limit": 3})).await.unwrap();
    assert_eq!(
        text(&output),
        ".gitignore\n.hidden/\na.txt\n\n[3 entries limit reached. Use limit=6 for more]"
    );
    assert_eq!(output.details, Some(json!({"entryLimitReached": 3})));
    assert_eq!(
        text(&ls(&dir, json!({"path": "empty"})).await.unwrap()),
        "(empty directory)"
    );
    let at = dir.path().display();
    let error = text_of(&ls(&dir, json!({"path": "nope"})).await);
    assert_eq!(error, format!("error: Path not found: {at}/nope"));
    let error = text_of(&ls(&dir, json!({"path": "a.txt"})).await);
    assert_eq!(error, format!("error: Not a directory: {at}/a.txt"));
}

#[tokio::test]
async fn a_limit_that_is_just_met_says_nothing() {
    let output = ls(&folder(), json!({"limit": 8})).await.unwrap();
    assert!(text(&output).ends_with("Zoo/"));
    assert_eq!(output.details, None);
}

#[tokio::test]
async fn bytes_are_limited_after_formatting() {
    let dir = folder();
    let mut env = plain_env(dir.path());
    env.limits.text.max_bytes = 20;
    let tool = builtin("ls", &std::sync::Arc::new(env)).unwrap();
    let output = call(tool, json!({})).await.unwrap();
    assert_eq!(text(&output), ".gitignore\n.hidden/\n\n[20B limit reached]");
    let truncation = &output.details.unwrap()["truncation"];
    assert_eq!(truncation["truncatedBy"], "bytes");
    assert_eq!(truncation["outputLines"], 2);
    assert_eq!(truncation["totalLines"], 8);
}
