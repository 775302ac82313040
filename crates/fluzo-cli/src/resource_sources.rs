//! Where skills, templates, themes, context files and documentation are looked for.

use std::path::Path;
use std::sync::Arc;

use fluzo_exec::LocalFileSystem;
use fluzo_host::DocHint;
use fluzo_resources::{Discover, Lists, Sources};
use fluzo_settings::{Settings, Source, key};
use serde_json::Value;

use crate::agent_folder::AgentFolder;
use crate::arguments::Typed;
use crate::flags::Id;
use crate::surroundings::Surroundings;

/// Everything that decides which resources a session in `workspace` has. `trusted` is whether
/// what the project there brings may act.
pub(crate) fn sources(
    surroundings: &Surroundings,
    folder: &AgentFolder,
    typed: &Typed,
    workspace: &Path,
    trusted: bool,
) -> Sources {
    let files = Arc::new(LocalFileSystem);
    let flags = |id| typed.values(id).to_vec();
    let mut sources = Sources::new(files, &folder.path, surroundings.home.clone(), workspace);
    sources.discover = Discover {
        context_files: !typed.has(Id::NoContextFiles),
        skills: !typed.has(Id::NoSkills),
        prompts: !typed.has(Id::NoPromptTemplates),
        themes: !typed.has(Id::NoThemes),
    };
    sources.flags = Lists {
        skills: flags(Id::Skill),
        prompts: flags(Id::PromptTemplate),
        themes: flags(Id::Theme),
    };
    sources.user = lists(&folder.settings, Source::Global);
    if trusted {
        sources.trusted = true;
        sources.project = lists(&folder.settings, Source::Project);
    }
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
