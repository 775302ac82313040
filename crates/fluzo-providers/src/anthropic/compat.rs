//! What counts for one request: the quirks of the server's family and what the model's name
//! tells, changed by the model's `compat` settings and by form switches.

use fluzo_llm::{CacheRetention, ModelRequest};

use super::thinking::is_adaptive;
use crate::quirks::{MessagesQuirks, set_flag};

/// Asks for argument text as it comes, of servers that do not take it as a field of the tool.
const FINE_GRAINED: &str = "fine-grained-tool-streaming-2025-05-14";

/// Lets a model that has a budget for thinking think between its calls.
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// What counts for requests to one model. `supportsTemperature` has no effect, since no
/// temperature is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compat {
    pub quirks: MessagesQuirks,
    /// The model decides itself how much it thinks.
    pub adaptive_thinking: bool,
}

impl Compat {
    /// What counts for `request`. Settings that are unknown or of another type change nothing.
    pub(super) fn of(request: &ModelRequest) -> Self {
        let mut quirks = MessagesQuirks::of(request);
        for (key, flag) in quirks.flags() {
            *flag = set_flag(request, key).unwrap_or(*flag);
        }
        let adaptive = set_flag(request, "forceAdaptiveThinking");
        Self {
            quirks,
            adaptive_thinking: adaptive.unwrap_or_else(|| is_adaptive(&request.model.id)),
        }
    }

    /// The betas that `request` asks for, the same for all requests of a session.
    pub(super) fn betas(&self, request: &ModelRequest) -> Vec<&'static str> {
        let fine_grained = !self.quirks.eager_tool_input && !request.tools.is_empty();
        let interleaved = request.model.reasoning && !self.adaptive_thinking;
        let rows = [(fine_grained, FINE_GRAINED), (interleaved, INTERLEAVED)];
        let asked = rows.into_iter().filter(|(asked, _)| *asked);
        asked.map(|(_, name)| name).collect()
    }

    /// Whether the session's id goes into a header.
    pub(super) fn sends_session_affinity(&self, request: &ModelRequest) -> bool {
        self.quirks.session_affinity && request.options.cache != CacheRetention::None
    }
}
