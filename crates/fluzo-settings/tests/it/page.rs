//! The page of settings, `docs/settings.md`.

use std::fmt::Write;

use fluzo_settings::{OPEN, Scope, SettingDef};

const INTRODUCTION: &str = "# Settings of the open profile

Written from `crates/fluzo-settings/src/registry.rs`.

Settings stand in `settings.json` of the agent folder (`~/.pi/agent`, or what `PI_CODING_AGENT_DIR` names) and in `.pi/settings.json` of a project that is trusted. The project goes
before the user; variables and flags that stand for a setting (`fluzo pi --help`, `fluzo man`) go before both. Dots in a key lead into objects: `compaction.enabled` is written
`{\"compaction\": {\"enabled\": false}}`. A value that does not fit is told at the start, and the one below it counts; keys that are not known are kept.

A setting marked *user* counts only in the user's own file. What concerns the terminal interface, extensions and pi's own housekeeping is read and kept, and changes nothing in this version.

| setting | values | default | meaning |
| --- | --- | --- | --- |
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    OPEN.iter().for_each(|def| row(&mut page, def));
    page
}

fn row(page: &mut String, def: &SettingDef) {
    let user = match def.scope {
        Scope::User => " (*user*)",
        Scope::Any => "",
    };
    let default = match def.default {
        "null" => String::new(),
        default => code(default),
    };
    let words = def.kind.words().replace('|', "\\|");
    let meaning = def.doc.replace('|', "\\|");
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "| {}{user} | {words} | {default} | {meaning} |",
        code(def.key)
    );
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// When a setting has changed, the new page is written beside the test's other files and the
/// failure says where.
#[test]
fn the_page_shows_the_settings() {
    let page = page();
    if page != include_str!("../../../../docs/settings.md") {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/settings.md");
        std::fs::write(path, page).unwrap();
        panic!("docs/settings.md is not what the registry says; copy {path} there");
    }
}
