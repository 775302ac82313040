//! What a session needs of the program around it.

use std::path::PathBuf;

use fluzo_llm::message::BashExecutionMessage;
use fluzo_llm::{AbortSignal, BoxFuture, ImageContent};
use serde_json::Value;

/// Keeps settings that the user changes.
pub trait SettingsStore: Send + Sync {
    /// Stores the values of settings in the user's own file, all of them or none.
    ///
    /// # Errors
    ///
    /// The text for the user; the file is then as before.
    fn set(&self, values: &[(&str, Value)]) -> Result<(), String>;
}

/// Runs commands of the user's.
pub trait UserShell: Send + Sync {
    /// Runs `command` to its end. When `abort` fires, its processes are ended and what it
    /// wrote so far is returned; dropping the future ends them as well.
    ///
    /// # Errors
    ///
    /// The text for the user when it cannot be started.
    fn run<'a>(
        &'a self,
        command: &'a str,
        abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<BashExecutionMessage, String>>;
}

/// Makes images ready that the user hands in.
pub trait UserImages: Send + Sync {
    /// The images as they go into the session, with what the model is told about them.
    ///
    /// # Errors
    ///
    /// The text for the user when something among them is no image that can be sent.
    fn prepare(&self, images: Vec<ImageContent>) -> BoxFuture<'_, Result<PreparedImages, String>>;
}

/// Images that are ready to be sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreparedImages {
    /// The images.
    pub images: Vec<ImageContent>,
    /// Lines for the model: how images were scaled, and which are missing.
    pub notes: Vec<String>,
}

/// Leaves images as they are.
pub struct ImagesAsGiven;

impl UserImages for ImagesAsGiven {
    fn prepare(&self, images: Vec<ImageContent>) -> BoxFuture<'_, Result<PreparedImages, String>> {
        let prepared = PreparedImages {
            images,
            notes: Vec::new(),
        };
        Box::pin(std::future::ready(Ok(prepared)))
    }
}

/// Writes sessions for others.
pub trait Exporter: Send + Sync {
    /// Writes `session` as a page to `path`, or to a file of its own in the working folder.
    /// Returns where it is.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn html(&self, export: &Export<'_>, path: Option<&str>) -> Result<PathBuf, String>;

    /// Writes the current branch of `session` as a session file.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn jsonl(&self, export: &Export<'_>, path: Option<&str>) -> Result<PathBuf, String>;

    /// Publishes `session` as a secret gist. Returns its address for the user and that of
    /// the gist. When `abort` fires nothing more is sent.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn share<'a>(
        &'a self,
        export: &'a Export<'a>,
        abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<Shared, String>>;
}

/// What is exported.
pub struct Export<'a> {
    /// The session.
    pub session: &'a fluzo_session::Session,
    /// The system prompt.
    pub system_prompt: &'a str,
    /// The tools on offer.
    pub tools: &'a fluzo_agent::ToolSet,
}

/// Where a shared session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Address of the page that shows it.
    pub url: String,
    /// Address of the gist.
    pub gist: String,
}
