//! Judges whether a response is whole. No single flag decides.

use fluzo_llm::{StopReason, StreamError, StreamErrorKind};

use crate::quirks::{FINISH_REASONS, FinishMeaning};

/// What was seen of a response by the time no more of it comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// The finish reason the server gave.
    pub finish: Option<String>,
    /// The end marker of the stream was seen.
    pub done: bool,
    /// Tokens used were reported.
    pub usage: bool,
    /// The body ended as the transport says it should.
    pub clean: bool,
    /// There is text, thinking or a call.
    pub content: bool,
    /// There are tool calls.
    pub calls: bool,
    /// The arguments of all of them are closed.
    pub calls_closed: bool,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The response is whole.
    Complete(StopReason),
    /// It is whole, and says that it failed.
    Failed(StreamError),
    /// It is not whole.
    Incomplete(String),
}

/// Judges a response.
///
/// A finish reason that says something settles it. Without one the response is whole when it has content, no
/// call is open in its arguments, and either the end marker was seen or both the usage was
/// reported and the body ended as it should.
pub(crate) fn judge_end(signals: &Signals) -> Judgement {
    if let Some(judgement) = signals.finish.as_deref().and_then(map_finish) {
        return judgement;
    }
    if signals.calls && !signals.calls_closed {
        return Judgement::Incomplete(
            "Stream ended without finish_reason, inside the arguments of a tool call".into(),
        );
    }
    let ended = signals.done || (signals.usage && signals.clean);
    if !signals.content || !ended {
        return Judgement::Incomplete("Stream ended without finish_reason".into());
    }
    Judgement::Complete(if signals.calls {
        StopReason::ToolUse
    } else {
        StopReason::Stop
    })
}

/// `None` when the reason says nothing.
fn map_finish(finish: &str) -> Option<Judgement> {
    let plain = finish.trim().to_lowercase();
    let row = FINISH_REASONS
        .iter()
        .find(|(reason, ..)| *reason == plain.as_str());
    let kind = match row.map(|(_, meaning, _)| meaning) {
        Some(FinishMeaning::Stop) => return Some(Judgement::Complete(StopReason::Stop)),
        Some(FinishMeaning::Length) => return Some(Judgement::Complete(StopReason::Length)),
        Some(FinishMeaning::ToolUse) => return Some(Judgement::Complete(StopReason::ToolUse)),
        Some(FinishMeaning::Unsaid) => return None,
        Some(FinishMeaning::Failed) => StreamErrorKind::Transient,
        Some(FinishMeaning::Full) => StreamErrorKind::Capacity,
        Some(FinishMeaning::Overflow) => StreamErrorKind::Overflow,
        None => StreamErrorKind::Refused,
    };
    Some(Judgement::Failed(StreamError::new(
        kind,
        format!("Provider finish_reason: {finish}"),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters: `d` end marker, `u` usage, `c` clean end, `t` content, `a` calls, `A` calls that are closed.
    fn check(finish: Option<&str>, seen: &str, expected: &str) {
        let has = |letter: char| seen.contains(letter);
        let signals = Signals {
            finish: finish.map(str::to_owned),
            done: has('d'),
            usage: has('u'),
            clean: has('c'),
            content: has('t') || has('a') || has('A'),
            calls: has('a') || has('A'),
            calls_closed: !has('a'),
        };
        let shown = match judge_end(&signals) {
            Judgement::Complete(reason) => reason.as_str().to_owned(),
            Judgement::Failed(error) => format!("{} {:?}", error.message, error.kind),
            Judgement::Incomplete(_) => "incomplete".to_owned(),
        };
        assert_eq!(shown, expected, "{finish:?} {seen}");
    }

    #[test]
    fn finish_reasons() {
        let rows = [
            ("stop", "stop"),
            ("end", "stop"),
            ("length", "length"),
            ("tool_calls", "toolUse"),
            ("function_call", "toolUse"),
            (
                "content_filter",
                "Provider finish_reason: content_filter Refused",
            ),
            (
                "network_error",
                "Provider finish_reason: network_error Transient",
            ),
            ("abc", "Provider finish_reason: abc Refused"),
            ("eos", "stop"),
            ("STOP", "stop"),
            ("end_turn", "stop"),
            ("model_length", "length"),
            (
                "insufficient_system_resource",
                "Provider finish_reason: insufficient_system_resource Capacity",
            ),
            (
                "model_context_window_exceeded",
                "Provider finish_reason: model_context_window_exceeded Overflow",
            ),
        ];
        for (finish, expected) in rows {
            check(Some(finish), "t", expected);
            check(Some(finish), "tdu", expected);
        }
    }

    #[test]
    fn a_finish_reason_that_says_nothing_leaves_it_to_the_other_signals() {
        for finish in ["unknown", "null", "None", "load"] {
            check(Some(finish), "tudc", "stop");
            check(Some(finish), "Aud", "toolUse");
            check(Some(finish), "t", "incomplete");
            check(Some(finish), "ad", "incomplete");
        }
    }

    #[test]
    fn without_a_finish_reason_several_signals_decide() {
        let rows = [
            // Usage and end marker, then the end.
            ("tudc", "stop"),
            ("Audc", "toolUse"),
            ("td", "stop"),
            ("tuc", "stop"),
            ("Auc", "toolUse"),
            // Ends mid-word.
            ("t", "incomplete"),
            ("tc", "incomplete"),
            ("tu", "incomplete"),
            ("Ac", "incomplete"),
            // Nothing at all.
            ("", "incomplete"),
            ("d", "incomplete"),
            ("udc", "incomplete"),
            // A call that is open stays so, whatever follows.
            ("ad", "incomplete"),
            ("audc", "incomplete"),
        ];
        for (seen, expected) in rows {
            check(None, seen, expected);
        }
    }
}
