//! The system prompt: deterministic, and stable for the length of a session.

use fluzo_agent::ToolSet;
use fluzo_resources::{ContextFile, Skill, available_skills, project_context};

/// What a system prompt is made of.
#[derive(Debug, Clone, Default)]
pub struct SystemPrompt<'a> {
    /// Replaces the default prompt, unless it is empty.
    pub custom: Option<&'a str>,
    /// Where the program's own documentation is; named in the default prompt only.
    pub docs: &'a [DocHint],
    /// Put after it, unless it is empty.
    pub append: Option<&'a str>,
    /// Context files, in this order.
    pub context_files: &'a [ContextFile],
    /// Skills, offered while the model has the tool to read their files.
    pub skills: &'a [Skill],
    /// Local date, `YYYY-MM-DD`, at the start of the session.
    pub date: &'a str,
    /// Working folder.
    pub cwd: &'a str,
}

/// A place of the program's own documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocHint {
    /// What is found there, such as `Main documentation`.
    pub label: String,
    /// Absolute path of a file or folder that exists.
    pub path: String,
}

/// Rules that hold whatever tools there are.
const ALWAYS: [&str; 2] = [
    "Be concise in your responses",
    "Show file paths clearly when working with files",
];

/// For a shell without search tools beside it.
const SHELL_ONLY: &str = "Use bash for file operations like ls, rg, find";

/// Builds the prompt for `tools`. The same parts give the same bytes.
pub fn system_prompt(parts: &SystemPrompt<'_>, tools: &ToolSet) -> String {
    let mut prompt = match given(parts.custom) {
        Some(custom) => custom.to_owned(),
        None => default_prompt(parts.docs, tools),
    };
    if let Some(append) = given(parts.append) {
        prompt.push_str("\n\n");
        prompt.push_str(append);
    }
    prompt.push_str(&project_context(parts.context_files));
    if tools.find("read").is_some() {
        prompt.push_str(&available_skills(parts.skills));
    }
    let cwd = parts.cwd.replace('\\', "/");
    prompt.push_str(&format!(
        "\nCurrent date: {}\nCurrent working directory: {cwd}",
        parts.date
    ));
    prompt
}

fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn default_prompt(docs: &[DocHint], tools: &ToolSet) -> String {
    let snippets = tools.iter().filter_map(|tool| {
        tool.prompt_snippet()
            .map(|snippet| format!("- {}: {snippet}", tool.spec().name))
    });
    let mut list: Vec<String> = snippets.collect();
    if list.is_empty() {
        list.push("(none)".to_owned());
    }
    let rules: Vec<String> = guidelines(tools)
        .iter()
        .map(|rule| format!("- {rule}"))
        .collect();
    format!(
        "You are Fluzo, an expert coding assistant that works in the user's terminal. You get things done by reading files, running commands, and changing code with the tools below.\n\nAvailable tools:\n{}\n\nThe project may add tools of its own to these.\n\nGuidelines:\n{}{}",
        list.join("\n"),
        rules.join("\n"),
        documentation(docs)
    )
}

/// Where the model finds what is known about the program itself.
fn documentation(docs: &[DocHint]) -> String {
    if docs.is_empty() {
        return String::new();
    }
    let mut text = "\n\nFluzo documentation (read it only when the user asks about Fluzo itself: its settings, models, skills, prompt templates, themes or extensions):".to_owned();
    for DocHint { label, path } in docs {
        text.push_str(&format!("\n- {label}: {path}"));
    }
    text
}

fn guidelines(tools: &ToolSet) -> Vec<String> {
    let has = |name: &str| tools.find(name).is_some();
    let mut rules: Vec<String> = Vec::new();
    if has("bash") && !["grep", "find", "ls"].into_iter().any(has) {
        rules.push(SHELL_ONLY.to_owned());
    }
    let of_tools = tools
        .iter()
        .flat_map(|tool| tool.prompt_guidelines().iter().copied());
    for rule in of_tools
        .chain(ALWAYS)
        .map(str::trim)
        .filter(|rule| !rule.is_empty())
    {
        if !rules.iter().any(|known| known == rule) {
            rules.push(rule.to_owned());
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
    use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
    use fluzo_resources::{Origin, Scope, SourceInfo};
    use fluzo_testkit::FakeTool;

    use super::*;

    fn parts() -> SystemPrompt<'static> {
        SystemPrompt {
            date: "2026-12-01",
            cwd: "/w/dir",
            ..SystemPrompt::default()
        }
    }

    /// A tool that says something about itself.
    struct Described {
        tool: Arc<FakeTool>,
        snippet: Option<&'static str>,
        guidelines: &'static [&'static str],
    }

    impl Tool for Described {
        fn spec(&self) -> &ToolSpec {
            self.tool.spec()
        }

        fn run(
            self: Arc<Self>,
            permit: Permit,
            context: ToolContext,
        ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            Arc::clone(&self.tool).run(permit, context)
        }

        fn prompt_snippet(&self) -> Option<&str> {
            self.snippet
        }

        fn prompt_guidelines(&self) -> &[&str] {
            self.guidelines
        }
    }

    type Row = (&'static str, Option<&'static str>, &'static [&'static str]);

    fn tools(rows: &[Row]) -> ToolSet {
        ToolSet::new(rows.iter().map(|&(name, snippet, guidelines)| {
            let tool = Arc::new(FakeTool::new(name));
            let described: Arc<dyn Tool> = Arc::new(Described {
                tool,
                snippet,
                guidelines,
            });
            described
        }))
    }

    fn named(names: &[&'static str]) -> ToolSet {
        let rows: Vec<Row> = names.iter().map(|name| (*name, None, &[][..])).collect();
        tools(&rows)
    }

    fn context() -> Vec<ContextFile> {
        vec![ContextFile {
            path: PathBuf::from("/w/AGENTS.md"),
            content: "Use tabs.".to_owned(),
        }]
    }

    fn skills() -> Vec<Skill> {
        let path = PathBuf::from("/s/pdf/SKILL.md");
        vec![Skill {
            name: "pdf".to_owned(),
            description: "Reads PDF files".to_owned(),
            disable_model_invocation: false,
            source: SourceInfo {
                path: path.clone(),
                source: "auto".to_owned(),
                scope: Scope::User,
                origin: Origin::TopLevel,
                base_dir: None,
            },
            path,
        }]
    }

    const CONTEXT: &str = "\n\n<project_context>\n\nProject-specific instructions and guidelines:\n\n<project_instructions path=\"/w/AGENTS.md\">\nUse tabs.\n</project_instructions>\n\n</project_context>\n";
    const END: &str = "\nCurrent date: 2026-12-01\nCurrent working directory: /w/dir";

    #[test]
    fn a_custom_prompt_takes_the_place_of_the_default() {
        let custom = SystemPrompt {
            custom: Some("CUSTOM"),
            append: Some("APP"),
            ..parts()
        };
        assert_eq!(
            system_prompt(&custom, &ToolSet::default()),
            "CUSTOM\n\nAPP\nCurrent date: 2026-12-01\nCurrent working directory: /w/dir"
        );
    }

    #[test]
    fn all_parts_after_a_custom_prompt() {
        let (context_files, skills) = (context(), skills());
        let docs = [DocHint {
            label: "Main documentation".to_owned(),
            path: "/d".to_owned(),
        }];
        let parts = SystemPrompt {
            custom: Some("CUSTOM"),
            append: Some("APP"),
            docs: &docs,
            context_files: &context_files,
            skills: &skills,
            ..parts()
        };
        let offered = available_skills(&skills);
        assert_eq!(
            system_prompt(&parts, &named(&["read"])),
            format!("CUSTOM\n\nAPP{CONTEXT}{offered}{END}")
        );
        assert_eq!(
            system_prompt(&parts, &named(&["bash"])),
            format!("CUSTOM\n\nAPP{CONTEXT}{END}")
        );
    }

    #[test]
    fn all_parts_of_the_default_prompt() {
        let (context_files, skills) = (context(), skills());
        let docs = [
            DocHint {
                label: "Main documentation".to_owned(),
                path: "/d/README.md".to_owned(),
            },
            DocHint {
                label: "Additional docs".to_owned(),
                path: "/d/docs".to_owned(),
            },
        ];
        let parts = SystemPrompt {
            custom: Some(""),
            append: Some("APP"),
            docs: &docs,
            context_files: &context_files,
            skills: &skills,
            ..parts()
        };
        let tools = tools(&[
            ("read", Some("Read files"), &["Read first", " Be brief "]),
            ("silent", None, &["Read first", ""]),
            (
                "bash",
                Some("Run commands"),
                &["Be concise in your responses"],
            ),
        ]);
        let offered = available_skills(&skills);
        assert_eq!(
            system_prompt(&parts, &tools),
            format!(
                "You are Fluzo, an expert coding assistant that works in the user's terminal. You get things done by reading files, running commands, and changing code with the tools below.

Available tools:
- read: Read files
- bash: Run commands

The project may add tools of its own to these.

Guidelines:
- Use bash for file operations like ls, rg, find
- Read first
- Be brief
- Be concise in your responses
- Show file paths clearly when working with files

Fluzo documentation (read it only when the user asks about Fluzo itself: its settings, models, skills, prompt templates, themes or extensions):
- Main documentation: /d/README.md
- Additional docs: /d/docs

APP{CONTEXT}{offered}{END}"
            )
        );
    }

    #[test]
    fn the_hint_about_bash_stands_for_missing_search_tools() {
        let check = |names: &[&'static str], expected: bool| {
            let prompt = system_prompt(&parts(), &named(names));
            assert_eq!(prompt.contains(SHELL_ONLY), expected, "{names:?}");
            assert!(!prompt.contains("Prefer grep"), "{names:?}");
        };
        check(&["bash"], true);
        check(&["read", "bash", "edit", "write"], true);
        check(&["bash", "grep"], false);
        check(&["bash", "find"], false);
        check(&["ls", "bash"], false);
        check(&["read"], false);
        check(&[], false);
    }

    #[test]
    fn slashes_in_the_working_folder() {
        let parts = SystemPrompt {
            cwd: "C:\\w\\dir",
            ..parts()
        };
        let prompt = system_prompt(&parts, &ToolSet::default());
        assert!(prompt.ends_with("\nCurrent working directory: C:/w/dir"));
    }

    #[test]
    fn without_tools_the_list_says_so_and_the_fixed_rules_stand() {
        let prompt = system_prompt(&parts(), &ToolSet::default());
        assert!(prompt.contains("Available tools:\n(none)\n"), "{prompt}");
        assert!(prompt.contains("Guidelines:\n- Be concise in your responses\n- Show file paths clearly when working with files\n"));
        assert!(prompt.ends_with("\nCurrent date: 2026-12-01\nCurrent working directory: /w/dir"));
    }

    #[test]
    fn the_same_parts_give_the_same_bytes() {
        let (context_files, skills) = (context(), skills());
        let parts = SystemPrompt {
            context_files: &context_files,
            skills: &skills,
            ..parts()
        };
        let build = || system_prompt(&parts, &named(&["read", "bash"]));
        assert_eq!(build(), build());
    }
}
