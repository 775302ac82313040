//! What sessions need of this program: settings that are kept, the user's shell, exports.

use std::path::{Path, PathBuf};

use fluzo_host::{Export, Exporter, RequestPreview, SettingsStore, Shared, UserShell};
use fluzo_llm::message::BashExecutionMessage;
use fluzo_llm::{AbortSignal, BoxFuture, ModelRequest};
use fluzo_stdx::error::with_causes;
use serde_json::Value;

use crate::settings_file::SettingsFile;

/// Keeps settings in the user's file.
pub(crate) struct UserSettings(SettingsFile);

impl UserSettings {
    /// The settings of the agent folder.
    pub(crate) fn new(agent_folder: &Path) -> Self {
        Self(SettingsFile::of_user(agent_folder))
    }
}

impl SettingsStore for UserSettings {
    fn set(&self, key: &str, value: Value) -> Result<(), String> {
        self.0.set(key, &value).map_err(|error| with_causes(&error))
    }
}

/// What this version cannot do yet; says so.
pub(crate) struct Unavailable;

fn unavailable<T>(what: &str) -> Result<T, String> {
    Err(format!("{what} is not available in this version"))
}

impl UserShell for Unavailable {
    fn run<'a>(
        &'a self,
        _command: &'a str,
        _abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<BashExecutionMessage, String>> {
        Box::pin(std::future::ready(unavailable("a command of the user's")))
    }
}

impl Exporter for Unavailable {
    fn html(&self, _export: &Export<'_>, _path: Option<&str>) -> Result<PathBuf, String> {
        unavailable("exporting")
    }

    fn jsonl(&self, _export: &Export<'_>, _path: Option<&str>) -> Result<PathBuf, String> {
        unavailable("exporting")
    }

    fn share<'a>(
        &'a self,
        _export: &'a Export<'a>,
        _abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<Shared, String>> {
        Box::pin(std::future::ready(unavailable("sharing")))
    }
}

impl RequestPreview for Unavailable {
    fn body(&self, _request: ModelRequest) -> Result<Value, String> {
        unavailable("showing the next request")
    }
}
