//! What a server of this dialect does differently: detected by provider and base URL, then
//! overridden by the model's `compat` settings, then by the forms that the server is known to
//! demand.

use fluzo_llm::{FormSwitch, ModelRequest};
use serde_json::Value;

use super::AZURE_API;
use crate::provider::base_url;

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
    /// The quirks of the server that `request` goes to. Settings that are unknown or of
    /// another type change nothing.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let mut compat = Self::detect(request);
        for (key, flag) in compat.settings() {
            let set = request.model.compat.get(key).and_then(Value::as_bool);
            *flag = set.unwrap_or(*flag);
        }
        for form in &request.options.forms {
            compat.switch(*form);
        }
        compat
    }

    fn detect(request: &ModelRequest) -> Self {
        let model = &request.model;
        let url = base_url(request).to_lowercase();
        let copilot = model.provider == "github-copilot" || url.contains("githubcopilot.com");
        Self {
            sends_session_id_header: true,
            supports_long_cache_retention: model.api != AZURE_API,
            supports_developer_role: true,
            supports_reasoning_effort: true,
            supports_no_effort: !copilot,
            supports_store: true,
            supports_strict_mode: true,
        }
    }

    fn settings(&mut self) -> [(&'static str, &mut bool); 6] {
        [
            ("sendSessionIdHeader", &mut self.sends_session_id_header),
            (
                "supportsLongCacheRetention",
                &mut self.supports_long_cache_retention,
            ),
            ("supportsDeveloperRole", &mut self.supports_developer_role),
            (
                "supportsReasoningEffort",
                &mut self.supports_reasoning_effort,
            ),
            ("supportsStore", &mut self.supports_store),
            ("supportsStrictMode", &mut self.supports_strict_mode),
        ]
    }

    fn switch(&mut self, form: FormSwitch) {
        match form {
            FormSwitch::SystemRole => self.supports_developer_role = false,
            FormSwitch::NoStore => self.supports_store = false,
            FormSwitch::NoStrict => self.supports_strict_mode = false,
            FormSwitch::NoReasoningEffort => self.supports_reasoning_effort = false,
            FormSwitch::NoLongCache => self.supports_long_cache_retention = false,
            _ => {}
        }
    }
}
