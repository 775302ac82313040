//! What is told when trying again has been given up.

use std::fmt;

use serde::Serialize;

/// A request that was sent several times and failed each time.
///
/// Its JSON form stands in the `givenUp` of the event that ends a series of attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    /// The provider asked.
    pub provider: String,
    /// The id of the model asked.
    pub model: String,
    /// How often the request was sent.
    pub requests: u32,
    /// The text of the last failure, the server's words included.
    pub last_error: String,
    /// When the server takes requests again, in Unix milliseconds, if it has said so.
    pub next_at_ms: Option<i64>,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            provider,
            model,
            requests,
            last_error,
            ..
        } = self;
        write!(
            f,
            "gave up on `{model}` of `{provider}` after {requests} requests; the last one failed with: {last_error}"
        )?;
        match self.next_at_ms {
            Some(at) => write!(
                f,
                "; the server takes requests again at {}",
                fluzo_stdx::time::iso_utc(at)
            ),
            None => write!(f, "; the server did not say when to try again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_tell_the_same() {
        let mut given_up = GivenUp {
            provider: "p".into(),
            model: "m".into(),
            requests: 4,
            last_error: "429 slow down".into(),
            next_at_ms: Some(784_111_777_000),
        };
        let begin = "gave up on `m` of `p` after 4 requests; the last one failed with: 429 slow down; the server ";
        assert_eq!(
            given_up.to_string(),
            format!("{begin}takes requests again at 1994-11-06T08:49:37.000Z")
        );
        let json = serde_json::to_string(&given_up).unwrap();
        let expected = r#"{"provider":"p","model":"m","requests":4,"lastError":"429 slow down","nextAtMs":784111777000}"#;
        assert_eq!(json, expected);
        given_up.next_at_ms = None;
        assert_eq!(
            given_up.to_string(),
            format!("{begin}did not say when to try again")
        );
    }
}
