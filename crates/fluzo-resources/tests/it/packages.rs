//! What packages bring.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use fluzo_exec::LocalFileSystem;
use fluzo_resources::packages::{
    Base, ContentProblem, Contents, LARGEST_WALK, PackagePart, brought, contents, read_entries,
};
use fluzo_resources::{Resources, Sources};
use serde_json::json;

struct Package(tempfile::TempDir);

impl Package {
    fn new(files: &[(&str, &str)]) -> Self {
        let package = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            package.write(name, text);
        }
        package
    }

    fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("pkg")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.root_unmade().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn root_unmade(&self) -> PathBuf {
        self.0.path().join("pkg")
    }

    fn contents(&self, filters: &serde_json::Value) -> Contents {
        let mut entry = filters.clone();
        entry["source"] = json!("./x");
        let (entries, errors) = read_entries(&[entry]);
        assert!(errors.is_empty(), "{errors:?}");
        contents(&LocalFileSystem, &self.root(), entries[0].filters.as_ref())
    }

    /// What is brought, as relative paths in the order of kinds.
    #[track_caller]
    fn check(&self, filters: &serde_json::Value, expected: &[&str], problems: &[&str]) {
        let found = self.contents(filters);
        let root = self.root();
        let paths: Vec<_> = PackagePart::ALL
            .into_iter()
            .flat_map(|kind| found.of(kind))
            .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
            .collect();
        let told: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
        assert_eq!((paths, told), (owned(expected), owned(problems)));
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

const FOLDERS: &[(&str, &str)] = &[
    ("extensions/a.ts", ""),
    ("extensions/notes.md", ""),
    ("extensions/b/index.js", ""),
    (
        "extensions/c/package.json",
        r#"{"pi": {"extensions": ["main.ts"]}}"#,
    ),
    ("extensions/c/main.ts", ""),
    ("extensions/d/other.ts", ""),
    ("skills/one/SKILL.md", ""),
    ("skills/one/deeper/SKILL.md", ""),
    ("skills/group/two/SKILL.md", ""),
    ("skills/group/plain.md", ""),
    ("skills/three.md", ""),
    ("skills/.hidden/SKILL.md", ""),
    ("skills/node_modules/x/SKILL.md", ""),
    ("prompts/p.md", ""),
    ("prompts/p.txt", ""),
    ("themes/t.json", "{}"),
];

#[test]
fn without_a_manifest_the_four_folders_count() {
    let package = Package::new(FOLDERS);
    let all = [
        "extensions/a.ts",
        "extensions/b/index.js",
        "extensions/c/main.ts",
        "skills/group/two/SKILL.md",
        "skills/one/SKILL.md",
        "skills/three.md",
        "prompts/p.md",
        "themes/t.json",
    ];
    package.check(&json!({}), &all, &[]);
    package.write("package.json", r#"{"name": "no pi key"}"#);
    package.check(&json!({}), &all, &[]);
}

#[test]
fn a_filter_takes_by_pattern_and_an_empty_one_nothing() {
    let package = Package::new(FOLDERS);
    let skills = |list: serde_json::Value| json!({"extensions": [], "prompts": [], "themes": [], "skills": list});
    let rows = [
        (json!([]), &[][..]),
        (json!(["skills/one"]), &["skills/one/SKILL.md"]),
        (
            json!(["one", "three.md"]),
            &["skills/one/SKILL.md", "skills/three.md"],
        ),
        (
            json!(["!one"]),
            &["skills/group/two/SKILL.md", "skills/three.md"],
        ),
        (
            json!(["-skills/one", "-skills/group/two/SKILL.md"]),
            &["skills/three.md"],
        ),
        (json!(["none", "+skills/three.md"]), &["skills/three.md"]),
    ];
    for (list, expected) in rows {
        package.check(&skills(list), expected, &[]);
    }
}

#[test]
fn a_manifest_names_paths_globs_and_rules() {
    let package = Package::new(FOLDERS);
    package.write(
        "package.json",
        r#"{"pi": {"extensions": ["./extensions/a.ts"], "skills": ["skills/*", "!skills/three.md", "gone"], "prompts": ["p*/**/*.md"]}}"#,
    );
    let expected = [
        "extensions/a.ts",
        "skills/group/two/SKILL.md",
        "skills/group/plain.md",
        "skills/one/SKILL.md",
        "prompts/p.md",
    ];
    let found = package.contents(&json!({}));
    assert_eq!(found.problems.len(), 1);
    let mut paths: Vec<_> = PackagePart::ALL
        .into_iter()
        .flat_map(|kind| found.of(kind))
        .map(|path| {
            path.strip_prefix(package.root())
                .unwrap()
                .display()
                .to_string()
        })
        .collect();
    let mut all = owned(&expected);
    paths.sort();
    all.sort();
    assert_eq!(paths, all);
    package.check(
        &json!({"skills": ["-skills/one"], "extensions": [], "prompts": []}),
        &["skills/group/plain.md", "skills/group/two/SKILL.md"],
        &["`gone` is named in `package.json` and not there"],
    );
}

#[test]
fn paths_and_links_out_of_the_package_are_passed_over() {
    let package = Package::new(&[
        ("../secret.md", "key"),
        ("../more/SKILL.md", ""),
        (
            "package.json",
            r#"{"pi": {"skills": ["../more", "/etc", "~/x", "skills/../../more", "skills", "linked"], "prompts": ["prompts"]}}"#,
        ),
        ("skills/own/SKILL.md", ""),
        ("prompts/own.md", ""),
    ]);
    let root = package.root();
    symlink("../../secret.md", root.join("prompts/stolen.md")).unwrap();
    symlink("../../more", root.join("skills/more")).unwrap();
    symlink("../more", root.join("linked")).unwrap();
    symlink("own", root.join("skills/again")).unwrap();
    package.check(
        &json!({}),
        &["skills/again/SKILL.md", "prompts/own.md"],
        &[
            "`../more` leads out of the package and was passed over",
            "`/etc` leads out of the package and was passed over",
            "`~/x` leads out of the package and was passed over",
            "`skills/../../more` leads out of the package and was passed over",
            "`skills/more` leads out of the package and was passed over",
            "`linked` leads out of the package and was passed over",
            "`prompts/stolen.md` leads out of the package and was passed over",
        ],
    );
    // A manifest that is a link to a file elsewhere is not read.
    std::fs::remove_file(root.join("package.json")).unwrap();
    symlink("../secret.md", root.join("package.json")).unwrap();
    let told = package.contents(&json!({})).problems[0].to_string();
    assert_eq!(
        told,
        "`package.json` leads out of the package and was passed over"
    );
}

#[test]
fn cycles_and_huge_folders_end() {
    let package = Package::new(&[("skills/a/x.txt", ""), ("prompts/p.md", "")]);
    let root = package.root();
    symlink("..", root.join("skills/a/up")).unwrap();
    symlink(".", root.join("prompts/self")).unwrap();
    symlink("../skills", root.join("prompts/skills")).unwrap();
    package.check(&json!({}), &["prompts/p.md"], &[]);

    let huge = Package::new(&[("skills/zz/SKILL.md", "")]);
    for number in 0..=LARGEST_WALK {
        huge.write(&format!("prompts/{number}.md"), "");
    }
    let found = huge.contents(&json!({}));
    assert_eq!(found.problems, [ContentProblem::TooMuch]);
    assert_eq!(found.of(PackagePart::Skill).len(), 1);
    assert!(found.of(PackagePart::Prompt).len() < LARGEST_WALK);
}

#[test]
fn a_hostile_manifest_is_told_and_the_folders_count() {
    let package = Package::new(&[("skills/a/SKILL.md", "")]);
    let long = " ".repeat((1 << 20) + 1);
    let rows = [
        ("{", "`package.json` is not valid: "),
        ("{\"pi\": []}", "`pi` in `package.json` must be an object"),
        (
            long.as_str(),
            "`package.json` was passed over: longer than 1048576 bytes",
        ),
    ];
    for (text, told) in rows {
        package.write("package.json", text);
        let found = package.contents(&json!({}));
        assert!(found.problems[0].to_string().starts_with(told), "{found:?}");
        assert_eq!(found.of(PackagePart::Skill).len(), 1);
    }
    std::fs::remove_file(package.root().join("package.json")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(package.root().join("package.json"))
        .status();
    assert!(made.unwrap().success());
    let told = package.contents(&json!({})).problems[0].to_string();
    assert!(
        told.ends_with("not a regular file but a named pipe"),
        "{told}"
    );
    package.write("package2.json", "");
    let many: Vec<String> = (0..100).map(|n| format!("\"gone{n}\"")).collect();
    std::fs::remove_file(package.root().join("package.json")).unwrap();
    let text = format!("{{\"pi\": {{\"themes\": [{}]}}}}", many.join(","));
    package.write("package.json", &text);
    assert_eq!(package.contents(&json!({})).problems.len(), 20);
}

#[test]
fn a_file_is_one_extension_and_nothing_is_told_missing() {
    let package = Package::new(&[("one.ts", "")]);
    let file = package.root().join("one.ts");
    let found = contents(&LocalFileSystem, &file, None);
    assert_eq!(found.of(PackagePart::Extension), [file]);
    let found = contents(&LocalFileSystem, &package.root().join("none"), None);
    assert_eq!(found.problems, [ContentProblem::Missing]);
}

#[test]
fn packages_come_after_what_the_user_has_and_the_project_s_first() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let skill = |name: &str, text: &str| {
        write(
            &format!("{name}/SKILL.md"),
            &format!("---\ndescription: {text}\n---\nbody\n"),
        );
    };
    skill("agent/npm/node_modules/a/skills/both", "of npm");
    skill("agent/npm/node_modules/a/skills/left", "left out");
    write("agent/npm/node_modules/a/prompts/ask.md", "ask");
    skill("p/.pi/git/h.com/u/r/skills/both", "of git");
    write("p/.pi/git/h.com/u/r/extensions/x.ts", "");
    skill("agent/skills/own", "own");
    let root = place.path().canonicalize().unwrap();
    let (agent, project) = (root.join("agent"), root.join("p/.pi"));
    let user = json!([{"source": "npm:a", "skills": ["!left"]}, "npm:gone@1", "./nowhere", 7]);
    let own = json!(["git:h.com/u/r"]);
    let base = |base| Base { base, home: None };
    let found = brought(
        &LocalFileSystem,
        Some((own.as_array().unwrap(), base(&*project))),
        (user.as_array().unwrap(), base(&*agent)),
    );
    assert_eq!(found.missing, ["npm:gone@1"]);
    assert_eq!(
        found.problems,
        [
            "entry 4 of `packages` must be a text or an object with `source`".to_owned(),
            format!(
                "package `./nowhere` is not there: {}",
                agent.join("nowhere").display()
            ),
        ]
    );
    assert_eq!(
        found.extensions,
        [project.join("git/h.com/u/r/extensions/x.ts")]
    );
    let mut sources = Sources::new(Arc::new(LocalFileSystem), &agent, None, root.join("p"));
    sources.trusted = true;
    sources.packages = found.resources;
    let resources = Resources::load(&sources);
    let skills = resources.skills.iter();
    let skills: Vec<_> = skills
        .map(|skill| (&*skill.name, &*skill.description))
        .collect();
    assert_eq!(skills, [("own", "own"), ("both", "of git")]);
    let info = serde_json::to_value(&resources.skills[1].source).unwrap();
    assert_eq!(
        (&info["source"], &info["scope"], &info["origin"]),
        (
            &json!("git:h.com/u/r"),
            &json!("project"),
            &json!("package")
        )
    );
    assert_eq!(resources.templates.len(), 1);
    assert_eq!(
        resources.diagnostics.len(),
        1,
        "{:?}",
        resources.diagnostics
    );
}
