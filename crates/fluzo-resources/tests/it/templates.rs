//! Prompt templates.

use fluzo_resources::Resources;

use crate::support::Fixture;

#[test]
fn places_names_and_descriptions() {
    let fixture = Fixture::new();
    fixture.write(
        "repo/work/.pi/prompts/a.md",
        "---\ndescription: of a\nargument-hint: <file>\n---\nA $1\n",
    );
    fixture.write(".pi/agent/prompts/a.md", "other");
    fixture.write(".pi/agent/prompts/b.md", "\n\nFirst line\nSecond");
    fixture.write(".pi/agent/prompts/sub/c.md", "not recursive");
    fixture.write(".pi/agent/prompts/.d.md", "hidden");
    fixture.write(".pi/agent/prompts/e.txt", "no markdown");
    fixture.write(".pi/agent/prompts/f.md", "---\n[\n---\nx");
    fixture.write("listed/g.md", "G");
    fixture.write("flag/h.md", "H");
    let mut sources = fixture.sources();
    sources.user.prompts = vec!["~/listed/g.md".to_owned()];
    sources.flags.prompts = vec!["~/flag".to_owned()];
    let resources = Resources::load(&sources);
    let own: Vec<_> = resources
        .templates
        .iter()
        .map(|t| (&*t.name, &*t.description, t.argument_hint.as_deref()))
        .collect();
    assert_eq!(
        own,
        [
            ("a", "of a", Some("<file>")),
            ("g", "G", None),
            ("b", "First line", None),
            ("h", "H", None),
        ]
    );
    let told = fixture.told(&resources);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        told[0],
        "name \"/a\" collision: ~/repo/work/.pi/prompts/a.md is used, ~/.pi/agent/prompts/a.md is not"
    );
    assert!(told[1].starts_with("the frontmatter is not valid YAML: "));
}

#[test]
fn calls() {
    let fixture = Fixture::new();
    fixture.write(
        ".pi/agent/prompts/fix.md",
        "---\ndescription: d\n---\nFix $1 for ${2:-me}: $@",
    );
    let resources = fixture.load();
    let check = |text: &str, expected: Option<&str>| {
        assert_eq!(
            resources.expand_template(text).as_deref(),
            expected,
            "{text}"
        );
    };
    check("/fix it", Some("Fix it for me: it"));
    check("/fix 'a b'\tus", Some("Fix a b for us: a b us"));
    check("/fix\nit", Some("Fix it for me: it"));
    check("/fix", Some("Fix  for me: "));
    check("/fix $@ $1", Some("Fix $@ for $1: $@ $1"));
    for text in ["/fixit", "/other x", "fix", " /fix", "/", ""] {
        check(text, None);
    }
}

#[test]
fn the_old_folder_is_read_with_one_warning() {
    let fixture = Fixture::new();
    fixture.write(".pi/agent/prompts/a.md", "new");
    fixture.write(".pi/agent/commands/a.md", "old");
    fixture.write(".pi/agent/commands/b.md", "old");
    let resources = fixture.load();
    let own: Vec<_> = resources
        .templates
        .iter()
        .map(|t| (&*t.name, &*t.content))
        .collect();
    assert_eq!(own, [("a", "new"), ("b", "old")]);
    assert_eq!(
        fixture.told(&resources),
        [
            "prompt templates in ~/.pi/agent/commands are read, but their place is ~/.pi/agent/prompts: move them there",
            "name \"/a\" collision: ~/.pi/agent/prompts/a.md is used, ~/.pi/agent/commands/a.md is not",
        ]
    );
}
