//! What servers do differently, as data: one row for each family of servers with its habits in
//! Chat Completions, a row more where it differs in another dialect, the finish reasons outside
//! the API, and which refusals speak against which form.
//!
//! `models.json` settings (`compat`) win over the table, and switches that a refusal led to win
//! over both. Facts are from the servers' public references and from the error texts that they
//! send; `docs/quirks.md` shows the table.

mod families;
mod finish;
mod other_dialects;
mod page;
mod refusals;

pub(crate) use families::FAMILIES;
pub(crate) use finish::{FINISH_REASONS, FinishMeaning};
pub(crate) use other_dialects::{MessagesQuirks, ResponsesQuirks, set_flag};
pub use page::page;
pub(crate) use refusals::candidates;

/// A family of servers that behave alike.
#[derive(Debug)]
pub(crate) struct Family {
    /// Its name.
    pub name: &'static str,
    /// Ids of providers that belong to it.
    pub providers: &'static [&'static str],
    /// Parts of base URLs, in lower case, that belong to it.
    pub urls: &'static [&'static str],
    /// What it does differently.
    pub quirks: Quirks,
    /// What else is known and needs no switch: fields it sends, habits of ids and of indexes.
    pub habits: &'static str,
}

/// What a server demands, or takes badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// The content of an answer with calls and no text.
    pub call_only_content: CallOnlyContent,
    /// A user message without images is one text.
    pub plain_user_content: bool,
    /// Whether earlier thinking goes back.
    pub reasoning: Replay,
    /// Earlier thinking goes back as text of the answer.
    pub thinking_as_text: bool,
    /// Form of the ids of calls.
    pub ids: IdForm,
    /// The field that caps the output.
    pub max_tokens_field: MaxTokensField,
    /// Whether the system prompt of a thinking model has the role `developer`.
    pub developer_role: ForModels,
    /// Usage inside a stream is asked for.
    pub stream_usage: bool,
    /// The server is told not to store the response.
    pub store: bool,
    /// Tools say that their schema is not strict.
    pub strict: bool,
    /// The effort of thinking can be chosen.
    pub reasoning_effort: bool,
    /// How thinking is asked for.
    pub thinking_format: ThinkingFormat,
    /// The beginning of the request can be kept for a day.
    pub long_cache: bool,
    /// Models whose requests are marked for caching as Anthropic does it.
    pub cache_marks: ForModels,
    /// Headers keep the requests of a session on one machine.
    pub session_affinity: bool,
    /// Tool results carry the name of their tool.
    pub tool_result_name: bool,
    /// An answer stands between tool results and a user message.
    pub answer_after_results: bool,
    /// Arguments of calls are streamed only when asked for.
    pub tool_stream: bool,
}

impl Quirks {
    /// Those that are there or not, each with the setting of `compat` that changes it.
    pub(crate) fn flags(&mut self) -> [(&'static str, &mut bool); 10] {
        [
            ("requiresThinkingAsText", &mut self.thinking_as_text),
            ("supportsUsageInStreaming", &mut self.stream_usage),
            ("supportsStore", &mut self.store),
            ("supportsStrictMode", &mut self.strict),
            ("supportsReasoningEffort", &mut self.reasoning_effort),
            ("supportsLongCacheRetention", &mut self.long_cache),
            ("sendSessionAffinityHeaders", &mut self.session_affinity),
            ("requiresToolResultName", &mut self.tool_result_name),
            (
                "requiresAssistantAfterToolResult",
                &mut self.answer_after_results,
            ),
            ("zaiToolStream", &mut self.tool_stream),
        ]
    }
}

/// The content of an answer with calls and no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOnlyContent {
    Null,
    Empty,
    LeftOut,
}

/// Whether earlier thinking goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Under the field it came in.
    Kept,
    /// The same, and as an empty text where there was none.
    Required,
    /// Not at all.
    Never,
}

/// Form of the ids of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// As the server gave them; those of other dialects are cut to 40 characters.
    Any,
    /// At most 40 characters.
    AtMost40,
    /// Nine letters and digits.
    Short,
}

/// Which field caps the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxTokensField {
    MaxCompletionTokens,
    MaxTokens,
}

/// How thinking is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ThinkingFormat {
    Openai,
    Openrouter,
    Deepseek,
    Zai,
    Qwen,
    QwenChatTemplate,
    Together,
    StringThinking,
    AntLing,
}

/// Models that something is true of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForModels {
    All,
    None,
    /// Those whose id begins with one of these.
    Named(&'static [&'static str]),
}

impl ForModels {
    /// Whether it is true of the model `id`.
    pub(crate) fn holds(self, id: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Named(beginnings) => beginnings.iter().any(|begin| id.starts_with(begin)),
        }
    }
}

/// What OpenAI's own server takes, which servers that are not known are taken for.
pub(crate) const USUAL: Quirks = Quirks {
    call_only_content: CallOnlyContent::Null,
    plain_user_content: false,
    reasoning: Replay::Kept,
    thinking_as_text: false,
    ids: IdForm::Any,
    max_tokens_field: MaxTokensField::MaxCompletionTokens,
    developer_role: ForModels::All,
    stream_usage: true,
    store: true,
    strict: true,
    reasoning_effort: true,
    thinking_format: ThinkingFormat::Openai,
    long_cache: true,
    cache_marks: ForModels::None,
    session_affinity: false,
    tool_result_name: false,
    answer_after_results: false,
    tool_stream: false,
};

/// The family of the server at `base_url`, else of `provider`.
pub(crate) fn family(provider: &str, base_url: &str) -> Option<&'static Family> {
    let base_url = base_url.to_lowercase();
    let by_url = |family: &&Family| family.urls.iter().any(|url| stands_in(&base_url, url));
    let by_provider = |family: &&Family| family.providers.contains(&provider);
    let families = || FAMILIES.iter();
    families()
        .find(by_url)
        .or_else(|| families().find(by_provider))
}

/// Whether `part` stands in `base_url`; a port at its end is the whole port.
fn stands_in(base_url: &str, part: &str) -> bool {
    let digit = |c: char| c.is_ascii_digit();
    base_url.match_indices(part).any(|(at, _)| {
        let rest = &base_url[at + part.len()..];
        !(part.ends_with(digit) && rest.starts_with(digit))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_is_told_apart() {
        let (mut providers, mut urls) = (HashSet::new(), HashSet::new());
        for family in FAMILIES {
            assert!(!family.providers.is_empty() && !family.habits.is_empty());
            for provider in family.providers {
                assert!(providers.insert(*provider), "{provider} twice");
                let found = super::family(provider, "").unwrap();
                assert_eq!(found.name, family.name);
            }
            for url in family.urls {
                assert!(urls.insert(*url), "{url} twice");
                assert_eq!(*url, url.to_lowercase());
                let found = super::family("custom", &format!("https://{url}/V1")).unwrap();
                assert_eq!(found.name, family.name);
            }
        }
        for port in ["41234", "12345"] {
            let url = format!("http://127.0.0.1:{port}/v1");
            assert!(super::family("custom", &url).is_none());
        }
    }

    #[test]
    fn the_address_counts_more_than_the_name() {
        let found = super::family("openai", "https://api.deepseek.com").unwrap();
        assert_eq!(found.name, "DeepSeek");
    }

    #[test]
    fn finish_reasons_are_in_lower_case_and_named_once() {
        let reasons: HashSet<&str> = FINISH_REASONS.iter().map(|(reason, ..)| *reason).collect();
        assert_eq!(reasons.len(), FINISH_REASONS.len());
        assert!(
            reasons
                .iter()
                .all(|reason| *reason == reason.to_lowercase())
        );
    }
}
