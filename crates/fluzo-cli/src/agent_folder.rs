//! The agent folder: settings, models and sessions of the open profile.

use std::path::{Path, PathBuf};

use fluzo_credentials::auth_json::Document;
use fluzo_settings::legacy::Modern;
use fluzo_settings::trust::{SavedAnswer, TrustInputs};
use fluzo_settings::{OPEN, ProjectTrust, Settings, Source, key};
use serde_json::{Map, Value};

use crate::arguments::Typed;
use crate::flags::Id;
use crate::surroundings::Surroundings;
use crate::trust::{Brought, TrustFile};
use crate::{kept_file, old_places, variables};

/// Files of the open profile, read and nothing written.
pub(crate) struct AgentFolder {
    pub(crate) path: PathBuf,
    pub(crate) settings: Settings,
    /// Whether what the project brings may act.
    pub(crate) trust: ProjectTrust,
    pub(crate) models_json: Option<String>,
    /// The file of variables that the user's own settings name.
    pub(crate) env_file: Option<String>,
    /// Keys and sign-ins of old files.
    pub(crate) old_credentials: Document,
    /// What could not be read, for the user.
    pub(crate) warnings: Vec<String>,
}

/// What the command line says of settings, keys and trust.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// `--approve` or `--no-approve`.
    pub(crate) approve: Option<bool>,
    /// Files of variables, which go before that of the settings.
    pub(crate) env_files: Vec<String>,
    /// Settings that flags choose, as a layer.
    pub(crate) settings: Map<String, Value>,
}

/// Flags with a value that go before a setting in any file.
const FLAGS: [(Id, &str); 1] = [(Id::SessionDir, key::SESSION_DIR)];

impl Asked {
    /// Reads the flags.
    ///
    /// # Errors
    ///
    /// The text for the user when they contradict each other.
    pub(crate) fn of(typed: &Typed) -> Result<Self, String> {
        let approve = match (typed.has(Id::Approve), typed.has(Id::NoApprove)) {
            (true, true) => {
                return Err("--approve cannot be combined with --no-approve".to_owned());
            }
            (true, false) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        let mut settings = Map::new();
        for (flag, key) in FLAGS {
            if let Some(value) = typed.value(flag) {
                variables::put(&mut settings, key, value.into());
            }
        }
        Ok(Self {
            approve,
            env_files: typed.values(Id::EnvFile).to_vec(),
            settings,
        })
    }
}

impl AgentFolder {
    /// [`AgentFolder::read_for`] without flags.
    pub(crate) fn read(surroundings: &Surroundings, workspace: &Path) -> Self {
        Self::read_for(surroundings, workspace, &Asked::default())
    }

    /// Reads the folder that `PI_CODING_AGENT_DIR` names, else `~/.pi/agent`.
    ///
    /// The project's settings may name a shell, so they count only when the project is
    /// trusted. Variables and flags that stand for a setting are layers besides the files.
    pub(crate) fn read_for(surroundings: &Surroundings, workspace: &Path, asked: &Asked) -> Self {
        let path = match surroundings.variable(variables::AGENT_FOLDER) {
            Some(text) => surroundings.path(text),
            None => surroundings.path("~/.pi/agent"),
        };
        let mut warnings = Vec::new();
        let (below, above) = variables::layers(|name| surroundings.variable(name));
        let global = layer(&path.join("settings.json"), &mut warnings);
        let (old_credentials, told) = old_places::credentials(&path, global.as_ref());
        warnings.extend(told);
        warnings.extend(old_places::folders(&path));
        let mut layers = vec![(Source::Environment, below)];
        layers.extend(global.map(|layer| (Source::Global, layer)));
        let own = Settings::resolve(OPEN, &layers);
        let trust = trust(
            surroundings,
            workspace,
            &path,
            asked,
            own.text(key::PROJECT_TRUST),
            &mut warnings,
        );
        if trust.is_trusted() {
            let project = workspace.join(".pi");
            let layer = layer(&project.join("settings.json"), &mut warnings);
            layers.extend(layer.map(|layer| (Source::Project, layer)));
            warnings.extend(old_places::folders(&project));
        }
        layers.push((Source::Environment, above));
        layers.push((Source::Flag, asked.settings.clone().into()));
        let settings = Settings::resolve(OPEN, &layers);
        warnings.extend(settings.problems().iter().map(ToString::to_string));
        let models_json = text(&path.join("models.json"), &mut warnings);
        Self {
            env_file: settings.text(key::ENV_FILE).map(str::to_owned),
            path,
            settings,
            trust,
            models_json,
            old_credentials,
            warnings,
        }
    }

    /// Where sessions of `workspace` are kept, and the folder above that holds those of
    /// all working folders, when there is one.
    pub(crate) fn sessions(
        &self,
        surroundings: &Surroundings,
        workspace: &Path,
    ) -> (PathBuf, Option<PathBuf>) {
        if let Some(own) = self.settings.text(key::SESSION_DIR) {
            return (surroundings.path(own), None);
        }
        let root = self.path.join("sessions");
        let folder = fluzo_session::jsonl::locate::folder_name(&workspace.to_string_lossy());
        (root.join(folder), Some(root))
    }
}

/// The decision on the project, told in one line when nobody was asked.
fn trust(
    surroundings: &Surroundings,
    workspace: &Path,
    agent_folder: &Path,
    asked: &Asked,
    default: Option<&str>,
    warnings: &mut Vec<String>,
) -> ProjectTrust {
    let brought = Brought::find(workspace, surroundings.home.as_deref());
    let saved = match asked.approve {
        Some(_) => SavedAnswer::None,
        None => TrustFile::new(agent_folder)
            .answer(&brought)
            .unwrap_or_else(|error| {
                warnings.push(format!(
                    "no project is trusted by its saved answer: {error}"
                ));
                SavedAnswer::None
            }),
    };
    let trust = ProjectTrust::decide(TrustInputs {
        brings_something: brought.is_something(),
        flag: asked.approve,
        saved,
        default,
    });
    let places = brought.places.iter();
    let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
    warnings.extend(trust.notice(&places));
    trust
}

/// A file of settings in today's form.
fn layer(path: &Path, warnings: &mut Vec<String>) -> Option<Value> {
    let text = text(path, warnings)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        // A file that was only made is one without settings.
        Err(_) if text.trim().is_empty() => return None,
        Err(error) => {
            warnings.push(format!(
                "`{}` is not valid JSON and was passed over: {error}",
                path.display()
            ));
            return None;
        }
    };
    let modern = Modern::read(&value);
    warnings.extend(modern.warning(&path.display().to_string()));
    Some(modern.layer)
}

fn text(path: &Path, warnings: &mut Vec<String>) -> Option<String> {
    // A pipe that nobody writes to would be waited for without end.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let path = path.display();
        warnings.push(format!("`{path}` was passed over: it is no regular file"));
        return None;
    }
    match kept_file::read(path) {
        Ok(read) => read.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => {
            warnings.push(format!("`{}` cannot be read: {error}", path.display()));
            None
        }
    }
}
