//! What families do differently where they speak Anthropic Messages or Responses. Families and
//! their addresses are those of the table of Chat Completions; one without a row here does what
//! is usual.

use fluzo_llm::ModelRequest;

use super::family;
use crate::provider::base_url;

/// What a server of Anthropic Messages takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessagesQuirks {
    /// Tools may ask for their arguments piece by piece.
    pub eager_tool_input: bool,
    /// Cache marks may ask for an hour.
    pub long_cache: bool,
    /// The session's id is sent, so that requests reach the machine with the cache.
    pub session_affinity: bool,
    /// Tools may carry a cache mark.
    pub cache_on_tools: bool,
    /// Thinking without a signature is taken back as thinking, and asked for: a step with
    /// calls and without thinking is refused while the model thinks.
    pub empty_signature: bool,
}

/// What a server of Responses takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponsesQuirks {
    /// The server can be told not to think.
    pub no_effort: bool,
}

/// What Anthropic's own server takes.
pub(crate) const USUAL_MESSAGES: MessagesQuirks = MessagesQuirks {
    eager_tool_input: true,
    long_cache: true,
    session_affinity: false,
    cache_on_tools: true,
    empty_signature: false,
};

/// What OpenAI's own server of Responses takes.
pub(crate) const USUAL_RESPONSES: ResponsesQuirks = ResponsesQuirks { no_effort: true };

const UNSIGNED: MessagesQuirks = MessagesQuirks {
    empty_signature: true,
    ..USUAL_MESSAGES
};

/// Families that differ where they speak Anthropic Messages.
pub(crate) const MESSAGES: &[(&str, MessagesQuirks)] = &[
    (
        "Fireworks",
        MessagesQuirks {
            eager_tool_input: false,
            long_cache: false,
            session_affinity: true,
            cache_on_tools: false,
            ..USUAL_MESSAGES
        },
    ),
    (
        "GitHub Copilot",
        MessagesQuirks {
            eager_tool_input: false,
            ..USUAL_MESSAGES
        },
    ),
    (
        "Cloudflare AI Gateway",
        MessagesQuirks {
            session_affinity: true,
            ..USUAL_MESSAGES
        },
    ),
    ("Kimi For Coding", UNSIGNED),
    ("DeepSeek", UNSIGNED),
    ("Xiaomi MiMo", UNSIGNED),
];

/// Families that differ where they speak Responses.
pub(crate) const RESPONSES: &[(&str, ResponsesQuirks)] =
    &[("GitHub Copilot", ResponsesQuirks { no_effort: false })];

impl MessagesQuirks {
    /// Those of the server that `request` goes to.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        row(MESSAGES, request).unwrap_or(USUAL_MESSAGES)
    }

    /// Each with the setting of `compat` that changes it.
    pub(crate) fn flags(&mut self) -> [(&'static str, &mut bool); 5] {
        [
            (
                "supportsEagerToolInputStreaming",
                &mut self.eager_tool_input,
            ),
            ("supportsLongCacheRetention", &mut self.long_cache),
            ("sendSessionAffinityHeaders", &mut self.session_affinity),
            ("supportsCacheControlOnTools", &mut self.cache_on_tools),
            ("allowEmptySignature", &mut self.empty_signature),
        ]
    }
}

impl ResponsesQuirks {
    /// Those of the server that `request` goes to.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        row(RESPONSES, request).unwrap_or(USUAL_RESPONSES)
    }
}

/// What the settings say of `key`: a form switch in effect, else the model's `compat`. Settings
/// of another type say nothing.
pub(crate) fn set_flag(request: &ModelRequest, key: &str) -> Option<bool> {
    let mut forms = request.options.forms.iter().rev();
    let switched = forms.find(|form| form.key() == key);
    match switched.and_then(|form| form.value().parse().ok()) {
        Some(value) => Some(value),
        None => request.model.compat.get(key)?.as_bool(),
    }
}

fn row<T: Copy>(rows: &[(&str, T)], request: &ModelRequest) -> Option<T> {
    let family = family(&request.model.provider, base_url(request))?;
    let row = rows.iter().find(|(name, _)| *name == family.name)?;
    Some(row.1)
}

#[cfg(test)]
mod tests {
    use super::super::FAMILIES;
    use super::*;

    #[test]
    fn every_row_is_of_a_family_and_differs() {
        let known = |name: &str| FAMILIES.iter().any(|family| family.name == name);
        for (name, quirks) in MESSAGES {
            assert!(known(name) && *quirks != USUAL_MESSAGES, "{name}");
        }
        for (name, quirks) in RESPONSES {
            assert!(known(name) && *quirks != USUAL_RESPONSES, "{name}");
        }
    }
}
