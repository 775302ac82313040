//! Which refusals speak against which form.

use fluzo_llm::{FormSwitch, StreamError, StreamErrorKind};

use crate::classify::matches;

/// Statuses with which servers refuse a form. 500 comes from chat templates that raise an error.
pub(crate) const STATUSES: &[u16] = &[400, 404, 422, 500, 501];

/// A name that is refused when it stands in the text beside one of [`COMPLAINTS`].
pub(crate) const NAMES: &[(&str, FormSwitch)] = &[
    ("max_completion_tokens", FormSwitch::MaxTokens),
    ("max_tokens", FormSwitch::MaxCompletionTokens),
    ("developer", FormSwitch::SystemRole),
    ("stream_options", FormSwitch::NoStreamUsage),
    ("include_usage", FormSwitch::NoStreamUsage),
    ("store", FormSwitch::NoStore),
    ("strict", FormSwitch::NoStrict),
    ("reasoning_effort", FormSwitch::NoReasoningEffort),
    ("reasoning_content", FormSwitch::NoReasoningBack),
    ("reasoning_text", FormSwitch::NoReasoningBack),
    ("reasoning_details", FormSwitch::NoReasoningBack),
    ("reasoning", FormSwitch::NoReasoningBack),
    ("prompt_cache_retention", FormSwitch::NoLongCache),
    ("prompt_cache_key", FormSwitch::NoLongCache),
    ("ttl", FormSwitch::NoLongCache),
];

/// What is tried where an answer begins well and has no byte: the chat template failed after
/// the head was sent, as those do that join the content of a message with text.
pub(crate) const SILENCE: FormSwitch = FormSwitch::PlainUserContent;

/// What is said of a field or a value that a server does not take.
pub(crate) const COMPLAINTS: &[&str] = &[
    "unsupported",
    "not supported",
    "does not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "not permitted",
    "not allowed",
    "not one of",
    "is invalid",
    "invalid role",
    "invalid value",
    "extra_forbidden",
    "no such field",
    "cannot find field",
    "must be one of",
    "should be one of",
];

/// Texts that speak against a form by themselves.
pub(crate) const TEXTS: &[(&str, FormSwitch)] = &[
    (
        "use 'max_completion_tokens' instead",
        FormSwitch::MaxCompletionTokens,
    ),
    (
        "reasoning_content*must be passed back",
        FormSwitch::ReasoningBack,
    ),
    ("missing*reasoning_content", FormSwitch::ReasoningBack),
    ("reasoning_content is missing", FormSwitch::ReasoningBack),
    ("reasoning_content*is required", FormSwitch::ReasoningBack),
    ("tool call id*length of 9", FormSwitch::ShortIds),
    (
        "function_response.name: name cannot be empty",
        FormSwitch::ToolResultName,
    ),
    (
        "function_response.name: [required]",
        FormSwitch::ToolResultName,
    ),
    ("role 'tool' must have a 'name'", FormSwitch::ToolResultName),
    (
        "role 'user' after role 'tool'",
        FormSwitch::AnswerAfterResults,
    ),
    ("roles must alternate", FormSwitch::AnswerAfterResults),
    ("unexpected message role", FormSwitch::SystemRole),
    // An answer without text: `null` is refused.
    (
        "invalid message content type: <nil>",
        FormSwitch::EmptyContent,
    ),
    ("got null", FormSwitch::EmptyContent),
    ("none is not an allowed value", FormSwitch::EmptyContent),
    ("null is not of type 'string'", FormSwitch::EmptyContent),
    ("invalid type: null, expected", FormSwitch::EmptyContent),
    ("missing field `content`", FormSwitch::EmptyContent),
    ("missing 'content'", FormSwitch::EmptyContent),
    ("content' is a required property", FormSwitch::EmptyContent),
    ("content*cannot be null", FormSwitch::EmptyContent),
    ("content*must not be null", FormSwitch::EmptyContent),
    ("content*must be a string", FormSwitch::EmptyContent),
    ("content*should be a valid string", FormSwitch::EmptyContent),
    ("content*field required", FormSwitch::EmptyContent),
    // An answer without text: the empty one is refused.
    ("content*must not be empty", FormSwitch::NullContent),
    ("content*cannot be empty", FormSwitch::NullContent),
    ("content*is empty", FormSwitch::NullContent),
    ("must have non-empty content", FormSwitch::NullContent),
    ("content blocks must be non-empty", FormSwitch::NullContent),
    ("content*at least 1 character", FormSwitch::NullContent),
    (
        "role 'assistant' must not be empty",
        FormSwitch::NullContent,
    ),
    // A list of parts is refused.
    ("expected a string, got array", FormSwitch::PlainUserContent),
    (
        "expected a string, but got an array",
        FormSwitch::PlainUserContent,
    ),
    (
        "invalid type: sequence, expected a string",
        FormSwitch::PlainUserContent,
    ),
    ("content*must be a string", FormSwitch::PlainUserContent),
    (
        "content*should be a valid string",
        FormSwitch::PlainUserContent,
    ),
    ("content*array*not supported", FormSwitch::PlainUserContent),
    // Neither `null` nor an empty text is taken.
    ("content*must not be empty", FormSwitch::NoContent),
    ("got null", FormSwitch::NoContent),
];

/// The switches that the refusal `error` speaks for, the likeliest first.
///
/// `silent` says that the answer began well and then had no byte.
pub(crate) fn candidates(error: &StreamError, silent: bool) -> Vec<FormSwitch> {
    if silent && error.kind == StreamErrorKind::Incomplete {
        return vec![SILENCE];
    }
    let refusal = match error.kind {
        StreamErrorKind::InvalidRequest => true,
        StreamErrorKind::Transient => error.status.is_some_and(|status| status < 502),
        _ => false,
    };
    if !refusal
        || error
            .status
            .is_some_and(|status| !STATUSES.contains(&status))
    {
        return Vec::new();
    }
    let text = error.message.to_lowercase();
    let by_text = TEXTS.iter().filter(|(pattern, _)| matches(&text, pattern));
    let complains = COMPLAINTS.iter().any(|complaint| text.contains(complaint));
    let by_name = NAMES
        .iter()
        .filter(|(name, _)| complains && names(&text, name));
    let mut found = Vec::new();
    for (_, switch) in by_text.chain(by_name) {
        if !found.contains(switch) {
            found.push(*switch);
        }
    }
    found
}

/// Whether `name` stands in `text` as a word of its own.
fn names(text: &str, name: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use FormSwitch::{
        AnswerAfterResults, EmptyContent, MaxCompletionTokens, MaxTokens, NoContent, NoLongCache,
        NoReasoningBack, NoReasoningEffort, NoStore, NoStreamUsage, NoStrict, NullContent,
        PlainUserContent, ReasoningBack, ShortIds, SystemRole, ToolResultName,
    };

    use super::*;

    fn of(kind: StreamErrorKind, status: Option<u16>, text: &str) -> Vec<FormSwitch> {
        let status_text = status.map_or_else(String::new, |status| format!("{status} "));
        candidates(
            &StreamError {
                status,
                ..StreamError::new(kind, format!("{status_text}{text}"))
            },
            false,
        )
    }

    /// The first switch that `text` speaks for, and that the table has it among its rows.
    fn check(status: Option<u16>, text: &str, expected: &[FormSwitch]) {
        let found = of(StreamErrorKind::InvalidRequest, status, text);
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn an_answer_without_a_byte_speaks_against_parts() {
        let cut = StreamError::new(StreamErrorKind::Incomplete, "cut");
        assert_eq!(candidates(&cut, true), [PlainUserContent]);
        assert!(candidates(&cut, false).is_empty());
        let limit = StreamError::new(StreamErrorKind::Timeout, "timed out");
        assert!(candidates(&limit, true).is_empty());
    }

    /// Status, text, and the switches that it speaks for.
    const REFUSALS: &[(u16, &str, &[FormSwitch])] = &[
        (
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            &[MaxCompletionTokens, MaxTokens],
        ),
        (
            400,
            "Unrecognized request argument supplied: max_completion_tokens",
            &[MaxTokens],
        ),
        (
            422,
            r#"[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted"}]"#,
            &[MaxTokens],
        ),
        (
            422,
            r#"[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]"#,
            &[NoStreamUsage],
        ),
        (
            400,
            "Unknown parameter: 'stream_options'.",
            &[NoStreamUsage],
        ),
        (400, "property 'store' is unsupported", &[NoStore]),
        (
            400,
            "Unknown name \"store\": Cannot find field.",
            &[NoStore],
        ),
        (
            400,
            "Extra inputs are not permitted, field: 'tools[0].function.strict', value: False",
            &[NoStrict],
        ),
        (
            400,
            "This model does not support parameter reasoning_effort.",
            &[NoReasoningEffort],
        ),
        (
            400,
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
            &[NoReasoningBack],
        ),
        (
            400,
            "Missing `reasoning_content` field in the assistant message at message index 3.",
            &[ReasoningBack],
        ),
        (
            400,
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            &[ReasoningBack],
        ),
        (
            400,
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            &[ReasoningBack],
        ),
        (
            400,
            "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.",
            &[ShortIds],
        ),
        (
            400,
            "GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.",
            &[ToolResultName, NullContent],
        ),
        (
            400,
            "Expected last role User or Tool; Unexpected role 'user' after role 'tool'",
            &[AnswerAfterResults],
        ),
        (
            400,
            "Conversation roles must alternate user/assistant/user/assistant/...",
            &[AnswerAfterResults],
        ),
        (
            400,
            "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.0.role'",
            &[SystemRole],
        ),
        (
            422,
            "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`",
            &[SystemRole],
        ),
        (500, "Unexpected message role.", &[SystemRole]),
        (400, "invalid message content type: <nil>", &[EmptyContent]),
        (
            400,
            "Invalid value for 'content': expected a string, got null.",
            &[EmptyContent, NoContent],
        ),
        (
            422,
            "messages.1.content: none is not an allowed value",
            &[EmptyContent],
        ),
        (
            400,
            "Invalid 'messages' in payload: 'content' field must be a string or an array of objects",
            &[EmptyContent, PlainUserContent],
        ),
        (
            400,
            "Invalid request: the message at position 2 with role 'assistant' must not be empty",
            &[NullContent],
        ),
        (
            400,
            "all messages must have non-empty content except for the optional final assistant message",
            &[NullContent],
        ),
        (
            422,
            "messages[1].content: invalid type: sequence, expected a string",
            &[PlainUserContent],
        ),
        (
            400,
            "Unsupported parameter: 'prompt_cache_retention'",
            &[NoLongCache],
        ),
        (
            400,
            "system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted",
            &[NoLongCache],
        ),
    ];

    #[test]
    fn refusals_of_servers() {
        for (status, text, expected) in REFUSALS {
            check(Some(*status), text, expected);
            // Also as an error inside a stream, without a status.
            check(None, text, expected);
        }
    }

    #[test]
    fn what_speaks_against_no_form() {
        for text in [
            "invalid message content",
            "max_tokens must be at most 500",
            "temperature is not supported",
            "no such model",
            "the application store",
            "restored: unknown",
            "",
        ] {
            check(Some(400), text, &[]);
        }
        let text = "Unknown parameter: 'store'";
        assert_eq!(of(StreamErrorKind::InvalidRequest, Some(403), text), []);
        assert_eq!(of(StreamErrorKind::RateLimit, Some(429), text), []);
        assert_eq!(of(StreamErrorKind::Transient, Some(503), text), []);
        assert_eq!(of(StreamErrorKind::Authentication, None, text), []);
    }

    #[test]
    fn every_switch_can_come_from_a_refusal() {
        let named = NAMES.iter().chain(TEXTS).map(|(_, switch)| *switch);
        let named: Vec<_> = named.collect();
        for switch in FormSwitch::ALL {
            assert!(named.contains(&switch), "{switch:?}");
        }
    }
}
