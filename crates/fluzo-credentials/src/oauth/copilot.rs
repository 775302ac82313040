//! GitHub Copilot: a device code of GitHub, then a short-lived token of Copilot.
//!
//! Addresses and fields as GitHub's editor plug-ins are seen to use them; GitHub documents the
//! device code only.

use fluzo_llm::Secret;
use serde::Deserialize;
use serde_json::Value;

use super::reply::{read, seconds};
use super::{Authority, EARLY_MS, OAuthError};
use crate::outside::{PostError, TokenAnswer, TokenRequest};

/// The provider's name.
pub const COPILOT: &str = "github-copilot";

/// GitHub's device code at `domain`, github.com or that of an enterprise, for the client id
/// that the user names.
pub fn copilot_authority(domain: &str, client_id: &str) -> Authority {
    Authority {
        client_id: client_id.to_owned(),
        authorize_url: None,
        token_url: format!("https://{domain}/login/oauth/access_token"),
        device_url: Some(format!("https://{domain}/login/device/code")),
        scopes: vec!["read:user".to_owned()],
    }
}

/// The question for a token of Copilot, authorised by GitHub's token; `domain` is that of an
/// enterprise, if any.
pub fn copilot_token_request(domain: Option<&str>, github: &Secret) -> TokenRequest {
    let domain = domain.unwrap_or("github.com");
    TokenRequest {
        url: format!("https://api.{domain}/copilot_internal/v2/token"),
        headers: vec![(
            "authorization".to_owned(),
            Secret::new(format!("Bearer {}", github.reveal())),
        )],
        form: None,
    }
}

#[derive(Deserialize)]
struct Body {
    token: String,
    expires_at: Value,
}

/// The token in `answer`, and when it ends, five minutes early, in Unix milliseconds.
///
/// # Errors
///
/// When the server refused, failed, or sent something else.
pub fn copilot_token(
    request: &TokenRequest,
    answer: Result<TokenAnswer, PostError>,
) -> Result<(Secret, i64), OAuthError> {
    let body: Body = read(request, answer)?;
    let ends = seconds(&body.expires_at).ok_or(OAuthError::Unusable("it has no expiry"))?;
    if body.token.is_empty() {
        return Err(OAuthError::Unusable("it has no token"));
    }
    Ok((
        Secret::new(body.token),
        ends.saturating_mul(1000) - EARLY_MS,
    ))
}

/// The endpoint that a token of Copilot names in its field `proxy-ep`, else that of the
/// enterprise; `None` when neither says anything.
pub fn copilot_base_url(token: &Secret, domain: Option<&str>) -> Option<String> {
    let fields = token.reveal().split(';');
    let proxy = fields
        .filter_map(|field| field.trim().strip_prefix("proxy-ep="))
        .find(|host| is_host(host));
    match proxy {
        Some(host) => {
            let host = host.strip_prefix("proxy.").unwrap_or(host);
            Some(format!("https://api.{host}"))
        }
        None => domain.map(|domain| format!("https://copilot-api.{domain}")),
    }
}

/// Whether `text` is a plain host name, without port, path or user information.
pub(crate) fn is_host(text: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !text.is_empty() && text.chars().all(ok) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_comes_from_the_token_or_the_enterprise() {
        let rows = [
            (
                "tid=1;exp=2;proxy-ep=proxy.individual.githubcopilot.com;sku=x",
                None,
                Some("https://api.individual.githubcopilot.com"),
            ),
            ("tid=1;proxy-ep=evil.example/x;a=b", None, None),
            (
                "tid=1;proxy-ep=u@evil.example",
                Some("ghe.example"),
                Some("https://copilot-api.ghe.example"),
            ),
            (
                "tid=1",
                Some("ghe.example"),
                Some("https://copilot-api.ghe.example"),
            ),
            ("tid=1", None, None),
        ];
        for (token, domain, expected) in rows {
            let url = copilot_base_url(&Secret::new(token), domain);
            assert_eq!(url.as_deref(), expected, "{token}");
        }
    }

    #[test]
    fn tokens_end_five_minutes_early_and_go_to_the_domain_of_the_enterprise() {
        let request = copilot_token_request(Some("ghe.example"), &Secret::new("gho"));
        assert_eq!(
            request.url,
            "https://api.ghe.example/copilot_internal/v2/token"
        );
        let answer = |body: &str| {
            Ok(TokenAnswer {
                status: 200,
                body: body.as_bytes().to_vec(),
            })
        };
        let (token, ends) =
            copilot_token(&request, answer(r#"{"token":"t;x=1","expires_at":1000}"#)).unwrap();
        assert_eq!((token.reveal(), ends), ("t;x=1", 1_000_000 - 300_000));
        for body in [
            r#"{"token":"","expires_at":1}"#,
            r#"{"token":"t","expires_at":"x"}"#,
            "{}",
        ] {
            assert!(copilot_token(&request, answer(body)).is_err(), "{body}");
        }
    }
}
