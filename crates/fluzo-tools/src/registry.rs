//! Names of the built-in tools and which of them a session gets.

use std::sync::Arc;

use fluzo_agent::Tool;

use crate::{BashTool, EditTool, FindTool, GrepTool, LsTool, ReadTool, ToolEnv, WriteTool};

/// All built-in tools.
pub const ALL: [&str; 7] = ["read", "bash", "edit", "write", "grep", "find", "ls"];

/// Those that a session has unless told otherwise.
pub const DEFAULT: [&str; 4] = ["read", "bash", "edit", "write"];

/// Those that change nothing.
pub const READ_ONLY: [&str; 4] = ["read", "grep", "find", "ls"];

/// The built-in tool of that name.
pub fn builtin(name: &str, env: &Arc<ToolEnv>) -> Option<Arc<dyn Tool>> {
    let env = Arc::clone(env);
    Some(match name {
        "read" => Arc::new(ReadTool::new(env)),
        "bash" => Arc::new(BashTool::new(env)),
        "edit" => Arc::new(EditTool::new(env)),
        "write" => Arc::new(WriteTool::new(env)),
        "grep" => Arc::new(GrepTool::new(env)),
        "find" => Arc::new(FindTool::new(env)),
        "ls" => Arc::new(LsTool::new(env)),
        _ => return None,
    })
}

/// Which tools a session gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names of active tools: initial ones in their order, then registered ones.
    pub active: Vec<String>,
    /// Names in the allow or deny list that no tool has, each once.
    pub unknown: Vec<String>,
}

/// Filters tool names: the initial ones, or those allowed, less those denied; `registered`
/// names come from extensions, are active unless a list leaves them out, and may repeat a
/// built-in one, whose place they take.
///
/// An allow list chooses among all built-in and registered tools, in their order, so that it
/// can also switch on what is not initial.
pub fn select(
    initial: &[&str],
    allow: Option<&[String]>,
    deny: &[String],
    registered: &[String],
) -> Selection {
    let known = |name: &str| ALL.contains(&name) || registered.iter().any(|r| r == name);
    let listed = |list: &[String], name: &str| list.iter().any(|item| item == name);
    let built_in: &[&str] = if allow.is_some() { &ALL } else { initial };
    let candidates = built_in
        .iter()
        .copied()
        .chain(registered.iter().map(String::as_str));
    let mut selection = Selection::default();
    for name in candidates {
        let allowed = allow.is_none_or(|allow| listed(allow, name));
        if allowed && !listed(deny, name) && !listed(&selection.active, name) {
            selection.active.push(name.to_owned());
        }
    }
    for name in allow.unwrap_or_default().iter().chain(deny) {
        if !known(name) && !listed(&selection.unknown, name) {
            selection.unknown.push(name.clone());
        }
    }
    selection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        allow: Option<&[&str]>,
        deny: &[&str],
        registered: &[&str],
        active: &[&str],
        unknown: &[&str],
    ) {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let allow = allow.map(owned);
        let got = select(&DEFAULT, allow.as_deref(), &owned(deny), &owned(registered));
        assert_eq!(
            got,
            Selection {
                active: owned(active),
                unknown: owned(unknown)
            }
        );
    }

    #[test]
    fn availability() {
        check(None, &[], &[], &DEFAULT, &[]);
        check(None, &["bash"], &[], &["read", "edit", "write"], &[]);
        check(Some(&["ls", "read"]), &[], &[], &["read", "ls"], &[]);
        check(
            Some(&["read", "grep", "find", "ls"]),
            &[],
            &[],
            &READ_ONLY,
            &[],
        );
        check(Some(&["read", "bash"]), &["bash"], &[], &["read"], &[]);
        check(Some(&[]), &[], &[], &[], &[]);
        check(
            None,
            &[],
            &["deploy"],
            &["read", "bash", "edit", "write", "deploy"],
            &[],
        );
        check(None, &["deploy"], &["deploy"], &DEFAULT, &[]);
        check(
            Some(&["deploy"]),
            &[],
            &["deploy", "other"],
            &["deploy"],
            &[],
        );
        check(None, &[], &["bash"], &DEFAULT, &[]);
        check(
            Some(&["reed", "read"]),
            &["basch", "reed"],
            &[],
            &["read"],
            &["reed", "basch"],
        );
    }
}
