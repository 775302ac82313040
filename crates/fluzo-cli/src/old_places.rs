//! What pi once kept in other places of its folder: read as what it is today, never moved
//! or rewritten, and told once.

use std::path::Path;

use fluzo_credentials::auth_json::Document;
use fluzo_settings::legacy::API_KEYS;
use serde_json::Value;

use crate::kept_file;

/// Programs that pi put into `tools` before it had `bin`; Fluzo needs none of them.
const FETCHED: [&str; 4] = ["fd", "rg", "fd.exe", "rg.exe"];

/// Keys and sign-ins of `oauth.json` in `agent_folder` and of `settings`, the content of
/// `settings.json` there, with what the user should know.
pub(crate) fn credentials(
    agent_folder: &Path,
    settings: Option<&Value>,
) -> (Document, Vec<String>) {
    let mut warnings = Vec::new();
    let path = agent_folder.join("oauth.json");
    let shown = path.display();
    let bytes = match kept_file::read(&path) {
        Ok(read) => read.map(|(bytes, _)| bytes).unwrap_or_default(),
        Err(error) => {
            warnings.push(format!("`{shown}` cannot be read: {error}"));
            Vec::new()
        }
    };
    let auth = agent_folder.join("auth.json");
    let auth = auth.display();
    let keys = settings.and_then(|settings| settings.get(API_KEYS));
    let signed_in = Document::from_old(&bytes, None).unwrap_or_else(|broken| {
        warnings.push(format!("`{shown}` was passed over: {broken}"));
        Document::default()
    });
    if !signed_in.is_empty() {
        warnings.push(format!(
            "`{shown}` is an old file of sign-ins, which still count: today they stand in `{auth}`, each with `\"type\": \"oauth\"`"
        ));
    }
    let bytes = if signed_in.is_empty() {
        Vec::new()
    } else {
        bytes
    };
    let all = Document::from_old(&bytes, keys).unwrap_or_default();
    if all.providers().count() > signed_in.providers().count() {
        let file = agent_folder.join("settings.json");
        warnings.push(format!(
            "`{}` has keys in `{API_KEYS}`, which still count: today they stand in `{auth}`, as {{\"PROVIDER\": {{\"type\": \"api_key\", \"key\": \"KEY\"}}}}",
            file.display()
        ));
    }
    (all, warnings)
}

/// Folders of `root`, the agent folder or a project's `.pi`, that are not read any more.
pub(crate) fn folders(root: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in ["hooks", "tools"] {
        let folder = root.join(name);
        if holds_something(&folder) {
            warnings.push(format!(
                "`{}` is an old folder and was passed over: today what it holds are extensions, in `{}`",
                folder.display(),
                root.join("extensions").display()
            ));
        }
    }
    warnings
}

fn holds_something(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| !FETCHED.iter().any(|fetched| name == *fetched))
}

/// What the user should know when a session lies in the agent folder itself, as it did before
/// there was a folder for each working folder.
pub(crate) fn session_notice(path: &Path, sessions: &Path) -> String {
    format!(
        "the session `{}` lies in an old place; today sessions of its folder are in `{}`",
        path.display(),
        sessions.display()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_of_old_files_are_read_and_told_once_each() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let (none, warnings) = credentials(folder, Some(&json!({"apiKeys": {}})));
        assert!(none.is_empty() && warnings.is_empty());
        let oauth = r#"{"github-copilot": {"refresh": "sk-planted", "access": "a", "expires": 1}}"#;
        std::fs::write(folder.join("oauth.json"), oauth).unwrap();
        let settings = json!({"apiKeys": {"openai": "sk-planted", "groq": "sk-planted"}});
        let (found, warnings) = credentials(folder, Some(&settings));
        assert_eq!(found.providers().count(), 3);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        for text in &warnings {
            assert!(
                text.contains("auth.json") && !text.contains("planted"),
                "{text}"
            );
        }
        std::fs::write(folder.join("oauth.json"), "[sk-planted").unwrap();
        let (found, warnings) = credentials(folder, Some(&settings));
        assert_eq!(found.providers().count(), 2);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(!format!("{warnings:?}").contains("planted"));
    }

    #[test]
    fn folders_of_old_extensions_are_told() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        assert!(folders(root).is_empty());
        std::fs::create_dir(root.join("hooks")).unwrap();
        std::fs::create_dir(root.join("tools")).unwrap();
        std::fs::write(root.join("tools/rg"), "").unwrap();
        assert!(folders(root).is_empty());
        std::fs::write(root.join("tools/mine.ts"), "").unwrap();
        std::fs::write(root.join("hooks/mine.ts"), "").unwrap();
        let told = folders(root);
        assert_eq!(told.len(), 2);
        assert!(told[0].contains("hooks` is an old folder"), "{told:?}");
    }
}
