//! `find`: what a pattern finds, how results are shown, and what is said about the rest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use fluzo_agent::{Tool, ToolContext, UpdateSink};
use fluzo_llm::AbortSignal;
use fluzo_policy::{Access, PathOperation};
use fluzo_tools::FindTool;
use serde_json::{Value, json};

use crate::support::{call, call_in, env, text_of, tree};

async fn outcome(dir: &Path, args: Value) -> (String, Value) {
    let result = call(Arc::new(FindTool::new(env(dir))), args).await;
    let details = result
        .as_ref()
        .ok()
        .and_then(|output| output.details.clone());
    (text_of(&result), details.unwrap_or_default())
}

async fn check(dir: &Path, args: Value, expected: &str) {
    let (text, _) = outcome(dir, args.clone()).await;
    assert_eq!(text, expected, "{args}");
}

const NOTHING: &str = "No files found matching pattern";

#[tokio::test]
async fn patterns_work_as_fds_do() {
    let dir = tree(&[
        ("src/a/M.java", ""),
        ("src/top.java", ""),
        ("other/src/b.java", ""),
        (".github/workflows/ci.yml", ""),
        ("README.md", ""),
    ]);
    let absolute = format!("{}/src/*.java", dir.path().display());
    let rows = [
        (
            "src/**/*.java",
            "other/src/b.java\nsrc/a/M.java\nsrc/top.java",
        ),
        ("*.java", "other/src/b.java\nsrc/a/M.java\nsrc/top.java"),
        ("**/a/*", "src/a/M.java"),
        ("readme.md", "README.md"),
        ("Readme.md", NOTHING),
        (".github/workflows/*.yml", ".github/workflows/ci.yml"),
        ("src", "other/src/\nsrc/"),
        (absolute.as_str(), "src/top.java"),
        ("{README,x}.md", "README.md"),
        ("*.rs", NOTHING),
    ];
    for (pattern, expected) in rows {
        check(dir.path(), json!({"pattern": pattern}), expected).await;
    }
}

#[tokio::test]
async fn results_are_relative_to_the_searched_folder() {
    let dir = tree(&[("src/a/x.rs", ""), ("src/y.rs", "")]);
    let absolute = dir.path().join("src");
    for path in ["src", "./src/", absolute.to_str().unwrap()] {
        check(
            dir.path(),
            json!({"pattern": "*", "path": path}),
            "a/\na/x.rs\ny.rs",
        )
        .await;
    }
}

#[tokio::test]
async fn ignore_files_count_without_git_and_hidden_files_are_found() {
    let dir = tree(&[
        (".gitignore", "*.log\n"),
        ("a.log", ""),
        ("sub/b.log", ""),
        (".hidden.txt", ""),
    ]);
    check(
        dir.path(),
        json!({"pattern": "*"}),
        ".gitignore\n.hidden.txt\nsub/",
    )
    .await;
    check(
        dir.path(),
        json!({"pattern": "*.log"}),
        &format!("{NOTHING}\n2 files hidden by ignore rules were not listed"),
    )
    .await;
    fs::create_dir(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".git/config.txt"), "").unwrap();
    check(dir.path(), json!({"pattern": "*.txt"}), ".hidden.txt").await;
}

#[tokio::test]
async fn at_the_limit_the_search_stops_and_says_so() {
    let names: Vec<_> = (0..1005).map(|n| format!("f{n:04}.txt")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let dir = tree(&files);
    for limit in [json!(2), json!("2")] {
        let args = json!({"pattern": "*.txt", "limit": limit});
        let (text, details) = outcome(dir.path(), args).await;
        assert_eq!(
            text,
            "f0000.txt\nf0001.txt\n\n\
             [2 results limit reached. Use limit=4 for more, or refine pattern]"
        );
        assert_eq!(details, json!({"resultLimitReached": 2}));
    }
    let (text, details) = outcome(dir.path(), json!({"pattern": "*.txt"})).await;
    let end =
        "f0999.txt\n\n[1000 results limit reached. Use limit=2000 for more, or refine pattern]";
    assert!(text.ends_with(end));
    assert_eq!(details, json!({"resultLimitReached": 1000}));
    let (text, details) = outcome(dir.path(), json!({"pattern": "*.txt", "limit": 1006})).await;
    assert_eq!((text.lines().count(), details), (1005, Value::Null));
}

#[tokio::test]
async fn the_byte_limit_applies_after_formatting() {
    let folder = "d".repeat(200);
    let names: Vec<_> = (0..700).map(|n| format!("{folder}/f{n:04}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let dir = tree(&files);
    let (text, details) = outcome(dir.path(), json!({"pattern": "f*"})).await;
    let (shown, notice) = text.rsplit_once("\n\n").unwrap();
    assert_eq!(notice, "[128.0KB limit reached]");
    assert!(shown.len() <= 131_072 && shown.len() > 130_000);
    let t = &details["truncation"];
    assert_eq!(
        (&t["totalLines"], &t["truncated"]),
        (&json!(700), &json!(true))
    );
    assert_eq!(t["content"], shown);
}

#[tokio::test]
async fn cycles_of_links_end_and_each_file_comes_once() {
    let dir = tree(&[("d/e/f.txt", "")]);
    symlink("..", dir.path().join("d/e/up")).unwrap();
    symlink("d", dir.path().join("loop")).unwrap();
    check(dir.path(), json!({"pattern": "*.txt"}), "d/e/f.txt").await;
    check(
        dir.path(),
        json!({"pattern": "*"}),
        "d/\nd/e/\nd/e/f.txt\nd/e/up\nloop",
    )
    .await;
}

#[tokio::test]
async fn errors() {
    let dir = tree(&[("a.txt", "")]);
    let here = dir.path().display();
    check(
        dir.path(),
        json!({"pattern": "*", "path": "zz"}),
        &format!("error: Path not found: {here}/zz"),
    )
    .await;
    check(
        dir.path(),
        json!({"pattern": "*", "path": "a.txt"}),
        &format!("error: Not a directory: {here}/a.txt"),
    )
    .await;
    let (text, _) = outcome(dir.path(), json!({"pattern": "[a"})).await;
    assert!(text.contains("unclosed character class"), "{text}");
    let abort = AbortSignal::new();
    abort.cancel();
    let context = ToolContext {
        abort,
        updates: UpdateSink::discarding(),
    };
    let tool = Arc::new(FindTool::new(env(dir.path())));
    let aborted = call_in(tool, json!({"pattern": "*"}), context).await;
    assert_eq!(text_of(&aborted), "error: Operation aborted");
}

#[test]
fn schema_and_access() {
    let dir = tree(&[]);
    let tool = FindTool::new(env(dir.path()));
    let parameters = &tool.spec().parameters;
    assert_eq!(parameters["required"], json!(["pattern"]));
    let types: Vec<_> = parameters["properties"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, schema)| (name.as_str(), schema["type"].as_str().unwrap()))
        .collect();
    let expected = [
        ("pattern", "string"),
        ("path", "string"),
        ("limit", "number"),
    ];
    assert_eq!(types, expected);
    assert_eq!(
        tool.accesses(&json!({"pattern": "x"})),
        [Access::Path {
            operation: PathOperation::Search,
            path: dir.path().to_path_buf()
        }]
    );
}
