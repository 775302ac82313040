//! Why a message ended.

use fluzo_llm::{StopReason, StreamError, StreamErrorKind};

/// The outcome that a stop reason names; `explanation` is the server's word about a refusal.
///
/// # Errors
///
/// When the reason is a failure, or unknown.
pub(super) fn outcome(reason: &str, explanation: Option<&str>) -> Result<StopReason, StreamError> {
    let kind = match reason {
        "end_turn" | "stop_sequence" | "pause_turn" => return Ok(StopReason::Stop),
        "max_tokens" => return Ok(StopReason::Length),
        "tool_use" => return Ok(StopReason::ToolUse),
        "model_context_window_exceeded" => StreamErrorKind::Overflow,
        "refusal" | "sensitive" => StreamErrorKind::Refused,
        _ => {
            let text = format!("Unhandled stop reason: {reason}");
            return Err(StreamError::new(StreamErrorKind::Refused, text));
        }
    };
    let about = explanation.map(|text| format!(" ({text})"));
    let text = format!(
        "Provider stop_reason: {reason}{}",
        about.unwrap_or_default()
    );
    Err(StreamError::new(kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_reasons() {
        let rows = [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
            ("max_tokens", "length"),
            ("tool_use", "toolUse"),
            (
                "refusal",
                "Refused: Provider stop_reason: refusal (because)",
            ),
            (
                "sensitive",
                "Refused: Provider stop_reason: sensitive (because)",
            ),
            (
                "model_context_window_exceeded",
                "Overflow: Provider stop_reason: model_context_window_exceeded (because)",
            ),
            ("abc", "Refused: Unhandled stop reason: abc"),
        ];
        for (reason, expected) in rows {
            let shown = match outcome(reason, Some("because")) {
                Ok(stop) => stop.as_str().to_owned(),
                Err(error) => format!("{:?}: {}", error.kind, error.message),
            };
            assert_eq!(shown, expected);
        }
    }
}
