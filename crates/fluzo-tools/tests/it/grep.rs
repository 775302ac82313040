//! `grep`: what is searched, how lines are shown, and what is said about the rest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use fluzo_agent::{Tool, ToolContext, UpdateSink};
use fluzo_llm::AbortSignal;
use fluzo_policy::{Access, PathOperation};
use fluzo_stdx::truncate::TextLimits;
use fluzo_tools::{GrepTool, ToolLimits};
use serde_json::{Value, json};

use crate::support::{call, call_in, env, plain_env, text_of, tree};

async fn outcome(dir: &Path, args: Value) -> (String, Value) {
    let result = call(Arc::new(GrepTool::new(env(dir))), args).await;
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

#[tokio::test]
async fn options_work_as_ripgreps_do() {
    let dir = tree(&[
        ("a.rs", "Foo.bar\nfoo\nfooXbar\n"),
        ("sub/b.ts", "foo.bar\n"),
        (".hidden/c.rs", "foo\n"),
    ]);
    let rows = [
        (
            json!({"pattern": "foo$"}),
            ".hidden/c.rs:1: foo\na.rs:2: foo",
        ),
        (
            json!({"pattern": "foo.bar"}),
            "a.rs:3: fooXbar\nsub/b.ts:1: foo.bar",
        ),
        (
            json!({"pattern": "foo.bar", "literal": true}),
            "sub/b.ts:1: foo.bar",
        ),
        (
            json!({"pattern": "FOO.BAR", "literal": true, "ignoreCase": true}),
            "a.rs:1: Foo.bar\nsub/b.ts:1: foo.bar",
        ),
        (
            json!({"pattern": "foo", "glob": "*.ts"}),
            "sub/b.ts:1: foo.bar",
        ),
        (
            json!({"pattern": "foo$", "glob": "!.hidden/**"}),
            "a.rs:2: foo",
        ),
        (
            json!({"pattern": "foo$", "glob": "*.{rs,py}", "path": ".hidden"}),
            "c.rs:1: foo",
        ),
        (
            json!({"pattern": "foo", "path": "sub/b.ts"}),
            "b.ts:1: foo.bar",
        ),
        (json!({"pattern": "-e"}), "No matches found"),
    ];
    for (args, expected) in rows {
        check(dir.path(), args, expected).await;
    }
}

#[tokio::test]
async fn absolute_and_relative_paths_give_the_same() {
    let dir = tree(&[("src/x.js", "foo\n"), ("src/deep/y.js", "foo\n")]);
    let absolute = dir.path().join("src");
    for path in [
        "src",
        "./src/",
        "src/deep/..",
        "@src",
        absolute.to_str().unwrap(),
    ] {
        let args = json!({"pattern": "foo", "path": path});
        check(dir.path(), args, "deep/y.js:1: foo\nx.js:1: foo").await;
    }
}

#[tokio::test]
async fn contexts_that_overlap_are_repeated() {
    let dir = tree(&[("a.txt", "1\nx\n3\nx\n5\n6\n")]);
    check(
        dir.path(),
        json!({"pattern": "x", "context": 1}),
        "a.txt-1- 1\na.txt:2: x\na.txt-3- 3\na.txt-3- 3\na.txt:4: x\na.txt-5- 5",
    )
    .await;
    // A neighbour that matches is context in the other's block.
    check(
        dir.path(),
        json!({"pattern": "x", "context": 2}),
        "a.txt-1- 1\na.txt:2: x\na.txt-3- 3\na.txt-4- x\n\
         a.txt-2- x\na.txt-3- 3\na.txt:4: x\na.txt-5- 5\na.txt-6- 6",
    )
    .await;
    check(
        dir.path(),
        json!({"pattern": "x", "context": 2, "limit": 1}),
        "a.txt-1- 1\na.txt:2: x\na.txt-3- 3\na.txt-4- x\n\n\
         [1 matches limit reached. Use limit=2 for more, or refine pattern]",
    )
    .await;
    check(
        dir.path(),
        json!({"pattern": "6", "context": 1e12}),
        "a.txt-1- 1\na.txt-2- x\na.txt-3- 3\na.txt-4- x\na.txt-5- 5\na.txt:6: 6",
    )
    .await;
}

#[tokio::test]
async fn ignore_files_count_inside_a_git_repository_only() {
    let dir = tree(&[
        (".gitignore", "ignored/\n"),
        ("ignored/i.js", "foo\n"),
        ("src/x.js", "foo\n"),
    ]);
    let args = || json!({"pattern": "foo"});
    check(dir.path(), args(), "ignored/i.js:1: foo\nsrc/x.js:1: foo").await;
    fs::create_dir(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".git/config"), "foo\n").unwrap();
    check(dir.path(), args(), "src/x.js:1: foo").await;
    check(
        dir.path(),
        json!({"pattern": "foo", "path": "ignored"}),
        "i.js:1: foo",
    )
    .await;
}

#[tokio::test]
async fn no_match_is_followed_by_what_was_hidden() {
    let dir = tree(&[
        (".ignore", "*.log\n"),
        ("a.log", "foo\n"),
        ("b.log", "foo\n"),
    ]);
    let one = "No matches found\n1 file hidden by ignore rules was not searched";
    let two = "No matches found\n2 files hidden by ignore rules were not searched";
    check(dir.path(), json!({"pattern": "foo"}), two).await;
    // A glob that names ignored files finds them, as ripgrep's does.
    let args = json!({"pattern": "foo", "glob": "a*"});
    check(dir.path(), args, "a.log:1: foo").await;
    fs::remove_file(dir.path().join("b.log")).unwrap();
    check(dir.path(), json!({"pattern": "foo"}), one).await;
    fs::remove_file(dir.path().join(".ignore")).unwrap();
    check(
        dir.path(),
        json!({"pattern": "nomatch"}),
        "No matches found",
    )
    .await;
}

#[tokio::test]
async fn at_the_limit_the_search_stops_and_says_so() {
    let dir = tree(&[("x.js", "one\nfoo here\nx\nfoo again\n")]);
    let first = "x.js:2: foo here\n\n\
                 [1 matches limit reached. Use limit=2 for more, or refine pattern]";
    for limit in [json!(1), json!(0), json!(-3), json!(1.9)] {
        let (text, details) = outcome(dir.path(), json!({"pattern": "foo", "limit": limit})).await;
        assert_eq!(text, first, "{limit}");
        assert_eq!(details, json!({"matchLimitReached": 1}));
    }
    let many: String = (0..150).map(|n| format!("foo {n}\n")).collect();
    fs::write(dir.path().join("x.js"), many).unwrap();
    let (text, details) = outcome(dir.path(), json!({"pattern": "foo"})).await;
    let end = "x.js:100: foo 99\n\n\
               [100 matches limit reached. Use limit=200 for more, or refine pattern]";
    assert!(text.ends_with(end), "{text}");
    assert_eq!(details, json!({"matchLimitReached": 100}));
}

#[tokio::test]
async fn long_lines_are_cut_and_reported() {
    let z = |n| "z".repeat(n);
    let dir = tree(&[
        ("fits.txt", &format!("{}\n", z(2000))),
        ("long.txt", &format!("{}\n", z(2001))),
        ("smile.txt", &format!("{}\u{1f600}\n", z(1999))),
    ]);
    let (text, details) = outcome(dir.path(), json!({"pattern": "z"})).await;
    let expected = format!(
        "fits.txt:1: {}\nlong.txt:1: {}... [truncated]\nsmile.txt:1: {}... [truncated]\n\n\
         [Some lines truncated to 2000 chars. Use read tool to see full lines]",
        z(2000),
        z(2000),
        z(1999)
    );
    assert_eq!(text, expected);
    assert_eq!(details, json!({"linesTruncated": true}));
}

#[tokio::test]
async fn the_byte_limit_applies_after_formatting() {
    let lines: String = (0..400)
        .map(|_| format!("{}\n", "z".repeat(1000)))
        .collect();
    let dir = tree(&[("a.txt", &lines)]);
    let (text, details) = outcome(dir.path(), json!({"pattern": "z", "limit": 200})).await;
    let (shown, notice) = text.rsplit_once("\n\n").unwrap();
    assert!(shown.len() <= 131_072 && shown.ends_with('z'));
    assert_eq!(
        notice,
        "[200 matches limit reached. Use limit=400 for more, or refine pattern. \
         128.0KB limit reached]"
    );
    let t = &details["truncation"];
    assert_eq!(details["matchLimitReached"], 200);
    assert_eq!(t["content"], shown);
    assert_eq!(t["outputLines"], shown.lines().count());
    assert_eq!(
        (&t["totalLines"], &t["truncatedBy"]),
        (&json!(200), &json!("bytes"))
    );
    assert_eq!(t["maxLines"], 9_007_199_254_740_991_u64);
    let keys: Vec<_> = details.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["matchLimitReached", "truncation"]);
}

#[tokio::test]
async fn odd_bytes_and_line_ends() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), b"foo\xff\r\nfoo\r\n").unwrap();
    fs::write(dir.path().join("b.bin"), b"\0foo\n").unwrap();
    check(
        dir.path(),
        json!({"pattern": "foo"}),
        "a.txt:1: foo\u{fffd}\na.txt:2: foo",
    )
    .await;
}

#[tokio::test]
async fn cycles_of_links_end_and_each_file_comes_once() {
    let dir = tree(&[("d/e/f.txt", "foo\n")]);
    symlink("..", dir.path().join("d/e/up")).unwrap();
    symlink("d", dir.path().join("loop")).unwrap();
    check(dir.path(), json!({"pattern": "foo"}), "d/e/f.txt:1: foo").await;
}

#[tokio::test]
async fn dotfiles_are_searched() {
    let dir = tree(&[(".github/workflows/ci.yml", "on: push\n")]);
    let rows = [
        (
            json!({"pattern": "on:"}),
            ".github/workflows/ci.yml:1: on: push",
        ),
        (
            json!({"pattern": "on:", "path": ".github"}),
            "workflows/ci.yml:1: on: push",
        ),
    ];
    for (args, expected) in rows {
        check(dir.path(), args, expected).await;
    }
}

#[tokio::test]
async fn a_name_that_only_looks_the_same_is_found_and_reported() {
    let dir = tree(&[("a\u{a0}b/x", "foo\n")]);
    check(
        dir.path(),
        json!({"pattern": "foo", "path": "a b"}),
        "x:1: foo\n[Name on disk: a\u{a0}b]",
    )
    .await;
}

#[tokio::test]
async fn errors() {
    let dir = tree(&[("a\u{a0}b/x", "foo\n"), ("a\u{2009}b/x", "foo\n")]);
    let here = dir.path().display();
    check(
        dir.path(),
        json!({"pattern": "foo", "path": "zz"}),
        &format!("error: Path not found: {here}/zz"),
    )
    .await;
    let (text, _) = outcome(dir.path(), json!({"pattern": "foo", "path": "a b"})).await;
    let start = format!("error: Path not found: {here}/a b\nSeveral names look the same: ");
    assert!(text.starts_with(&start), "{text}");
    let (text, _) = outcome(dir.path(), json!({"pattern": "(foo"})).await;
    assert!(text.contains("unclosed group"), "{text}");
    let (text, _) = outcome(dir.path(), json!({"pattern": "foo", "glob": "[a"})).await;
    assert!(text.contains("unclosed character class"), "{text}");
    let abort = AbortSignal::new();
    abort.cancel();
    let context = ToolContext {
        abort,
        updates: UpdateSink::discarding(),
    };
    let tool = Arc::new(GrepTool::new(env(dir.path())));
    let aborted = call_in(tool, json!({"pattern": "foo"}), context).await;
    assert_eq!(text_of(&aborted), "error: Operation aborted");
}

#[tokio::test]
async fn limits_are_those_handed_in() {
    let dir = tree(&[("a.txt", "foo 123456789\nfoo\nfoo\n")]);
    let mut env = plain_env(dir.path());
    env.limits = ToolLimits {
        text: TextLimits {
            max_lines: 1,
            max_bytes: 45,
        },
        grep_line: 5,
    };
    let tool = Arc::new(GrepTool::new(Arc::new(env)));
    assert!(
        tool.spec()
            .description
            .contains("45B, lines cut at 5 characters")
    );
    let result = call(tool, json!({"pattern": "foo"})).await;
    assert_eq!(
        text_of(&result),
        "a.txt:1: foo 1... [truncated]\na.txt:2: foo\n\n\
         [45B limit reached. Some lines truncated to 5 chars. Use read tool to see full lines]"
    );
}

#[test]
fn schema_and_access() {
    let dir = tree(&[("src/a", "")]);
    let tool = GrepTool::new(env(dir.path()));
    let parameters = &tool.spec().parameters;
    assert_eq!(parameters["required"], json!(["pattern"]));
    let types: Vec<_> = parameters["properties"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, schema)| (name.as_str(), schema["type"].as_str().unwrap()))
        .collect();
    assert_eq!(
        types,
        [
            ("pattern", "string"),
            ("path", "string"),
            ("glob", "string"),
            ("ignoreCase", "boolean"),
            ("literal", "boolean"),
            ("context", "number"),
            ("limit", "number"),
        ]
    );
    for (args, path) in [
        (json!({"pattern": "x"}), dir.path().to_path_buf()),
        (
            json!({"pattern": "x", "path": "src"}),
            dir.path().join("src"),
        ),
    ] {
        let operation = PathOperation::Search;
        assert_eq!(tool.accesses(&args), [Access::Path { operation, path }]);
    }
}
