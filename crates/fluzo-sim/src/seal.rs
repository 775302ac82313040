//! Signatures of what the simulator's models say, so that it knows its own words when they come back.
//!
//! They are made from the content alone: a signature proves itself without any memory, and one that was made for another
//! model or an altered text does not fit. They keep nobody out who reads this file; they find mistakes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a signature is for. One purpose does not pass for another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// A thinking text.
    Thinking,
    /// Thinking that the client cannot read.
    Redacted,
    /// A tool call.
    Call,
    /// The end of an answer.
    Answer,
    /// A reasoning item.
    Reasoning,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::Redacted => "redacted",
            Self::Call => "call",
            Self::Answer => "answer",
            Self::Reasoning => "reasoning",
        }
    }
}

/// The signature of a content said by `model`.
pub(crate) fn sign(purpose: Purpose, model: &str, content: &str) -> String {
    let word = purpose.word();
    let text = format!("{word}\n{model}\n{content}");
    let mark = (
        digest(0xcbf2_9ce4_8422_2325, &text),
        digest(0x9e37_79b9_7f4a_7c15, &text),
    );
    STANDARD.encode(format!("fluzo-sim {word} {:016x}{:016x}", mark.0, mark.1))
}

/// A content that only the simulator can read, with its signature.
pub(crate) fn enclose(purpose: Purpose, model: &str, content: &str) -> String {
    STANDARD.encode(format!("{}\n{content}", sign(purpose, model, content)))
}

/// Whether `model` enclosed this content with [`enclose`], and nobody changed it.
pub(crate) fn is_enclosed(purpose: Purpose, model: &str, enclosed: &str) -> bool {
    let decoded = STANDARD
        .decode(enclosed)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    decoded
        .as_deref()
        .and_then(|text| text.split_once('\n'))
        .is_some_and(|(signature, content)| signature == sign(purpose, model, content))
}

/// FNV-1a.
fn digest(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_fits_one_purpose_one_model_and_one_content() {
        let signature = sign(Purpose::Thinking, "m", "hm");
        assert_eq!(signature, sign(Purpose::Thinking, "m", "hm"));
        for other in [
            sign(Purpose::Call, "m", "hm"),
            sign(Purpose::Thinking, "n", "hm"),
            sign(Purpose::Thinking, "m", "hm "),
        ] {
            assert_ne!(signature, other);
        }
    }

    #[test]
    fn an_enclosed_content_cannot_be_changed() {
        let enclosed = enclose(Purpose::Redacted, "m", "secret");
        assert!(is_enclosed(Purpose::Redacted, "m", &enclosed));
        assert!(!is_enclosed(Purpose::Redacted, "n", &enclosed));
        assert!(!is_enclosed(Purpose::Redacted, "m", &enclosed[4..]));
        assert!(!is_enclosed(Purpose::Redacted, "m", "no base64!"));
    }
}
