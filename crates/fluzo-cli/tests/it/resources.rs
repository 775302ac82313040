//! Context files, skills, templates and themes of a run: places, flags, and what is told.

use crate::support::*;

/// The printed system prompt without the path of the stage, and what was told.
fn printed(stage: &Stage, arguments: &[&str]) -> (String, String) {
    let ran = stage.pi(&[arguments, &["--print-system-prompt"]].concat());
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let root = stage.path("");
    let plain = |text: String| text.replace(&*root.to_string_lossy(), "/");
    (plain(ran.out()), plain(ran.err()))
}

fn skill(stage: &Stage, path: &str) {
    let name = path.rsplit('/').nth(1).unwrap();
    stage.write(
        path,
        format!("---\nname: {name}\ndescription: {name} it\n---\nBODY"),
    );
}

/// Names of the skills on offer.
fn offered(prompt: &str) -> Vec<&str> {
    let names = prompt.split("<name>").skip(1);
    names.filter_map(|rest| rest.split('<').next()).collect()
}

#[test]
fn the_printed_prompt_has_every_part_in_its_place() {
    let stage = Stage::new()
        .set("OPENAI_API_KEY", "k")
        .set("PI_PACKAGE_DIR", "~/package");
    stage.write("home/package/README.md", "read me");
    stage.write("home/package/docs/a.md", "doc");
    stage.write("agent/AGENTS.md", "Of the user.");
    stage.write("project/CLAUDE.md", "Of the project & <all>.");
    stage.write("agent/APPEND_SYSTEM.md", "APPENDED");
    skill(&stage, "agent/skills/pdf/SKILL.md");
    let (prompt, told) = printed(&stage, &[]);
    assert_eq!(told, "");
    let (before, rest) = prompt.split_once("\n\nAPPENDED").unwrap();
    assert!(before.contains("an expert coding assistant"));
    assert!(
        before.ends_with(
            "\n- Main documentation: /home/package/README.md\n- Additional docs: /home/package/docs"
        ),
        "{before}"
    );
    let (context, rest) = rest.split_once("</project_context>\n").unwrap();
    assert_eq!(
        context,
        "\n\n<project_context>\n\nProject-specific instructions and guidelines:\n\n<project_instructions path=\"/agent/AGENTS.md\">\nOf the user.\n</project_instructions>\n\n<project_instructions path=\"/project/CLAUDE.md\">\nOf the project & <all>.\n</project_instructions>\n\n"
    );
    let (skills, end) = rest.split_once("</available_skills>").unwrap();
    assert!(skills.contains("    <name>pdf</name>\n    <description>pdf it</description>\n    <location>/agent/skills/pdf/SKILL.md</location>\n"), "{skills}");
    let (date, cwd) = end.split_once("\nCurrent working directory: ").unwrap();
    assert_eq!(cwd, "/project\n");
    assert_eq!(date.len(), "\nCurrent date: 2026-12-01".len());
    assert!(!prompt.contains("BODY"));
}

#[test]
fn the_request_has_the_printed_prompt_and_no_body_of_a_skill() {
    let simulator = simulator(scenario().step(fluzo_sim::Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    stage.write("project/AGENTS.md", "Of the project.");
    skill(&stage, "agent/skills/pdf/SKILL.md");
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    let sent = system(&simulator, 0);
    assert!(sent.contains("Of the project.") && !sent.contains("BODY"));
    let again = stage.pi(&["--print-system-prompt"]);
    assert_eq!(again.out(), sent + "\n");
    approve(simulator);
}

#[test]
fn flags_add_and_leave_out() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    stage.write("project/AGENTS.md", "INSTRUCTIONS");
    skill(&stage, "agent/skills/found/SKILL.md");
    skill(&stage, "project/more/named/SKILL.md");
    let check = |arguments: &[&str], expected: &[&str]| {
        let (prompt, told) = printed(&stage, arguments);
        assert_eq!(told, "", "{arguments:?}");
        assert_eq!(offered(&prompt), expected, "{arguments:?}");
    };
    check(&[], &["found"]);
    check(&["--skill", "more/named"], &["found", "named"]);
    check(
        &["--no-skills", "--skill", "more/named/SKILL.md"],
        &["named"],
    );
    check(&["-ns"], &[]);
    check(&["--tools", "bash"], &[]);
    let (with, _) = printed(&stage, &[]);
    let (without, _) = printed(&stage, &["-nc"]);
    assert!(with.contains("INSTRUCTIONS"));
    assert!(!without.contains("INSTRUCTIONS") && !without.contains("project_context"));
}

#[test]
fn flags_beat_the_projects_files_and_those_the_users() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    let check = |arguments: &[&str], expected: &str| {
        let arguments = [&["-nc", "-a"], arguments].concat();
        let (prompt, _) = printed(&stage, &arguments);
        let (beginning, _) = prompt.split_once("\nCurrent date: ").unwrap();
        let beginning = if beginning.starts_with("You are Fluzo") {
            "DEFAULT"
        } else {
            beginning
        };
        assert_eq!(beginning, expected, "{arguments:?}");
    };
    check(&[], "DEFAULT");
    stage.write("agent/SYSTEM.md", "USER");
    stage.write("agent/APPEND_SYSTEM.md", "USER TOO");
    check(&[], "USER\n\nUSER TOO");
    stage.write("project/.pi/SYSTEM.md", "PROJECT");
    check(&[], "PROJECT\n\nUSER TOO");
    stage.write("project/.pi/APPEND_SYSTEM.md", "PROJECT TOO");
    check(&[], "PROJECT\n\nPROJECT TOO");
    check(&["--system-prompt", "FLAG"], "FLAG\n\nPROJECT TOO");
    let both = [
        "--system-prompt",
        "FLAG",
        "--append-system-prompt",
        "A",
        "--append-system-prompt",
        "B",
    ];
    check(&both, "FLAG\n\nA\n\nB");
}

#[test]
fn a_project_that_is_not_trusted_brings_context_files_only() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    stage.write("project/AGENTS.md", "INSTRUCTIONS");
    stage.write("project/.pi/SYSTEM.md", "PROJECT");
    stage.write("project/.pi/settings.json", r#"{"skills": ["../listed"]}"#);
    skill(&stage, "project/.pi/skills/own/SKILL.md");
    skill(&stage, "project/.agents/skills/shared/SKILL.md");
    skill(&stage, "project/listed/listed/SKILL.md");
    let (prompt, told) = printed(&stage, &[]);
    assert!(prompt.starts_with("You are Fluzo") && prompt.contains("INSTRUCTIONS"));
    assert_eq!(offered(&prompt), [] as [&str; 0]);
    assert_eq!(told.lines().count(), 1, "{told}");
    let (prompt, told) = printed(&stage, &["--approve"]);
    assert!(prompt.starts_with("PROJECT") && prompt.contains("INSTRUCTIONS"));
    assert_eq!(offered(&prompt), ["listed", "own", "shared"]);
    assert_eq!(told, "");
}

#[test]
fn lists_of_the_settings_filter_and_add() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    skill(&stage, "agent/skills/one/SKILL.md");
    skill(&stage, "agent/skills/two/SKILL.md");
    skill(&stage, "home/mine/three/SKILL.md");
    stage.settings(&serde_json::json!({"skills": ["~/mine", "-skills/one"]}));
    let (prompt, told) = printed(&stage, &[]);
    assert_eq!(offered(&prompt), ["three", "two"]);
    assert_eq!(told, "");
}

#[test]
fn what_cannot_be_used_is_told_and_the_rest_is_used() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    skill(&stage, "agent/skills/fine/SKILL.md");
    stage.write("agent/skills/none/SKILL.md", "no description");
    stage.write("agent/themes/t.json", "{");
    stage.write("agent/commands/old.md", "old");
    std::fs::create_dir(stage.path("project/AGENTS.md")).unwrap();
    let arguments = [
        "--skill",
        "nowhere",
        "--prompt-template",
        "nowhere",
        "--theme",
        "nowhere",
    ];
    let (prompt, told) = printed(&stage, &arguments);
    assert_eq!(offered(&prompt), ["fine"]);
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(
        told,
        [
            "Warning: Could not read /project/AGENTS.md: EISDIR: illegal operation on a directory",
            "Warning: skill path does not exist: /project/nowhere",
            "Warning: description is required: /agent/skills/none/SKILL.md",
            "Warning: prompt templates in /agent/commands are read, but their place is /agent/prompts: move them there",
            "Warning: prompt template path does not exist: /project/nowhere",
            "Warning: theme path does not exist: /project/nowhere",
            "Warning: Failed to parse theme /agent/themes/t.json: EOF while parsing an object at line 1 column 1",
        ]
    );
    let (_, told) = printed(&stage, &["-ns", "-np", "--no-themes", "-nc"]);
    assert_eq!(told, "");
}
