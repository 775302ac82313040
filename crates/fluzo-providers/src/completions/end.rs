//! Judges whether a response is whole. No single flag decides.

use fluzo_llm::{StopReason, StreamError, StreamErrorKind};

/// What was seen of a response by the time no more of it comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
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
pub enum Judgement {
    /// The response is whole.
    Complete(StopReason),
    /// It is whole, and says that it failed.
    Failed(StreamError),
    /// It is not whole.
    Incomplete(String),
}

/// Judges a response.
///
/// A finish reason settles it. Without one the response is whole when it has content, no
/// call is open in its arguments, and either the end marker was seen or both the usage was
/// reported and the body ended as it should.
pub fn judge_end(signals: &Signals) -> Judgement {
    if let Some(finish) = &signals.finish {
        return map_finish(finish);
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

fn map_finish(finish: &str) -> Judgement {
    let kind = match finish {
        "stop" | "end" | "eos" | "stop_sequence" => return Judgement::Complete(StopReason::Stop),
        "length" | "max_tokens" => return Judgement::Complete(StopReason::Length),
        "tool_calls" | "function_call" | "tool_use" => {
            return Judgement::Complete(StopReason::ToolUse);
        }
        "network_error" | "error" => StreamErrorKind::Transient,
        _ => StreamErrorKind::Refused,
    };
    Judgement::Failed(StreamError::new(
        kind,
        format!("Provider finish_reason: {finish}"),
    ))
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
        ];
        for (finish, expected) in rows {
            check(Some(finish), "t", expected);
            check(Some(finish), "tdu", expected);
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
