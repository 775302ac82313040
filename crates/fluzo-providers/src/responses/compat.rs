//! What counts for one request: the quirks of the server's family and of Azure's form, changed
//! by the model's `compat` settings and by form switches.

use fluzo_llm::ModelRequest;

use super::AZURE_API;
use crate::quirks::{ResponsesQuirks, set_flag};

/// The quirks of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compat {
    /// The session goes in the header `session_id`.
    pub sends_session_id_header: bool,
    /// The server can be asked to keep the beginning of a request for a day.
    pub supports_long_cache_retention: bool,
    /// The system prompt of a thinking model has the role `developer`.
    pub supports_developer_role: bool,
    /// The server can be told how much to think.
    pub supports_reasoning_effort: bool,
    /// The server can be told not to think.
    pub supports_no_effort: bool,
    /// The server can be told to store nothing.
    pub supports_store: bool,
    /// Tools say whether their schema is strict.
    pub supports_strict_mode: bool,
}

impl Compat {
    /// What counts for `request`. Settings that are unknown or of another type change nothing.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let set = |key, usual| set_flag(request, key).unwrap_or(usual);
        let azure = request.model.api == AZURE_API;
        Self {
            sends_session_id_header: set("sendSessionIdHeader", true),
            supports_long_cache_retention: set("supportsLongCacheRetention", !azure),
            supports_developer_role: set("supportsDeveloperRole", true),
            supports_reasoning_effort: set("supportsReasoningEffort", true),
            supports_no_effort: ResponsesQuirks::of(request).no_effort,
            supports_store: set("supportsStore", true),
            supports_strict_mode: set("supportsStrictMode", true),
        }
    }
}
