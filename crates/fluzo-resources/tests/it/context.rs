//! Context files, SYSTEM.md and APPEND_SYSTEM.md.

use fluzo_resources::Resources;

use crate::support::Fixture;

fn files(fixture: &Fixture, resources: &Resources) -> Vec<(String, String)> {
    let files = resources.context_files.iter();
    files
        .map(|file| {
            (
                fixture.plain(&file.path.to_string_lossy()),
                file.content.clone(),
            )
        })
        .collect()
}

fn check(fixture: &Fixture, expected: &[(&str, &str)]) {
    let resources = fixture.load();
    let own = files(fixture, &resources);
    let own: Vec<(&str, &str)> = own.iter().map(|(p, c)| (&**p, &**c)).collect();
    assert_eq!(own, expected);
    assert_eq!(fixture.told(&resources), [] as [&str; 0]);
}

#[test]
fn the_agent_folder_comes_first_then_from_the_root_down() {
    let fixture = Fixture::new();
    fixture.write("repo/work/AGENTS.md", "work");
    fixture.write("repo/CLAUDE.md", "repo\n");
    fixture.write("AGENTS.MD", "\u{feff}home");
    fixture.write(".pi/agent/CLAUDE.MD", "agent");
    fixture.write("repo/other/AGENTS.md", "beside");
    check(
        &fixture,
        &[
            ("~/.pi/agent/CLAUDE.MD", "agent"),
            ("~/AGENTS.MD", "home"),
            ("~/repo/CLAUDE.md", "repo\n"),
            ("~/repo/work/AGENTS.md", "work"),
        ],
    );
}

#[test]
fn the_first_name_of_a_folder_counts() {
    let fixture = Fixture::new();
    let names = [
        "CLAUDE.MD",
        "CLAUDE.md",
        "AGENTS.MD",
        "AGENTS.md",
        "AGENTS.override.md",
    ];
    fixture.write("repo/AGENTS.md", "above");
    for name in names {
        let path = format!("repo/work/{name}");
        fixture.write(&path, name);
        check(
            &fixture,
            &[("~/repo/AGENTS.md", "above"), (&format!("~/{path}"), name)],
        );
    }
}

#[test]
fn a_file_that_several_names_lead_to_is_there_once() {
    let fixture = Fixture::new();
    fixture.write("repo/AGENTS.md", "one");
    fixture.link("../AGENTS.md", "repo/work/CLAUDE.md");
    check(&fixture, &[("~/repo/AGENTS.md", "one")]);
}

#[test]
fn what_cannot_be_read_is_told_and_the_next_name_counts() {
    let mut fixture = Fixture::new();
    let refused = fixture.write("repo/work/AGENTS.md", "secret");
    fixture.refused.push(refused);
    fixture.write("repo/work/CLAUDE.md", "next");
    fixture.write("repo/CLAUDE.md/x", "a folder");
    fixture.fifo("AGENTS.md");
    let resources = fixture.load();
    assert_eq!(
        files(&fixture, &resources),
        [("~/repo/work/CLAUDE.md".to_owned(), "next".to_owned())]
    );
    assert_eq!(
        fixture.told(&resources),
        [
            "Could not read ~/AGENTS.md: EINVAL: not a regular file but a named pipe",
            "Could not read ~/repo/CLAUDE.md: EISDIR: illegal operation on a directory",
            "Could not read ~/repo/work/AGENTS.md: EACCES: permission denied",
        ]
    );
}

#[test]
fn a_huge_file_is_cut_and_told() {
    let fixture = Fixture::new();
    let path = fixture.path("repo/work/AGENTS.md");
    let file = std::fs::File::create(path).unwrap();
    // Without its blocks on disk: reading it whole would be what costs.
    file.set_len(100 * 1024 * 1024).unwrap();
    let resources = fixture.load();
    let [context] = &*resources.context_files else {
        panic!("{:?}", resources.context_files.len())
    };
    assert!(context.content.len() < 257 * 1024);
    assert!(
        context
            .content
            .ends_with("\n\n[Only the first 256.0KB of 100.0MB are shown]")
    );
    assert_eq!(
        fixture.told(&resources),
        [
            "~/repo/work/AGENTS.md is 100.0MB long, and only its first 256.0KB are used: shorten it, or move what is needed seldom into a skill"
        ]
    );
}

#[test]
fn switched_off_none_is_read() {
    let fixture = Fixture::new();
    fixture.write("repo/AGENTS.md", "x");
    let mut sources = fixture.sources();
    sources.discover.context_files = false;
    assert_eq!(Resources::load(&sources).context_files, []);
}

#[test]
fn context_files_need_no_trust_but_files_in_dot_pi_do() {
    let fixture = Fixture::new();
    fixture.write("repo/AGENTS.md", "x");
    fixture.write("repo/work/.pi/SYSTEM.md", "project");
    fixture.write("repo/work/.pi/APPEND_SYSTEM.md", "project");
    fixture.write("repo/work/.pi/prompts/p.md", "project");
    fixture.write("repo/work/.pi/themes/t.json", "{}");
    fixture.skill("repo/work/.pi/skills/a/SKILL.md", "a");
    fixture.skill("repo/.agents/skills/b/SKILL.md", "b");
    let mut sources = fixture.sources();
    sources.trusted = false;
    sources.project.skills = vec!["/".to_owned()];
    let resources = Resources::load(&sources);
    assert_eq!(resources.context_files.len(), 1);
    assert_eq!((&resources.system, &resources.append), (&None, &None));
    assert_eq!((resources.skills, resources.templates), (vec![], vec![]));
    assert_eq!(resources.themes.len(), 2);
    assert_eq!(resources.diagnostics, []);
}

#[test]
fn one_file_for_the_prompt_counts_the_projects_first() {
    let fixture = Fixture::new();
    let check = |system: Option<&str>, append: Option<&str>| {
        let resources = fixture.load();
        let text = |file: &Option<fluzo_resources::PromptFile>| {
            file.as_ref().map(|file| file.text.clone())
        };
        assert_eq!(text(&resources.system).as_deref(), system);
        assert_eq!(text(&resources.append).as_deref(), append);
    };
    check(None, None);
    fixture.write(".pi/agent/SYSTEM.md", "user");
    fixture.write(".pi/agent/APPEND_SYSTEM.md", "user, too");
    check(Some("user"), Some("user, too"));
    fixture.write("repo/work/.pi/SYSTEM.md", "project");
    check(Some("project"), Some("user, too"));
    fixture.write("repo/work/.pi/APPEND_SYSTEM.md", "project, too");
    check(Some("project"), Some("project, too"));
}
