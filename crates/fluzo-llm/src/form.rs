//! Forms of a request: what some servers demand and others refuse.

use serde::{Serialize, Serializer};

/// A change of one form of a request to another that says the same.
///
/// Each is the value of one quirk key, the name under which the form can be chosen in a model's
/// `compat` settings. Of switches with the same key at most one is in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FormSwitch {
    /// An answer with calls and no text has the content `null`.
    NullContent,
    /// An answer with calls and no text has an empty text as content.
    EmptyContent,
    /// An answer with calls and no text has no content at all.
    NoContent,
    /// A user message without images is one text, not a list of parts.
    PlainUserContent,
    /// The cap on output is called `max_tokens`.
    MaxTokens,
    /// The cap on output is called `max_completion_tokens`.
    MaxCompletionTokens,
    /// The system prompt has the role `system` for every model.
    SystemRole,
    /// Usage inside a stream is not asked for.
    NoStreamUsage,
    /// The field that forbids the server to store the response is left out.
    NoStore,
    /// Tools do not say whether their schema is strict.
    NoStrict,
    /// The effort of thinking is left to the server.
    NoReasoningEffort,
    /// Earlier thinking goes back with every answer that calls tools, if only as an empty text.
    ReasoningBack,
    /// Earlier thinking does not go back.
    NoReasoningBack,
    /// Ids of calls are nine letters and digits.
    ShortIds,
    /// Tool results carry the name of their tool.
    ToolResultName,
    /// An answer stands between tool results and a user message.
    AnswerAfterResults,
    /// The server is not asked to keep the beginning of the request for long.
    NoLongCache,
}

impl FormSwitch {
    /// All switches.
    pub const ALL: [Self; 17] = [
        Self::NullContent,
        Self::EmptyContent,
        Self::NoContent,
        Self::PlainUserContent,
        Self::MaxTokens,
        Self::MaxCompletionTokens,
        Self::SystemRole,
        Self::NoStreamUsage,
        Self::NoStore,
        Self::NoStrict,
        Self::NoReasoningEffort,
        Self::ReasoningBack,
        Self::NoReasoningBack,
        Self::ShortIds,
        Self::ToolResultName,
        Self::AnswerAfterResults,
        Self::NoLongCache,
    ];

    /// The quirk key that chooses the form for good.
    pub fn key(self) -> &'static str {
        match self {
            Self::NullContent | Self::EmptyContent | Self::NoContent => "callOnlyContent",
            Self::PlainUserContent => "userContent",
            Self::MaxTokens | Self::MaxCompletionTokens => "maxTokensField",
            Self::SystemRole => "supportsDeveloperRole",
            Self::NoStreamUsage => "supportsUsageInStreaming",
            Self::NoStore => "supportsStore",
            Self::NoStrict => "supportsStrictMode",
            Self::NoReasoningEffort => "supportsReasoningEffort",
            Self::ReasoningBack => "requiresReasoningContentOnAssistantMessages",
            Self::NoReasoningBack => "replaysReasoning",
            Self::ShortIds => "toolCallIds",
            Self::ToolResultName => "requiresToolResultName",
            Self::AnswerAfterResults => "requiresAssistantAfterToolResult",
            Self::NoLongCache => "supportsLongCacheRetention",
        }
    }

    /// The value of the key, as JSON text.
    pub fn value(self) -> &'static str {
        match self {
            Self::NullContent => r#""null""#,
            Self::EmptyContent => r#""empty""#,
            Self::NoContent => r#""none""#,
            Self::PlainUserContent => r#""text""#,
            Self::MaxTokens => r#""max_tokens""#,
            Self::MaxCompletionTokens => r#""max_completion_tokens""#,
            Self::ShortIds => r#""short""#,
            Self::ReasoningBack | Self::ToolResultName | Self::AnswerAfterResults => "true",
            Self::SystemRole
            | Self::NoStreamUsage
            | Self::NoStore
            | Self::NoStrict
            | Self::NoReasoningEffort
            | Self::NoReasoningBack
            | Self::NoLongCache => "false",
        }
    }

    /// The switch as a setting of `compat`, such as `"maxTokensField": "max_tokens"`.
    pub fn setting(self) -> String {
        format!("\"{}\": {}", self.key(), self.value())
    }
}

/// Written as the setting that has the same effect.
impl Serialize for FormSwitch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.setting())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_switch_is_another_setting_in_json() {
        let settings: HashSet<String> = FormSwitch::ALL.map(FormSwitch::setting).into();
        assert_eq!(settings.len(), FormSwitch::ALL.len());
        for setting in settings {
            let json = format!("{{{setting}}}");
            assert!(
                serde_json::from_str::<serde_json::Value>(&json).is_ok(),
                "{json}"
            );
        }
    }
}
