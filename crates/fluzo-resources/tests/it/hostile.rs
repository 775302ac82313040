//! Folders and files that would hold a careless loader for ever.

use std::fmt::Write;

use fluzo_resources::{Frontmatter, Resources};
use proptest::prelude::*;

use crate::support::Fixture;

fn names(resources: &Resources) -> Vec<&str> {
    resources.skills.iter().map(|skill| &*skill.name).collect()
}

#[test]
fn cycles_of_links_end_and_each_file_counts_once() {
    let fixture = Fixture::new();
    fixture.skill(".pi/agent/skills/d/e/one/SKILL.md", "one");
    fixture.link("..", ".pi/agent/skills/d/e/up");
    fixture.link("d", ".pi/agent/skills/loop");
    fixture.link(".", ".pi/agent/skills/self");
    fixture.link("../../..", ".pi/agent/skills/above");
    fixture.link("loop-b", ".pi/agent/skills/loop-a");
    fixture.link("loop-a", ".pi/agent/skills/loop-b");
    let resources = fixture.load();
    assert_eq!(names(&resources), ["one"]);
    assert_eq!(resources.diagnostics, []);
}

#[test]
fn a_huge_folder_is_searched_up_to_a_bound_that_is_told() {
    let fixture = Fixture::new();
    for number in 0..300 {
        fixture.write(&format!(".pi/agent/skills/data/{number}"), "");
    }
    let mut sources = fixture.sources();
    sources.limits.entries = 100;
    let resources = Resources::load(&sources);
    assert_eq!(
        fixture.told(&resources),
        ["only 100 entries are looked at; what is beyond is not found: ~/.pi/agent/skills"]
    );
    sources.limits.entries = 302;
    assert_eq!(Resources::load(&sources).diagnostics, []);
}

#[test]
fn deep_folders_are_searched_up_to_a_bound_that_is_told() {
    let fixture = Fixture::new();
    let deep = format!(".pi/agent/skills/{}one/SKILL.md", "d/".repeat(60));
    fixture.skill(&deep, "one");
    let resources = fixture.load();
    assert_eq!(names(&resources), [] as [&str; 0]);
    let told = fixture.told(&resources);
    assert!(
        told.len() == 1 && told[0].starts_with("folders below 32 levels are not searched: "),
        "{told:?}"
    );
}

#[test]
fn pipes_are_never_waited_for() {
    let fixture = Fixture::new();
    for folder in [
        ".pi/agent/skills/a",
        ".pi/agent/prompts",
        ".pi/agent/themes",
    ] {
        std::fs::create_dir_all(fixture.path(folder)).unwrap();
    }
    for pipe in [
        ".pi/agent/skills/a/SKILL.md",
        ".pi/agent/skills/loose.md",
        ".pi/agent/skills/.gitignore",
        ".pi/agent/prompts/p.md",
        ".pi/agent/themes/t.json",
        ".pi/agent/SYSTEM.md",
    ] {
        fixture.fifo(pipe);
    }
    let resources = fixture.load();
    assert_eq!(
        fixture.told(&resources),
        [
            "the file is not used: EINVAL: not a regular file but a named pipe: ~/.pi/agent/skills/.gitignore",
            "not a regular file: ~/.pi/agent/skills/a/SKILL.md",
            "Could not read system prompt file ~/.pi/agent/SYSTEM.md: EINVAL: not a regular file but a named pipe",
        ]
    );
}

#[test]
fn folders_that_may_not_be_read_are_told_and_the_rest_is_loaded() {
    let mut fixture = Fixture::new();
    fixture.skill(".pi/agent/skills/a/x/SKILL.md", "hidden");
    let unread = fixture.skill(".pi/agent/skills/b/SKILL.md", "unread");
    fixture.skill(".pi/agent/skills/c/SKILL.md", "c");
    fixture.refused.push(fixture.path(".pi/agent/skills/a"));
    fixture.refused.push(unread);
    let resources = fixture.load();
    assert_eq!(names(&resources), ["c"]);
    assert_eq!(
        fixture.told(&resources),
        [
            "the folder could not be read: EACCES: permission denied: ~/.pi/agent/skills/a",
            "the skill is not loaded: EACCES: permission denied: ~/.pi/agent/skills/b/SKILL.md",
        ]
    );
}

#[test]
fn long_files_are_not_loaded() {
    let fixture = Fixture::new();
    let text = format!("---\ndescription: d\n---\n{}", "x".repeat(1024 * 1024));
    fixture.write(".pi/agent/skills/a/SKILL.md", &text);
    fixture.write(".pi/agent/prompts/p.md", &text);
    let told = fixture.told(&fixture.load());
    assert_eq!(
        told,
        [
            "the skill is not loaded: the file is longer than 1.0MB: ~/.pi/agent/skills/a/SKILL.md",
            "the prompt template is not loaded: the file is longer than 1.0MB: ~/.pi/agent/prompts/p.md",
        ]
    );
}

/// What a frontmatter comes to: its description, or the beginning of the error.
fn outcome(yaml: &str) -> Result<Option<String>, String> {
    let parsed = Frontmatter::parse(&format!("---\n{yaml}\n---\n"));
    parsed
        .map(|front| front.text("description").map(str::to_owned))
        .map_err(|error| error.to_string())
}

#[test]
fn frontmatter_that_would_explode() {
    // Each list names the one before nine times.
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..20 {
        let names = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{names}]").unwrap();
    }
    assert_eq!(
        outcome(&format!("{bomb}description: d")),
        Ok(Some("d".to_owned()))
    );
    assert_eq!(outcome(&format!("{bomb}description: *a19")), Ok(None));
    let nested = format!("x: {}{}\ndescription: d", "[".repeat(200), "]".repeat(200));
    assert_eq!(outcome(&nested), Ok(Some("d".to_owned())));
    for hostile in [
        "[".repeat(60_000),
        "{a: ".repeat(10_000),
        "- ".repeat(30_000),
    ] {
        let came = outcome(&hostile);
        assert!(came.is_err() || came == Ok(None), "{came:?}");
    }
    assert_eq!(
        outcome(&format!("description: {}", "x".repeat(70_000))),
        Err("the frontmatter is longer than 64.0KB".to_owned())
    );
}

#[test]
fn binary_frontmatter_is_told() {
    let fixture = Fixture::new();
    let mut bytes = b"---\ndescription: ".to_vec();
    bytes.extend(0..=255_u8);
    bytes.extend(b"\n---\n");
    fixture.write(".pi/agent/skills/a/SKILL.md", bytes);
    let resources = fixture.load();
    assert_eq!(
        (names(&resources).len(), resources.diagnostics.len()),
        (0, 1)
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[\\[\\]{}:,*&!|>'\"%@`#a-c \\n\\t~?-]{0,120}") {
        let _ = outcome(&text);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = outcome(&String::from_utf8_lossy(&bytes));
    }
}
