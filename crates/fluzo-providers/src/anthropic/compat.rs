//! What a server of this dialect does differently: by provider or base URL, then by the
//! model's `compat` settings.

use fluzo_llm::{CacheRetention, Model, ModelRequest};
use serde_json::Value;

use super::thinking::is_adaptive;

/// Asks for argument text as it comes, of servers that do not take it as a field of the tool.
const FINE_GRAINED: &str = "fine-grained-tool-streaming-2025-05-14";

/// Lets a model that has a budget for thinking think between its calls.
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// The quirks of one server. `supportsTemperature` has no effect, since no temperature is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compat {
    /// Tools may ask for their arguments piece by piece.
    pub eager_tool_input: bool,
    /// Cache marks may ask for an hour.
    pub long_cache: bool,
    /// The session's id is sent, so that requests reach the machine with the cache.
    pub session_affinity: bool,
    /// Tools may carry a cache mark.
    pub cache_on_tools: bool,
    /// The model decides itself how much it thinks.
    pub adaptive_thinking: bool,
    /// Thinking without a signature is taken back as thinking, and asked for: a step with
    /// calls and without thinking is refused while the model thinks.
    pub empty_signature: bool,
}

impl Compat {
    /// The quirks of the server of `model`. Settings that are unknown or of another type
    /// change nothing.
    pub(super) fn of(model: &Model) -> Self {
        let mut compat = Self::detect(model);
        let flags: [(&str, &mut bool); 6] = [
            (
                "supportsEagerToolInputStreaming",
                &mut compat.eager_tool_input,
            ),
            ("supportsLongCacheRetention", &mut compat.long_cache),
            ("sendSessionAffinityHeaders", &mut compat.session_affinity),
            ("supportsCacheControlOnTools", &mut compat.cache_on_tools),
            ("forceAdaptiveThinking", &mut compat.adaptive_thinking),
            ("allowEmptySignature", &mut compat.empty_signature),
        ];
        for (name, flag) in flags {
            if let Some(value) = model.compat.get(name).and_then(Value::as_bool) {
                *flag = value;
            }
        }
        compat
    }

    fn detect(model: &Model) -> Self {
        let url = model.base_url.to_lowercase();
        let is = |provider: &str, host: &str| model.provider == provider || url.contains(host);
        let fireworks = is("fireworks", "api.fireworks.ai");
        let copilot = is("github-copilot", "githubcopilot.com");
        let gateway = is("cloudflare-ai-gateway", "gateway.ai.cloudflare.com");
        let kimi = is("kimi-coding", "api.kimi.com");
        let deepseek = is("deepseek", "api.deepseek.com");
        let xiaomi = model.provider.starts_with("xiaomi") || url.contains("xiaomimimo.com");
        Self {
            eager_tool_input: !fireworks && !copilot,
            long_cache: !fireworks,
            session_affinity: fireworks || gateway,
            cache_on_tools: !fireworks,
            adaptive_thinking: is_adaptive(&model.id),
            empty_signature: kimi || deepseek || xiaomi,
        }
    }

    /// The betas that `request` asks for, the same for all requests of a session.
    pub(super) fn betas(&self, request: &ModelRequest) -> Vec<&'static str> {
        let fine_grained = !self.eager_tool_input && !request.tools.is_empty();
        let interleaved = request.model.reasoning && !self.adaptive_thinking;
        let rows = [(fine_grained, FINE_GRAINED), (interleaved, INTERLEAVED)];
        let asked = rows.into_iter().filter(|(asked, _)| *asked);
        asked.map(|(_, name)| name).collect()
    }

    /// Whether the session's id goes into a header.
    pub(super) fn sends_session_affinity(&self, request: &ModelRequest) -> bool {
        self.session_affinity && request.options.cache != CacheRetention::None
    }
}
