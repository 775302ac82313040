//! Signing in at an authorisation server, and renewing what it gave.
//!
//! Authorization code with PKCE (RFC 6749, RFC 7636, loopback redirect of RFC 8252) and device
//! code (RFC 8628). A server is described by an [`Authority`]; the client id is the user's.

mod code;
mod copilot;
mod device;
mod encoding;
mod reply;

pub use code::{Answered, CodeFlow, sign_in_with_code};
pub use copilot::{
    COPILOT, copilot_authority, copilot_base_url, copilot_token, copilot_token_request,
};
pub use device::{DeviceCode, sign_in_with_device};
pub use reply::{TokenReply, refresh_request, stored_token};

pub use encoding::encode as form_text;

pub(crate) use copilot::is_host;
pub(crate) use reply::read_tokens;

/// How much earlier than the server says a token counts as expired.
pub(crate) const EARLY_MS: i64 = 5 * 60 * 1000;

/// An authorisation server and how a client presents itself to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The client id that the user has named.
    pub client_id: String,
    /// Page that a person visits to sign in, where the server has one.
    pub authorize_url: Option<String>,
    /// Gives tokens.
    pub token_url: String,
    /// Gives device codes, where the server has them.
    pub device_url: Option<String>,
    /// What is asked for.
    pub scopes: Vec<String>,
}

/// Why a sign-in or a renewal did not come about. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The stored sign-in is no longer valid at the server.
    #[error("the server no longer accepts the sign-in: {0}")]
    Invalid(String),
    /// The server failed in a way that may pass.
    #[error("the server failed: {0}")]
    Failed(String),
    /// No whole answer came.
    #[error("no answer from the server: {0}")]
    NoAnswer(String),
    /// The answer is none that the protocol knows.
    #[error("the answer of the server cannot be used: {0}")]
    Unusable(&'static str),
    /// What came back does not belong to this sign-in.
    #[error("what came back belongs to another sign-in (its `state` differs)")]
    OtherState,
    /// What was pasted holds no code.
    #[error("no code was found in what was entered")]
    NoCode,
    /// The person said no.
    #[error("the sign-in was denied")]
    Denied,
    /// The time for the sign-in is over.
    #[error("the time to sign in is over")]
    TimedOut,
    /// The user stopped it.
    #[error("the sign-in was cancelled")]
    Cancelled,
    /// An address that must not be asked.
    #[error("`{0}` must begin with https:// (or with http:// and a loopback host)")]
    Address(&'static str),
}

impl Authority {
    /// Whether every address may be asked: tokens travel over TLS, or do not leave the machine.
    ///
    /// # Errors
    ///
    /// The first address that may not.
    pub fn check(&self) -> Result<(), OAuthError> {
        let optional = |url: &Option<String>, name| match url {
            Some(url) => check_address(url, name),
            None => Ok(()),
        };
        check_address(&self.token_url, "tokenUrl")?;
        optional(&self.authorize_url, "authorizeUrl")?;
        optional(&self.device_url, "deviceUrl")
    }
}

/// HTTPS, or HTTP to a literal loopback host.
pub(crate) fn check_address(url: &str, name: &'static str) -> Result<(), OAuthError> {
    let allowed = match url.split_once("://") {
        Some(("https", rest)) => !host(rest).is_empty(),
        Some(("http", rest)) => matches!(host(rest), "localhost" | "127.0.0.1" | "[::1]"),
        _ => false,
    };
    if allowed {
        Ok(())
    } else {
        Err(OAuthError::Address(name))
    }
}

/// The host of what follows the scheme; empty for anything with user information.
fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return "";
    }
    match authority.find(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_travel_over_tls_or_stay_on_the_machine() {
        let rows = [
            ("https://auth.example/x", true),
            ("http://127.0.0.1:80/x", true),
            ("http://[::1]:80/x", true),
            ("http://localhost/x", true),
            ("http://auth.example/x", false),
            ("http://127.0.0.1.example/x", false),
            ("http://127.0.0.1@example/x", false),
            ("http://localhost\\@example/x", true),
            ("https://user:pw@example/x", false),
            ("https://", false),
            ("ftp://localhost", false),
            ("", false),
        ];
        for (url, allowed) in rows {
            assert_eq!(check_address(url, "tokenUrl").is_ok(), allowed, "{url}");
        }
    }
}
