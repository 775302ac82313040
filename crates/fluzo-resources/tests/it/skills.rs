//! Skills: scanning, frontmatter, the block of the prompt, invocation.

use fluzo_resources::{Resources, SkillBlock, available_skills};

use crate::support::Fixture;

fn names(resources: &Resources) -> Vec<&str> {
    resources.skills.iter().map(|skill| &*skill.name).collect()
}

#[test]
fn folders_and_loose_files() {
    let fixture = Fixture::new();
    fixture.skill(".pi/agent/skills/a/SKILL.md", "a");
    fixture.skill(".pi/agent/skills/a/inner/SKILL.md", "below-a-skill");
    fixture.skill(".pi/agent/skills/deep/er/b/SKILL.md", "b");
    fixture.skill(".pi/agent/skills/deep/loose.md", "loose-below");
    fixture.skill(".pi/agent/skills/c.md", "c");
    fixture.skill(".pi/agent/skills/c.txt", "text");
    fixture.skill(".pi/agent/skills/.hidden/SKILL.md", "hidden");
    fixture.skill(".pi/agent/skills/node_modules/d/SKILL.md", "module");
    fixture.skill(".agents/skills/e/SKILL.md", "e");
    fixture.skill(".agents/skills/f.md", "loose-in-agents");
    fixture.skill(".pi/skills/g.md", "g");
    fixture.link("nowhere", ".pi/agent/skills/broken");
    let resources = fixture.load();
    assert_eq!(names(&resources), ["a", "c", "b", "e", "g"]);
    assert_eq!(resources.diagnostics, []);
}

#[test]
fn ignore_files_of_every_folder() {
    let fixture = Fixture::new();
    for (file, name) in [
        (".gitignore", "one"),
        (".ignore", "two"),
        (".fdignore", "three"),
        (".piignore", "four"),
    ] {
        fixture.write(
            &format!(".pi/agent/skills/{file}"),
            format!("{name}/\nkept-{name}*\n!kept-{name}\n# c\n"),
        );
        fixture.skill(&format!(".pi/agent/skills/{name}/SKILL.md"), name);
        let kept = format!("kept-{name}");
        fixture.skill(&format!(".pi/agent/skills/{kept}/SKILL.md"), &kept);
    }
    fixture.write(".pi/agent/skills/sub/.gitignore", "/a\nloose.md\n");
    fixture.write(".pi/agent/skills/.gitignore", "loose.md\none/\n");
    fixture.skill(".pi/agent/skills/sub/a/SKILL.md", "sub-a");
    fixture.skill(".pi/agent/skills/sub/b/a/SKILL.md", "sub-b-a");
    fixture.skill(".pi/agent/skills/loose.md", "loose");
    // Rules above the folder of skills are none of its own.
    fixture.write(".pi/agent/.gitignore", "*");
    let resources = fixture.load();
    assert_eq!(
        names(&resources),
        ["kept-four", "kept-one", "kept-three", "kept-two", "sub-b-a"]
    );
}

#[test]
fn frontmatter() {
    let fixture = Fixture::new();
    let check = |front: &str, expected: Option<(&str, &str, bool)>, told: &[&str]| {
        let text = format!("---\n{front}\n---\nBody");
        fixture.write(".pi/agent/skills/folder/SKILL.md", text);
        let resources = fixture.load();
        let skill = resources.skills.first();
        let own = skill.map(|s| (&*s.name, &*s.description, s.disable_model_invocation));
        assert_eq!(own, expected, "{front}");
        let own: Vec<&str> = resources
            .diagnostics
            .iter()
            .map(|told| &*told.message)
            .collect();
        assert_eq!(own, told, "{front}");
    };
    check("name: a\ndescription: d", Some(("a", "d", false)), &[]);
    check("description: d", Some(("folder", "d", false)), &[]);
    check(
        "name: a\ndescription: >\n  two\n  lines\nlicense: MIT\nmetadata: {x: [1, {y: 2}]}\nallowed-tools: [read]",
        Some(("a", "two lines", false)),
        &[],
    );
    check(
        "name: a\r\ndescription: \"with: colon\"\r\ndisable-model-invocation: true\r",
        Some(("a", "with: colon", true)),
        &[],
    );
    check(
        "name: a\ndescription: d\ndisable-model-invocation: \"true\"",
        Some(("a", "d", false)),
        &[],
    );
    check(
        "name: a\ndescription: d\ndisable-model-invocation: 1",
        Some(("a", "d", false)),
        &[],
    );
    check(
        "name: 12\ndescription: 3.5",
        Some(("12", "3.5", false)),
        &[],
    );
    check(
        "name: ~\ndescription: &x d\nother: *x",
        Some(("folder", "d", false)),
        &[],
    );
    check(
        "other: &x d\ndescription: *x",
        Some(("folder", "d", false)),
        &[],
    );
    check("name: a", None, &["description is required"]);
    check(
        "name: a\ndescription: '  '",
        None,
        &["description is required"],
    );
    check(
        "name: a\ndescription: [d]",
        None,
        &["description is required"],
    );
    check("", None, &["description is required"]);
    check("just text", None, &["description is required"]);
    check("- a\n- description: d", None, &["description is required"]);
    check(
        "name: Bad_Name\ndescription: d",
        Some(("Bad_Name", "d", false)),
        &["name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)"],
    );
    let long = "d".repeat(1025);
    check(
        &format!("name: a\ndescription: {long}"),
        Some(("a", &long, false)),
        &["description exceeds 1024 characters (1025)"],
    );
    check(
        "name: a\nname: b\ndescription: d",
        None,
        &["the frontmatter is not valid YAML: field `name` is there twice"],
    );
}

#[test]
fn broken_yaml_names_its_line_and_is_not_loaded() {
    let fixture = Fixture::new();
    for front in [
        "description: a: b: c",
        "name: [",
        "name: \"open",
        "name: a\n  description: d",
        "description: *nowhere",
        "{",
        "%YAML 9",
    ] {
        fixture.write(
            ".pi/agent/skills/folder/SKILL.md",
            format!("---\n{front}\n---\n"),
        );
        let resources = fixture.load();
        assert_eq!(names(&resources), [] as [&str; 0], "{front}");
        let [told] = &*resources.diagnostics else {
            panic!("{front}: {:?}", resources.diagnostics)
        };
        assert!(
            told.message
                .starts_with("the frontmatter is not valid YAML: ")
                && told.message.contains(" at line "),
            "{front}: {}",
            told.message
        );
    }
}

#[test]
fn without_frontmatter_a_skill_has_no_description() {
    let fixture = Fixture::new();
    for text in [
        "",
        "Body",
        "---",
        "---\nname: a\ndescription: d\n",
        "----\ndescription: d\n----\n",
    ] {
        fixture.write(".pi/agent/skills/folder/SKILL.md", text);
        let resources = fixture.load();
        assert_eq!(resources.skills, [], "{text}");
        assert_eq!(resources.diagnostics[0].message, "description is required");
    }
}

#[test]
fn the_block_of_the_prompt() {
    let fixture = Fixture::new();
    let dir = ".pi/agent/skills";
    fixture.write(
        &format!("{dir}/a/SKILL.md"),
        "---\nname: a\ndescription: \"<b> & 'c' \\\"d\\\"\"\n---\nBODY",
    );
    fixture.write(
        &format!("{dir}/b/SKILL.md"),
        "---\nname: b\ndescription: d\ndisable-model-invocation: true\n---\nBODY",
    );
    let resources = fixture.load();
    assert_eq!(resources.skills.len(), 2);
    let block = available_skills(&resources.skills);
    let location = fixture.path(&format!("{dir}/a/SKILL.md"));
    let expected = format!(
        "\n\n<available_skills>\n  <skill>\n    <name>a</name>\n    <description>&lt;b&gt; &amp; &apos;c&apos; &quot;d&quot;</description>\n    <location>{}</location>\n  </skill>\n</available_skills>",
        location.display()
    );
    assert!(block.ends_with(&expected), "{block}");
    let intro = block.strip_suffix(&expected).unwrap();
    assert!(intro.starts_with("\n\n"));
    assert_eq!(intro.trim_start().lines().count(), 3);
    assert!(!block.contains("BODY"));
    assert_eq!(available_skills(&resources.skills[1..]), "");
    assert_eq!(available_skills(&[]), "");
}

#[test]
fn invocation() {
    let fixture = Fixture::new();
    let path = fixture.write(
        ".pi/agent/skills/a/SKILL.md",
        "---\ndescription: d\n---\n\n  Do $1.\n\n",
    );
    let folder = path.parent().unwrap().display().to_string();
    let resources = fixture.load();
    let expand = |text: &str| resources.expand_skill(text).unwrap();
    let block = format!(
        "<skill name=\"a\" location=\"{folder}/SKILL.md\">\nReferences are relative to {folder}.\n\nDo $1.\n</skill>"
    );
    assert_eq!(expand("/skill:a").as_ref(), Some(&block));
    assert_eq!(expand("/skill:a  "), Some(block.clone()));
    let spoken = expand("/skill:a now, please").unwrap();
    assert_eq!(spoken, format!("{block}\n\nnow, please"));
    for text in [
        "/skill:b",
        "/skill:",
        "skill:a",
        "/a",
        " /skill:a",
        "/skill:ab",
    ] {
        assert_eq!(expand(text), None, "{text}");
    }
    let parsed = SkillBlock::parse(&spoken).unwrap();
    assert_eq!((parsed.name, parsed.message), ("a", Some("now, please")));
    assert_eq!(
        parsed.content,
        format!("References are relative to {folder}.\n\nDo $1.")
    );
    std::fs::remove_file(&path).unwrap();
    let failed = resources.expand_skill("/skill:a").unwrap_err();
    assert_eq!(
        failed.to_string(),
        format!(
            "skill `a` could not be read from `{}`: ENOENT: no such file or directory",
            path.display()
        )
    );
}
