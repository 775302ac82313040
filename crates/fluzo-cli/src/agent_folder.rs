//! The agent folder: settings, models and sessions of the open profile.

use std::path::{Path, PathBuf};

use fluzo_settings::{OPEN, Settings, Source, key};
use serde_json::Value;

use crate::surroundings::Surroundings;

/// Files of the open profile, read and nothing written.
pub(crate) struct AgentFolder {
    pub(crate) path: PathBuf,
    pub(crate) settings: Settings,
    /// Whether what the project brings may act.
    pub(crate) trusted: bool,
    pub(crate) models_json: Option<String>,
    /// The file of variables that the user's own settings name.
    pub(crate) env_file: Option<String>,
    /// What could not be read, for the user.
    pub(crate) warnings: Vec<String>,
}

impl AgentFolder {
    /// [`AgentFolder::read_for`] without an approval.
    pub(crate) fn read(surroundings: &Surroundings, workspace: &Path) -> Self {
        Self::read_for(surroundings, workspace, false)
    }

    /// Reads the folder that `PI_CODING_AGENT_DIR` names, else `~/.pi/agent`.
    ///
    /// The project's settings may name a shell, so they count only when the project is
    /// trusted: by `approved`, or by the user's own settings.
    pub(crate) fn read_for(surroundings: &Surroundings, workspace: &Path, approved: bool) -> Self {
        let path = match surroundings.variable("PI_CODING_AGENT_DIR") {
            Some(text) => surroundings.path(text),
            None => surroundings.path("~/.pi/agent"),
        };
        let mut warnings = Vec::new();
        let mut layers = Vec::new();
        let mut read = |source, file: &Path| {
            layer(file)
                .unwrap_or_else(|problem| {
                    warnings.push(problem);
                    None
                })
                .map(|value| (source, value))
        };
        layers.extend(read(Source::Global, &path.join("settings.json")));
        let own = Settings::resolve(OPEN, &layers);
        let project = workspace.join(".pi").join("settings.json");
        let trusted = approved || own.text(key::PROJECT_TRUST) == Some("always");
        if trusted {
            layers.extend(read(Source::Project, &project));
        } else if project.exists() {
            warnings.push(format!(
                "`{}` was passed over: this project is not trusted (--approve trusts it for one run)",
                project.display()
            ));
        }
        let settings = Settings::resolve(OPEN, &layers);
        warnings.extend(settings.problems().iter().map(ToString::to_string));
        let models = path.join("models.json");
        let models_json = text(&models).unwrap_or_else(|problem| {
            warnings.push(problem);
            None
        });
        Self {
            path,
            env_file: own.text(key::ENV_FILE).map(str::to_owned),
            settings,
            trusted,
            models_json,
            warnings,
        }
    }

    /// Where sessions of `workspace` are kept, and the folder above that holds those of
    /// all working folders, when there is one.
    pub(crate) fn sessions(
        &self,
        surroundings: &Surroundings,
        flag: Option<&str>,
        workspace: &Path,
    ) -> (PathBuf, Option<PathBuf>) {
        let variable = surroundings.variable("PI_CODING_AGENT_SESSION_DIR");
        if let Some(own) = flag.or(variable).or(self.settings.text(key::SESSION_DIR)) {
            return (surroundings.path(own), None);
        }
        let root = self.path.join("sessions");
        let folder = fluzo_session::jsonl::locate::folder_name(&workspace.to_string_lossy());
        (root.join(folder), Some(root))
    }
}

fn layer(path: &Path) -> Result<Option<Value>, String> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    match serde_json::from_str(&text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(format!(
            "`{}` is not valid JSON and was passed over: {error}",
            path.display()
        )),
    }
}

fn text(path: &Path) -> Result<Option<String>, String> {
    // A pipe that nobody writes to would be waited for without end.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let path = path.display();
        return Err(format!("`{path}` was passed over: it is no regular file"));
    }
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("`{}` cannot be read: {error}", path.display())),
    }
}
