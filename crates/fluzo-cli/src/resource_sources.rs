//! Where skills, templates, themes, context files and documentation are looked for.

use std::path::Path;
use std::sync::Arc;

use fluzo_exec::LocalFileSystem;
use fluzo_host::DocHint;
use fluzo_resources::{Lists, Sources};
use fluzo_settings::{Settings, Source, key};
use serde_json::Value;

use crate::agent_folder::AgentFolder;
use crate::surroundings::Surroundings;

/// Everything that decides which resources a session in `workspace` has.
pub(crate) fn sources(
    surroundings: &Surroundings,
    folder: &AgentFolder,
    workspace: &Path,
) -> Sources {
    let files = Arc::new(LocalFileSystem);
    let mut sources = Sources::new(files, &folder.path, surroundings.home.clone(), workspace);
    sources.user = lists(&folder.settings, Source::Global);
    sources.project = lists(&folder.settings, Source::Project);
    sources
}

fn lists(settings: &Settings, source: Source) -> Lists {
    let texts = |key: &str| -> Vec<String> {
        let lists = settings.lists(key);
        let own = lists.iter().filter(|(from, _)| *from == source);
        own.flat_map(|(_, values)| values.iter().filter_map(Value::as_str))
            .map(str::to_owned)
            .collect()
    };
    Lists {
        skills: texts(key::SKILLS),
        prompts: texts(key::PROMPTS),
        themes: texts(key::THEMES),
    }
}

/// The documentation that is installed with this program, as far as it is there.
pub(crate) fn docs(surroundings: &Surroundings) -> Vec<DocHint> {
    let named = surroundings
        .variable("PI_PACKAGE_DIR")
        .map(|text| surroundings.path(text));
    let Some(folder) = named else {
        return Vec::new();
    };
    let places = [
        ("Main documentation", "README.md"),
        ("Additional docs", "docs"),
        ("Examples", "examples"),
    ];
    places
        .into_iter()
        .map(|(label, name)| (label, folder.join(name)))
        .filter(|(_, path)| path.exists())
        .map(|(label, path)| DocHint {
            label: label.to_owned(),
            path: path.to_string_lossy().into_owned(),
        })
        .collect()
}
