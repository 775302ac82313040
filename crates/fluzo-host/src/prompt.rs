//! The system prompt: deterministic, and stable for the length of a session.

use fluzo_agent::ToolSet;

/// What a system prompt is made of.
#[derive(Debug, Clone, Default)]
pub struct SystemPrompt<'a> {
    /// Replaces the default prompt.
    pub custom: Option<&'a str>,
    /// Put after it.
    pub append: Option<&'a str>,
    /// Local date, `YYYY-MM-DD`, at the start of the session.
    pub date: &'a str,
    /// Working folder.
    pub cwd: &'a str,
}

/// Rules that hold whatever tools there are.
const ALWAYS: [&str; 2] = [
    "Be concise in your responses",
    "Show file paths clearly when working with files",
];

/// For a shell without search tools beside it.
const SHELL_ONLY: &str = "Use bash for file operations like ls, rg, find";

/// Builds the prompt for `tools`.
pub fn system_prompt(parts: &SystemPrompt<'_>, tools: &ToolSet) -> String {
    let mut prompt = match parts.custom {
        Some(custom) => custom.to_owned(),
        None => default_prompt(tools),
    };
    if let Some(append) = parts.append {
        prompt.push_str("\n\n");
        prompt.push_str(append);
    }
    let cwd = parts.cwd.replace('\\', "/");
    prompt.push_str(&format!(
        "\nCurrent date: {}\nCurrent working directory: {cwd}",
        parts.date
    ));
    prompt
}

fn default_prompt(tools: &ToolSet) -> String {
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
        "You are Fluzo, a coding agent that works in the user's terminal. You get things done by reading files, running commands, and changing code with the tools below.\n\nAvailable tools:\n{}\n\nThe project may add tools of its own to these.\n\nGuidelines:\n{}",
        list.join("\n"),
        rules.join("\n")
    )
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
    use super::*;

    fn parts() -> SystemPrompt<'static> {
        SystemPrompt {
            date: "2026-12-01",
            cwd: "/w/dir",
            ..SystemPrompt::default()
        }
    }

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
    fn without_tools_the_list_says_so_and_the_fixed_rules_stand() {
        let prompt = system_prompt(&parts(), &ToolSet::default());
        assert!(prompt.contains("Available tools:\n(none)\n"), "{prompt}");
        assert!(prompt.contains("Guidelines:\n- Be concise in your responses\n- Show file paths clearly when working with files\n"));
        assert!(prompt.ends_with("\nCurrent date: 2026-12-01\nCurrent working directory: /w/dir"));
    }

    #[test]
    fn the_same_parts_give_the_same_bytes() {
        assert_eq!(
            system_prompt(&parts(), &ToolSet::default()),
            system_prompt(&parts(), &ToolSet::default())
        );
    }
}
