//! What sessions need of this program: settings that are kept, the user's shell, exports.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fluzo_credentials::KeyRing;
use fluzo_host::{PreparedImages, RequestPreview, SettingsStore, UserImages, UserShell};
use fluzo_llm::message::BashExecutionMessage;
use fluzo_llm::{
    AbortSignal, BoxFuture, CacheRetention, ImageContent, ModelRequest, ThinkingLevel,
};
use fluzo_providers::PreviewError;
use fluzo_runtime::forms::FormMemory;
use fluzo_stdx::error::with_causes;
use fluzo_tools::images::{self, NotFitted};
use fluzo_tools::{ToolEnv, user_shell};
use serde_json::Value;

use crate::settings_file::SettingsFile;
use crate::wiring::unspoken;

/// Keeps settings in the user's file.
pub(crate) struct UserSettings(SettingsFile);

impl UserSettings {
    /// The settings of the agent folder.
    pub(crate) fn new(agent_folder: &Path) -> Self {
        Self(SettingsFile::of_user(agent_folder))
    }
}

impl SettingsStore for UserSettings {
    fn set(&self, values: &[(&str, Value)]) -> Result<(), String> {
        self.0.set(values).map_err(|error| with_causes(&error))
    }
}

/// Runs the user's commands in the shell of the tools.
pub(crate) struct ToolShell(pub(crate) Arc<ToolEnv>);

impl UserShell for ToolShell {
    fn run<'a>(
        &'a self,
        command: &'a str,
        abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<BashExecutionMessage, String>> {
        Box::pin(async move {
            let run = user_shell::run(&self.0, command, abort).await;
            run.map_err(|error| error.to_string())
        })
    }
}

/// Brings the user's images to what providers take, as the `read` tool does.
pub(crate) struct FittedImages {
    /// Whether they are scaled.
    pub(crate) resize: bool,
}

impl UserImages for FittedImages {
    fn prepare(&self, images: Vec<ImageContent>) -> BoxFuture<'_, Result<PreparedImages, String>> {
        let resize = self.resize;
        Box::pin(async move {
            let fitted = fluzo_exec::blocking(move || fitted(images, resize)).await;
            fitted.map_err(|error| error.to_string())?
        })
    }
}

fn fitted(given: Vec<ImageContent>, resize: bool) -> Result<PreparedImages, String> {
    let mut prepared = PreparedImages::default();
    for (at, image) in given.into_iter().enumerate() {
        let place = at + 1;
        let bytes = STANDARD
            .decode(image.data.trim())
            .map_err(|_| format!("image {place} is not in base64"))?;
        match images::fit(bytes, resize) {
            Ok(fitted) => {
                prepared.images.push(ImageContent {
                    extra: image.extra,
                    ..fitted.image
                });
                prepared.notes.extend(fitted.note);
            }
            Err(NotFitted::Size) => prepared.notes.push(images::OMITTED.to_owned()),
            Err(refused) => return Err(format!("image {place}: {refused}")),
        }
    }
    Ok(prepared)
}

/// Shows requests as the providers write them.
pub(crate) struct WirePreview {
    pub(crate) forms: Arc<FormMemory>,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) cache: CacheRetention,
    pub(crate) thinking_budgets: BTreeMap<ThinkingLevel, u64>,
    /// What stands in the place of images, when none is sent.
    pub(crate) text_for_images: Option<&'static str>,
}

impl RequestPreview for WirePreview {
    fn body(&self, mut request: ModelRequest) -> Result<Value, String> {
        let model = Arc::clone(&request.model);
        let options = &mut request.options;
        options.forms = self.forms.switches(&model);
        options.cache = self.cache;
        options.thinking_budgets = self.thinking_budgets.clone();
        if let Some(text) = self.text_for_images {
            request.transcript = request.transcript.with_text_for_images(text);
        }
        let secrets = self.keys.known_secrets();
        fluzo_providers::preview(&model.api, &request, &secrets).map_err(|error| match error {
            PreviewError::Dialect(unknown) => unspoken(&unknown),
            PreviewError::Json(_) => with_causes(&error),
        })
    }
}
