//! Search in this process against `rg` and `fd` on one tree, in turns. The tree is made here, or named as an argument.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fluzo_exec::{FindQuery, GrepQuery, LocalSearch, TreeSearch};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 9;
const DIRECTORIES: usize = 500;
const FILES: usize = 40;

fn main() {
    let made = tempfile::tempdir().unwrap();
    let named = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let root = named.map_or_else(|| made_tree(made.path()), PathBuf::from);
    let rg = available(&["rg"]);
    let fd = available(&["fdfind", "fd"]);
    for (name, pattern, limit) in [
        ("rare", "needle_in_the_hay", 100),
        ("absent", "nowhere_to_be_found", 100),
        ("common", "the", 100),
        ("all", "the", usize::MAX),
    ] {
        let peer = rg.as_deref().map(|rg| {
            let mut command = Command::new(rg);
            command
                .args([
                    "--json",
                    "--line-number",
                    "--hidden",
                    "--glob",
                    "!.git/",
                    "--",
                    pattern,
                ])
                .arg(&root);
            command
        });
        compare(
            &format!("grep {name}"),
            || grep(&root, pattern, limit),
            peer,
            limit,
        );
    }
    for (name, pattern, limit) in [
        ("rare", "*7_39.rs", 1000),
        ("absent", "*.nothing", 1000),
        ("all", "*", usize::MAX),
        ("path", "**/d00?/*.rs", 1000),
    ] {
        let peer = fd.as_deref().map(|fd| {
            let mut command = Command::new(fd);
            command.args([
                "--glob",
                "--hidden",
                "--no-ignore-vcs",
                "--ignore",
                "--exclude",
                ".git",
            ]);
            if limit != usize::MAX {
                command.args(["--max-results", &limit.to_string()]);
            }
            if pattern.contains('/') {
                command.arg("--full-path");
            }
            command.args(["--", pattern]).arg(&root);
            command
        });
        compare(
            &format!("find {name}"),
            || find(&root, pattern, limit),
            peer,
            limit,
        );
    }
}

fn made_tree(base: &Path) -> PathBuf {
    let text: String = (0..60)
        .map(|n| format!("    let value_{n} = compute(the_input, {n});\n"))
        .collect();
    for directory in 0..DIRECTORIES {
        let folder = base.join(format!("a{}/d{directory:03}", directory % 10));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..FILES {
            let rare = if directory % 100 == 50 && file == 7 {
                "needle_in_the_hay\n"
            } else {
                ""
            };
            fs::write(
                folder.join(format!("f{directory}_{file}.rs")),
                format!("{text}{rare}"),
            )
            .unwrap();
        }
    }
    fs::create_dir(base.join(".git")).unwrap();
    fs::write(base.join(".gitignore"), "*.log\n/target\n").unwrap();
    base.to_path_buf()
}

fn available(names: &[&str]) -> Option<String> {
    let found = names
        .iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        println!("{} is not installed: no comparison", names[0]);
    }
    found.map(|name| (*name).to_owned())
}

fn grep(root: &Path, pattern: &str, limit: usize) -> usize {
    let query = GrepQuery {
        pattern: pattern.into(),
        root: root.into(),
        glob: None,
        ignore_case: false,
        literal: false,
        limit,
        context: 0,
    };
    LocalSearch::default()
        .grep(&query, &CancellationToken::new())
        .unwrap()
        .lines
        .len()
}

fn find(root: &Path, pattern: &str, limit: usize) -> usize {
    let query = FindQuery {
        pattern: pattern.into(),
        root: root.into(),
        limit,
    };
    LocalSearch::default()
        .find(&query, &CancellationToken::new())
        .unwrap()
        .paths
        .len()
}

fn compare(name: &str, ours: impl Fn() -> usize, mut peer: Option<Command>, limit: usize) {
    let (mut own, mut other, mut results) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        own.push(timed(|| results = ours()));
        if let Some(peer) = &mut peer {
            other.push(timed(|| {
                peer.stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .unwrap();
            }));
        }
    }
    let own = median(own);
    let bound = if limit == usize::MAX {
        "no limit".to_owned()
    } else {
        format!("limit {limit}")
    };
    match peer {
        Some(peer) => {
            let other = median(other);
            let ratio = own.as_secs_f64() / other.as_secs_f64();
            let program = peer.get_program().to_string_lossy().into_owned();
            println!(
                "{name:12} {bound:10} {results:8} results  {own:>10.2?}  {program} {other:>10.2?}  ratio {ratio:.2}"
            );
        }
        None => println!("{name:12} {bound:10} {results:8} results  {own:>10.2?}"),
    }
}

fn timed(action: impl FnOnce()) -> Duration {
    let start = Instant::now();
    action();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
