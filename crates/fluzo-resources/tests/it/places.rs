//! Where resources are looked for, and which of two counts.

use fluzo_resources::{Origin, PackageResources, Resources, Scope};

use crate::support::Fixture;

fn shown(fixture: &Fixture, resources: &Resources) -> Vec<(String, String)> {
    let skills = resources.skills.iter();
    skills
        .map(|skill| {
            let path = fixture.plain(&skill.path.to_string_lossy());
            (skill.name.clone(), path)
        })
        .collect()
}

/// All places of skills in order of precedence.
const PLACES: [&str; 10] = [
    "leading/one/SKILL.md",
    "repo/work/.pi/listed/one/SKILL.md",
    "repo/work/.pi/skills/one/SKILL.md",
    "repo/work/.agents/skills/one/SKILL.md",
    "repo/.agents/skills/one/SKILL.md",
    ".pi/agent/listed/one/SKILL.md",
    ".pi/agent/skills/one/SKILL.md",
    ".agents/skills/one/SKILL.md",
    "package/one/SKILL.md",
    "flag/one/SKILL.md",
];
const LAST: &str = ".pi/skills/one/SKILL.md";

fn everything(fixture: &Fixture) -> Resources {
    let package = |folder: &str| PackageResources {
        source: format!("npm:{folder}"),
        scope: Scope::User,
        folder: fixture.path(folder),
        skills: vec![fixture.path(folder)],
        prompts: Vec::new(),
        themes: Vec::new(),
    };
    let mut sources = fixture.sources();
    sources.project.skills = vec!["listed".to_owned()];
    sources.user.skills = vec!["./listed".to_owned()];
    sources.flags.skills = vec!["~/flag".to_owned()];
    sources.leading = vec![package("leading")];
    sources.packages = vec![package("package")];
    Resources::load(&sources)
}

#[test]
fn the_first_definition_of_a_name_counts() {
    let fixture = Fixture::new();
    for path in PLACES.iter().chain([&LAST]) {
        std::fs::create_dir_all(fixture.path(path).parent().unwrap()).unwrap();
    }
    // From the last place to the first: each new one takes over.
    for path in PLACES.iter().rev() {
        fixture.skill(LAST, "one");
        fixture.skill(path, "one");
        let resources = everything(&fixture);
        assert_eq!(
            shown(&fixture, &resources),
            [("one".to_owned(), format!("~/{path}"))]
        );
        let collisions = &resources.diagnostics;
        let last = collisions.last().unwrap();
        let collision = last.collision.as_ref().unwrap();
        assert_eq!(last.message, "name \"one\" collision");
        assert_eq!(fixture.plain(&collision.winner_path), format!("~/{path}"));
        assert_eq!(fixture.plain(&collision.loser_path), format!("~/{LAST}"));
    }
}

#[test]
fn a_collision_in_its_json_form() {
    let fixture = Fixture::new();
    let winner = fixture.skill(".pi/agent/skills/a/SKILL.md", "x");
    let loser = fixture.skill(".pi/agent/skills/b/SKILL.md", "x");
    let resources = fixture.load();
    assert_eq!(
        serde_json::to_value(&resources.diagnostics).unwrap(),
        serde_json::json!([{
            "type": "collision",
            "message": "name \"x\" collision",
            "path": loser,
            "collision": {"resourceType": "skill", "name": "x", "winnerPath": winner, "loserPath": loser},
        }])
    );
    assert_eq!(
        resources.diagnostics[0].resource.heading(),
        "Skill conflicts"
    );
}

#[test]
fn the_same_file_twice_is_no_collision() {
    let fixture = Fixture::new();
    fixture.skill("elsewhere/one/SKILL.md", "one");
    fixture.link("../../../elsewhere/one", ".pi/agent/skills/one");
    fixture.link("../../elsewhere", ".agents/skills");
    let resources = fixture.load();
    assert_eq!(
        shown(&fixture, &resources),
        [(
            "one".to_owned(),
            "~/.pi/agent/skills/one/SKILL.md".to_owned()
        )]
    );
    assert_eq!(resources.diagnostics, []);
}

#[test]
fn where_a_resource_comes_from() {
    let fixture = Fixture::new();
    for (path, name) in PLACES
        .iter()
        .zip(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    {
        fixture.skill(path, name);
    }
    let resources = everything(&fixture);
    let sources: Vec<_> = resources
        .skills
        .iter()
        .map(|skill| {
            let source = &skill.source;
            let base = source.base_dir.as_ref().unwrap().to_string_lossy();
            (
                &*source.source,
                source.scope,
                source.origin,
                fixture.plain(&base),
            )
        })
        .collect();
    let expected = [
        ("npm:leading", Scope::User, Origin::Package, "~/leading"),
        ("local", Scope::Project, Origin::TopLevel, "~/repo/work/.pi"),
        ("auto", Scope::Project, Origin::TopLevel, "~/repo/work/.pi"),
        (
            "auto",
            Scope::Project,
            Origin::TopLevel,
            "~/repo/work/.agents",
        ),
        ("auto", Scope::Project, Origin::TopLevel, "~/repo/.agents"),
        ("local", Scope::User, Origin::TopLevel, "~/.pi/agent"),
        ("auto", Scope::User, Origin::TopLevel, "~/.pi/agent"),
        ("auto", Scope::User, Origin::TopLevel, "~/.agents"),
        ("npm:package", Scope::User, Origin::Package, "~/package"),
        ("cli", Scope::Temporary, Origin::TopLevel, "~/repo/work"),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(source, scope, origin, base)| (source, scope, origin, base.to_owned()))
        .collect();
    assert_eq!(sources, expected);
    let json = serde_json::to_value(&resources.skills[0].source).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "path": fixture.path("leading/one/SKILL.md"),
            "source": "npm:leading",
            "scope": "user",
            "origin": "package",
            "baseDir": fixture.path("leading"),
        })
    );
}

#[test]
fn switched_off_only_flags_and_leading_packages_count() {
    let fixture = Fixture::new();
    for (path, name) in PLACES
        .iter()
        .zip(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    {
        fixture.skill(path, name);
    }
    fixture.write(".pi/agent/prompts/p.md", "x");
    let mut sources = fixture.sources();
    sources.discover.skills = false;
    sources.discover.prompts = false;
    sources.user.skills = vec!["listed".to_owned()];
    sources.flags.skills = vec!["../../flag/one".to_owned()];
    let resources = Resources::load(&sources);
    let names: Vec<&str> = resources.skills.iter().map(|skill| &*skill.name).collect();
    assert_eq!((names, resources.templates.len()), (vec!["j"], 0));
}

#[test]
fn ancestors_above_the_repository_and_the_users_own_are_no_projects() {
    let fixture = Fixture::new();
    fixture.skill(".agents/skills/own/SKILL.md", "own");
    let scope = |fixture: &Fixture, cwd: &str| {
        let mut sources = fixture.sources();
        sources.cwd = fixture.path(cwd);
        let resources = Resources::load(&sources);
        resources.skills[0].source.scope
    };
    assert_eq!(scope(&fixture, "repo/work"), Scope::User);
    std::fs::remove_dir(fixture.path("repo/.git")).unwrap();
    assert_eq!(scope(&fixture, "repo/work"), Scope::User);
    fixture.skill("repo/.agents/skills/own/SKILL.md", "own");
    assert_eq!(scope(&fixture, "repo/work"), Scope::Project);
    std::fs::create_dir(fixture.path("repo/work/.git")).unwrap();
    assert_eq!(scope(&fixture, "repo/work"), Scope::User);
}

#[test]
fn lists_filter_what_their_paths_and_the_usual_places_hold() {
    let fixture = Fixture::new();
    for name in ["one", "two", "three"] {
        fixture.skill(&format!(".pi/agent/skills/{name}/SKILL.md"), name);
        fixture.skill(&format!("listed/{name}x/SKILL.md"), &format!("{name}x"));
    }
    let check = |list: &[&str], expected: &[&str]| {
        let mut sources = fixture.sources();
        sources.user.skills = list.iter().map(ToString::to_string).collect();
        let resources = Resources::load(&sources);
        let mut names: Vec<&str> = resources.skills.iter().map(|skill| &*skill.name).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{list:?}");
    };
    check(&[], &["one", "three", "two"]);
    check(&["-skills/one"], &["three", "two"]);
    check(&["!t*"], &["one"]);
    check(&["!skills/**", "+skills/two/SKILL.md"], &["two"]);
    check(&["~/listed", "!skills/**", "!twox"], &["onex", "threex"]);
    // A glob that takes in chooses among listed paths only.
    check(&["~/listed", "one*"], &["one", "onex", "three", "two"]);
}

#[test]
fn a_pattern_that_is_no_glob_is_told() {
    let fixture = Fixture::new();
    let mut sources = fixture.sources();
    sources.user.skills = vec!["![a".to_owned()];
    let told = fixture.told(&Resources::load(&sources));
    assert_eq!(
        told,
        [
            "pattern `[a` cannot be used: unclosed character class; missing ']': ~/.pi/agent/settings.json"
        ]
    );
}

#[test]
fn a_file_that_leads_out_of_its_package_is_refused() {
    let fixture = Fixture::new();
    fixture.skill("outside/SKILL.md", "outside");
    fixture.skill("package/skills/fine/SKILL.md", "fine");
    fixture.link("../../outside", "package/skills/link");
    let mut sources = fixture.sources();
    sources.packages = vec![PackageResources {
        source: "git:x".to_owned(),
        scope: Scope::User,
        folder: fixture.path("package"),
        skills: vec![
            fixture.path("package/skills"),
            fixture.path("package/../outside/SKILL.md"),
        ],
        prompts: Vec::new(),
        themes: Vec::new(),
    }];
    let resources = Resources::load(&sources);
    assert_eq!(shown(&fixture, &resources).len(), 1);
    assert_eq!(
        fixture.told(&resources),
        [
            "the file leads out of its package and is not used: ~/package/skills/link/SKILL.md",
            "the file leads out of its package and is not used: ~/package/../outside/SKILL.md",
        ]
    );
}

#[test]
fn flags_name_what_exists_and_has_the_form() {
    let fixture = Fixture::new();
    fixture.write("repo/work/x.txt", "x");
    let mut sources = fixture.sources();
    for list in [
        &mut sources.flags.skills,
        &mut sources.flags.prompts,
        &mut sources.flags.themes,
    ] {
        *list = vec!["missing".to_owned(), "x.txt".to_owned()];
    }
    let told = fixture.told(&Resources::load(&sources));
    assert_eq!(
        told,
        [
            "skill path does not exist: ~/repo/work/missing",
            "skill path is not a markdown file: ~/repo/work/x.txt",
            "prompt template path does not exist: ~/repo/work/missing",
            "prompt template path is not a markdown file: ~/repo/work/x.txt",
            "theme path does not exist: ~/repo/work/missing",
            "theme path is not a json file: ~/repo/work/x.txt",
        ]
    );
}
