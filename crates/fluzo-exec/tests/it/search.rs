//! Searching for text and names: ignore rules, hidden files, links, limits, context, errors, cancellation.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fluzo_exec::{
    FindQuery, FindReport, GrepLineKind, GrepQuery, GrepReport, IGNORED_BOUND, LINE_BOUND,
    LocalSearch, LocalSearchConfig, SearchError, TreeSearch, errno_text,
};
use tokio_util::sync::CancellationToken;

use crate::support::folder;

fn local() -> LocalSearch {
    LocalSearch::new(LocalSearchConfig {
        threads: 3,
        user_gitignore: false,
    })
}

/// Makes files from `path: content` pairs; a path that ends in `/` is a directory.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let (dir, base) = folder();
    for (path, content) in files {
        let path = base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if content.is_empty() && path.to_str().unwrap().ends_with('/') {
            fs::create_dir_all(&path).unwrap();
        } else {
            fs::write(&path, content).unwrap();
        }
    }
    (dir, base)
}

fn query(root: &Path, pattern: &str) -> GrepQuery {
    GrepQuery {
        pattern: pattern.into(),
        root: root.into(),
        glob: None,
        ignore_case: false,
        literal: false,
        limit: 100,
        context: 0,
    }
}

fn grep(query: &GrepQuery) -> GrepReport {
    local().grep(query, &CancellationToken::new()).unwrap()
}

/// `path:line:text` of matches, `path-line-text` of context, `--` between blocks.
fn shown(report: &GrepReport, base: &Path) -> Vec<String> {
    let mut block = 0;
    let mut shown = Vec::new();
    for line in &report.lines {
        if line.block != block {
            block = line.block;
            shown.push("--".to_owned());
        }
        let path = line.path.strip_prefix(base).unwrap().display();
        let sign = if line.kind == GrepLineKind::Match {
            ':'
        } else {
            '-'
        };
        shown.push(format!(
            "{path}{sign}{}{sign}{}",
            line.line,
            String::from_utf8_lossy(&line.bytes)
        ));
    }
    shown
}

fn matches(report: &GrepReport, base: &Path) -> Vec<String> {
    shown(report, base)
        .into_iter()
        .filter(|line| line != "--")
        .collect()
}

fn find(root: &Path, pattern: &str, limit: usize) -> FindReport {
    let query = FindQuery {
        pattern: pattern.into(),
        root: root.into(),
        limit,
    };
    local().find(&query, &CancellationToken::new()).unwrap()
}

fn found(report: &FindReport) -> Vec<String> {
    let slash = |is_dir| if is_dir { "/" } else { "" };
    report
        .paths
        .iter()
        .map(|path| format!("{}{}", path.relative.display(), slash(path.is_dir)))
        .collect()
}

#[test]
fn patterns() {
    let (_dir, base) = tree(&[
        ("f.txt", "alpha.beta\r\nALPHA beta\nalphaXbeta\n\nend"),
        ("g.rs", "alpha\n"),
    ]);
    let check = |change: &dyn Fn(&mut GrepQuery), pattern: &str, expected: &[&str]| {
        let mut query = query(&base, pattern);
        change(&mut query);
        assert_eq!(matches(&grep(&query), &base), expected, "{query:?}");
    };
    let all = ["f.txt:1:alpha.beta", "f.txt:3:alphaXbeta", "g.rs:1:alpha"];
    check(&|_| (), "alpha", &all);
    check(&|_| (), "alpha.beta", &all[..2]);
    check(&|q| q.literal = true, "alpha.beta", &all[..1]);
    check(
        &|q| q.ignore_case = true,
        "^alpha b",
        &["f.txt:2:ALPHA beta"],
    );
    check(
        &|_| (),
        "ALPHA|end$",
        &["f.txt:2:ALPHA beta", "f.txt:5:end"],
    );
    check(&|_| (), "^$", &["f.txt:4:"]);
    check(&|q| q.glob = Some("*.rs".into()), "alpha", &all[2..]);
    check(&|q| q.glob = Some("!*.rs".into()), "alpha", &all[..2]);
    check(&|q| q.glob = Some("*.{rs,md}".into()), "alpha", &all[2..]);
    check(&|q| q.literal = true, "[", &[]);
    check(&|q| q.root = base.join("g.rs"), "alpha", &all[2..]);
}

#[test]
fn absolute_and_relative_roots_give_the_same() {
    let (_dir, base) = tree(&[("src/a.rs", "x\n")]);
    assert_eq!(
        matches(&grep(&query(&base.join("src"), "x")), &base),
        ["src/a.rs:1:x"]
    );
    assert_eq!(
        matches(
            &grep(&query(&base.join("src/../src/./"), "x")),
            &base.join("src/../src")
        ),
        ["a.rs:1:x"]
    );
    symlink("src", base.join("link")).unwrap();
    assert_eq!(
        matches(&grep(&query(&base.join("link"), "x")), &base),
        ["link/a.rs:1:x"]
    );
    assert_eq!(found(&find(&base.join("link"), "*.rs", 9)), ["a.rs"]);
}

const IGNORING: &[(&str, &str)] = &[
    (".gitignore", "*.log\ntarget/\n"),
    (".ignore", "by-ignore\n"),
    ("a.log", "hit\n"),
    ("by-ignore", "hit\n"),
    (".hidden", "hit\n"),
    (".github/workflows/ci.yml", "on: hit\n"),
    ("src/.gitignore", "inner\n!kept.log\n"),
    ("src/inner", "hit\n"),
    ("src/kept.log", "hit\n"),
    ("target/out.rs", "hit\n"),
];

#[test]
fn grep_honours_gitignore_inside_a_repository_only() {
    let (_dir, base) = tree(IGNORING);
    let everything = [
        ".github/workflows/ci.yml:1:on: hit",
        ".hidden:1:hit",
        "a.log:1:hit",
        "src/inner:1:hit",
        "src/kept.log:1:hit",
        "target/out.rs:1:hit",
    ];
    assert_eq!(matches(&grep(&query(&base, "hit")), &base), everything);
    fs::create_dir(base.join(".git")).unwrap();
    fs::write(base.join(".git/config"), "hit\n").unwrap();
    let visible = [
        ".github/workflows/ci.yml:1:on: hit",
        ".hidden:1:hit",
        "src/kept.log:1:hit",
    ];
    assert_eq!(matches(&grep(&query(&base, "hit")), &base), visible);
    // From a folder below, the rules above still hold.
    assert_eq!(
        matches(&grep(&query(&base.join("src"), "hit")), &base),
        visible[2..]
    );
    // What is named itself is searched.
    assert_eq!(
        matches(&grep(&query(&base.join("a.log"), "hit")), &base),
        ["a.log:1:hit"]
    );
    assert_eq!(
        matches(&grep(&query(&base.join("target"), "hit")), &base),
        ["target/out.rs:1:hit"]
    );
    assert_eq!(
        matches(&grep(&query(&base.join(".github"), "on:")), &base),
        [visible[0]]
    );
}

#[test]
fn find_honours_gitignore_everywhere() {
    let (_dir, base) = tree(IGNORING);
    let expected = [
        ".github/",
        ".github/workflows/",
        ".github/workflows/ci.yml",
        ".gitignore",
        ".hidden",
        ".ignore",
        "src/",
        "src/.gitignore",
        "src/kept.log",
    ];
    assert_eq!(found(&find(&base, "*", 1000)), expected);
    assert_eq!(found(&find(&base, "", 1000)), expected);
    fs::create_dir_all(base.join(".git/objects")).unwrap();
    assert_eq!(found(&find(&base, "**", 1000)), expected);
    fs::write(base.join(".fdignore"), "kept.log\n").unwrap();
    assert_eq!(found(&find(&base, "*.log", 1000)), [""; 0]);
}

#[test]
fn ignored_files_are_counted_when_nothing_is_found() {
    let (_dir, base) = tree(IGNORING);
    fs::create_dir(base.join(".git")).unwrap();
    assert_eq!(grep(&query(&base, "nothing")).ignored_files, 4);
    assert_eq!(grep(&query(&base, "hit")).ignored_files, 0);
    let mut globbed = query(&base, "nothing");
    globbed.glob = Some("*.rs".into());
    assert_eq!(grep(&globbed).ignored_files, 1);
    assert_eq!(find(&base, "out.*", 10).ignored_files, 1);
    assert_eq!(find(&base, "*.java", 10).ignored_files, 0);
    assert_eq!(find(&base, "kept.log", 10).ignored_files, 0);
}

#[test]
fn counting_of_ignored_files_is_bounded() {
    let (_dir, base) = tree(&[(".gitignore", "many/\n"), ("f", "")]);
    fs::create_dir_all(base.join("many")).unwrap();
    for i in 0..IGNORED_BOUND + 100 {
        fs::write(base.join(format!("many/{i}.x")), "").unwrap();
    }
    assert_eq!(find(&base, "*.x", 10).ignored_files, IGNORED_BOUND);
    fs::create_dir(base.join(".git")).unwrap();
    assert_eq!(grep(&query(&base, "nothing")).ignored_files, IGNORED_BOUND);
}

#[test]
fn find_patterns() {
    let files = [
        ("README.md", ""),
        ("src/a/M.java", ""),
        ("src/M.java", ""),
        ("lib/src/b/N.java", ""),
        ("src/a/m.txt", ""),
        (".github/workflows/ci.yml", ""),
        ("d.rs/x", ""),
        ("a[1].txt", ""),
    ];
    let (_dir, base) = tree(&files);
    let check = |pattern: &str, expected: &[&str]| {
        assert_eq!(found(&find(&base, pattern, 100)), expected, "{pattern}")
    };
    check(
        "*.java",
        &["lib/src/b/N.java", "src/M.java", "src/a/M.java"],
    );
    check(
        "src/**/*.java",
        &["lib/src/b/N.java", "src/M.java", "src/a/M.java"],
    );
    check("src/*.java", &["src/M.java"]);
    check("src/a/*", &["src/a/M.java", "src/a/m.txt"]);
    check(".github/workflows/*.yml", &[".github/workflows/ci.yml"]);
    check("**/ci.yml", &[".github/workflows/ci.yml"]);
    check("*.rs", &["d.rs/"]);
    check("readme*", &["README.md"]);
    check("README*", &["README.md"]);
    check("Readme*", &[]);
    check("m.*", &["src/M.java", "src/a/M.java", "src/a/m.txt"]);
    check("M.*", &["src/M.java", "src/a/M.java"]);
    check("{m.txt,x}", &["d.rs/x", "src/a/m.txt"]);
    check("a\\[1\\].txt", &["a[1].txt"]);
    check("?", &["d.rs/x", "lib/src/b/", "src/a/"]);
    check("java", &[]);
    check(&format!("{}/src/*.java", base.display()), &["src/M.java"]);
    check("/src/*.java", &[]);
}

#[test]
fn links_are_not_followed_so_cycles_end() {
    let (_dir, base) = tree(&[("d/e/f.txt", "hit\n")]);
    symlink("..", base.join("d/e/up")).unwrap();
    symlink("d", base.join("loop")).unwrap();
    symlink("f.txt", base.join("d/e/to-f.txt")).unwrap();
    assert_eq!(
        matches(&grep(&query(&base, "hit")), &base),
        ["d/e/f.txt:1:hit"]
    );
    assert_eq!(
        found(&find(&base, "*", 100)),
        ["d/", "d/e/", "d/e/f.txt", "d/e/to-f.txt", "d/e/up", "loop"]
    );
}

#[test]
fn special_files_are_passed_over() {
    let (_dir, base) = tree(&[("f", "hit\n")]);
    assert!(
        std::process::Command::new("mkfifo")
            .arg(base.join("pipe"))
            .status()
            .unwrap()
            .success()
    );
    let report = grep(&query(&base, "hit"));
    assert_eq!(
        (matches(&report, &base), report.unreadable),
        (vec!["f:1:hit".to_owned()], 0)
    );
    for (path, text) in [
        (base.join("pipe"), "not a regular file but a named pipe"),
        ("/dev/zero".into(), "not a regular file but a device"),
    ] {
        let error = local()
            .grep(&query(&path, "hit"), &CancellationToken::new())
            .unwrap_err();
        assert!(
            matches!(&error, SearchError::Root { source, .. } if errno_text(source) == text),
            "{error:?}"
        );
    }
}

#[test]
fn limits_give_the_first_in_order_whatever_the_timing() {
    let (_dir, base) = folder();
    for dir in 0..30 {
        fs::create_dir(base.join(format!("d{dir:02}"))).unwrap();
        for file in 0..20 {
            fs::write(
                base.join(format!("d{dir:02}/f{file:02}")),
                "no\nhit\nhit\nhit\n",
            )
            .unwrap();
        }
    }
    for limit in [0, 1, 2, 3, 4, 7, 100] {
        let mut limited = query(&base, "hit");
        limited.limit = limit;
        let expected: Vec<String> = (0..limit.max(1))
            .map(|n| format!("d{:02}/f{:02}:{}:hit", n / 60, n / 3 % 20, n % 3 + 2))
            .collect();
        for _ in 0..5 {
            let report = grep(&limited);
            assert_eq!(matches(&report, &base), expected, "{limit}");
            assert!(report.limit_reached);
        }
        let expected: Vec<String> = (0..limit.max(1))
            .map(|n| format!("d{:02}/f{:02}", n / 20, n % 20))
            .collect();
        for _ in 0..5 {
            let report = find(&base, "f*", limit);
            assert_eq!(found(&report), expected, "{limit}");
            assert!(report.limit_reached);
        }
    }
    let mut all = query(&base, "hit");
    all.limit = 1801;
    let report = grep(&all);
    assert_eq!((report.lines.len(), report.limit_reached), (1800, false));
    all.limit = 1800;
    assert!(grep(&all).limit_reached);
}

#[test]
fn context_lines_and_blocks() {
    let (_dir, base) = tree(&[
        ("f", "1\nhit 2\n3\n4\n5\nhit 6\n7\nhit 8\n9\n"),
        ("g", "hit 1\n2\n"),
    ]);
    let check = |context: usize, limit: usize, expected: &[&str]| {
        let mut query = query(&base, "hit");
        (query.context, query.limit) = (context, limit);
        assert_eq!(
            shown(&grep(&query), &base),
            expected,
            "context {context} limit {limit}"
        );
    };
    check(
        0,
        9,
        &[
            "f:2:hit 2",
            "--",
            "f:6:hit 6",
            "--",
            "f:8:hit 8",
            "--",
            "g:1:hit 1",
        ],
    );
    check(
        1,
        9,
        &[
            "f-1-1",
            "f:2:hit 2",
            "f-3-3",
            "--",
            "f-5-5",
            "f:6:hit 6",
            "f-7-7",
            "f:8:hit 8",
            "f-9-9",
            "--",
            "g:1:hit 1",
            "g-2-2",
        ],
    );
    check(1, 1, &["f-1-1", "f:2:hit 2", "f-3-3"]);
    check(
        2,
        2,
        &[
            "f-1-1",
            "f:2:hit 2",
            "f-3-3",
            "f-4-4",
            "f-5-5",
            "f:6:hit 6",
            "f-7-7",
            "f-8-hit 8",
        ],
    );
    check(
        1,
        4,
        &[
            "f-1-1",
            "f:2:hit 2",
            "f-3-3",
            "--",
            "f-5-5",
            "f:6:hit 6",
            "f-7-7",
            "f:8:hit 8",
            "f-9-9",
            "--",
            "g:1:hit 1",
            "g-2-2",
        ],
    );
}

#[test]
fn binary_files() {
    let (_dir, base) = tree(&[("b", "hit\n\0\nhit\n"), ("t", "hit\n")]);
    assert_eq!(matches(&grep(&query(&base, "hit")), &base), ["t:1:hit"]);
    let named = grep(&query(&base.join("b"), "hit"));
    assert_eq!(named.lines.len(), 2);
}

#[test]
fn utf16_and_invalid_utf8() {
    let (_dir, base) = folder();
    let wide: Vec<u8> = "\u{feff}größe hit\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::write(base.join("wide"), wide).unwrap();
    fs::write(base.join("bad"), b"\xff hit \xfe\n").unwrap();
    let report = grep(&query(&base, "hit"));
    assert_eq!(report.lines[0].bytes, b"\xff hit \xfe");
    assert_eq!(
        String::from_utf8_lossy(&report.lines[1].bytes).trim_start_matches('\u{feff}'),
        "größe hit"
    );
}

#[test]
fn long_lines_are_cut() {
    let (_dir, base) = tree(&[("f", &"x".repeat(3 * LINE_BOUND))]);
    let report = grep(&query(&base, "xx"));
    assert_eq!(report.lines[0].bytes.len(), LINE_BOUND);
}

#[test]
fn errors_are_typed_and_carry_the_reason() {
    let (_dir, base) = tree(&[("f", "")]);
    let fails = |query: &GrepQuery| local().grep(query, &CancellationToken::new()).unwrap_err();
    let error = fails(&query(&base, "a("));
    assert!(
        matches!(&error, SearchError::Pattern { message } if message.contains("unclosed group")),
        "{error:?}"
    );
    let error = fails(&query(&base, "a\nb"));
    assert!(matches!(error, SearchError::Pattern { .. }), "{error:?}");
    let mut bad_glob = query(&base, "a");
    bad_glob.glob = Some("a[".into());
    assert!(matches!(fails(&bad_glob), SearchError::Glob { .. }));
    bad_glob.root = base.join("f");
    assert!(matches!(fails(&bad_glob), SearchError::Glob { .. }));
    let missing = fails(&query(&base.join("gone"), "a"));
    assert!(
        matches!(&missing, SearchError::Root { source, .. } if source.kind() == std::io::ErrorKind::NotFound),
        "{missing:?}"
    );
    let find_fails = |root: &Path, pattern: &str| {
        let query = FindQuery {
            pattern: pattern.into(),
            root: root.into(),
            limit: 1,
        };
        local().find(&query, &CancellationToken::new()).unwrap_err()
    };
    assert!(matches!(find_fails(&base, "a["), SearchError::Glob { .. }));
    assert!(matches!(
        find_fails(&base.join("gone"), "a"),
        SearchError::Root { .. }
    ));
    assert!(
        matches!(find_fails(&base.join("f"), "a"), SearchError::Root { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory)
    );
}

#[test]
fn a_cancelled_search_is_an_error() {
    let (_dir, base) = tree(&[("f", "hit\n")]);
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let error = local().grep(&query(&base, "hit"), &cancelled).unwrap_err();
    assert!(matches!(error, SearchError::Cancelled));
    let find = FindQuery {
        pattern: "*".into(),
        root: base,
        limit: 1,
    };
    assert!(matches!(
        local().find(&find, &cancelled).unwrap_err(),
        SearchError::Cancelled
    ));
}

#[test]
fn a_pattern_too_large_to_be_searched_with_is_refused() {
    let (_dir, base) = folder();
    fs::write(base.join("long"), "a".repeat(100_000)).unwrap();
    let search = |pattern: &str| local().grep(&query(&base, pattern), &CancellationToken::new());
    for pattern in [
        "((a{0,100}){0,100}){0,100}",
        "((a{0,100}){0,100}){0,100}c",
        r"(\w{100}){100}",
    ] {
        let error = search(pattern).unwrap_err();
        assert!(
            matches!(&error, SearchError::Pattern { message } if message.contains("exceeds size limit")),
            "{pattern}: {error}"
        );
    }
    for (pattern, count) in [("(a{0,100}){0,10}", 1), (r"\w{1,100}x", 0), (".{1000}", 1)] {
        assert_eq!(search(pattern).unwrap().lines.len(), count, "{pattern}");
    }
}

#[test]
fn a_search_under_way_can_be_cancelled() {
    // So long a file that only cancelling ends the search.
    let cancel = CancellationToken::new();
    let (_dir, base) = folder();
    let file = fs::File::create(base.join("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    drop(file);
    let query = query(&base.join("sparse"), "hit");
    let search = std::thread::spawn({
        let cancel = cancel.clone();
        move || local().grep(&query, &cancel)
    });
    cancel.cancel();
    assert!(matches!(
        search.join().unwrap().unwrap_err(),
        SearchError::Cancelled
    ));
}

#[test]
fn a_list_has_so_many_levels_and_entries_in_the_order_asked_for() {
    let (_dir, base) = tree(&[
        ("b/x/deep", "1"),
        ("b/y", "1"),
        ("a", "1"),
        ("out/o", "1"),
        (".git/config", "1"),
        (".gitignore", "out/\n"),
    ]);
    let check = |levels, limit, expected: &[&str], limit_reached| {
        let backwards = |a: &std::ffi::OsStr, b: &std::ffi::OsStr| b.cmp(a);
        let token = CancellationToken::new();
        let report = local()
            .list(&base, levels, limit, backwards, &token)
            .unwrap();
        let paths = report.paths.iter().map(|found| {
            format!(
                "{}{}",
                found.relative.display(),
                if found.is_dir { "/" } else { "" }
            )
        });
        assert_eq!(paths.collect::<Vec<_>>(), expected);
        assert_eq!(report.limit_reached, limit_reached);
    };
    check(1, 9, &["b/", "a", ".gitignore"], false);
    check(2, 9, &["b/", "b/y", "b/x/", "a", ".gitignore"], false);
    check(2, 2, &["b/", "b/y"], true);
    let error = local().list(&base.join("a"), 1, 9, Ord::cmp, &CancellationToken::new());
    assert!(matches!(error, Err(SearchError::Root { .. })));
}
