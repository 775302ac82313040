//! What token endpoints answer.

use fluzo_llm::Secret;
use fluzo_stdx::sanitize;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Authority, EARLY_MS, OAuthError};
use crate::auth_json::StoredToken;
use crate::outside::{PostError, TokenAnswer, TokenRequest};

/// Longest part of a server's text that is shown.
const SHOWN_CHARS: usize = 200;
/// How long a token is taken to hold when the server does not say.
const UNSTATED_SECONDS: i64 = 3600;

/// Tokens that a server gave.
#[derive(Debug, Clone)]
pub struct TokenReply {
    /// What authorises requests.
    pub access: Secret,
    /// What gets the next one; `None` when the one that was sent stays valid.
    pub refresh: Option<Secret>,
    /// How long `access` holds, in seconds.
    pub expires_in: i64,
}

#[derive(Deserialize)]
struct Body {
    access_token: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<Value>,
}

impl TokenReply {
    /// When the token ends, five minutes early, in Unix milliseconds.
    pub fn expires_ms(&self, now_ms: i64) -> i64 {
        now_ms + self.expires_in.saturating_mul(1000) - EARLY_MS
    }
}

/// The question for new tokens in exchange for `refresh`.
pub fn refresh_request(token_url: &str, client_id: &str, refresh: &Secret) -> TokenRequest {
    form(
        token_url,
        [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.reveal()),
            ("client_id", client_id),
        ],
    )
}

/// A sign-in as it is stored, with all that its renewal needs.
///
/// # Errors
///
/// When the server gave no refresh token: the sign-in would end with the hour.
pub fn stored_token(
    authority: &Authority,
    reply: &TokenReply,
    now_ms: i64,
) -> Result<StoredToken, OAuthError> {
    let refresh = reply.refresh.clone();
    let refresh = refresh.ok_or(OAuthError::Unusable("it has no refresh token"))?;
    let extras = [
        ("clientId", authority.client_id.as_str()),
        ("tokenUrl", authority.token_url.as_str()),
    ];
    let expires = reply.expires_ms(now_ms);
    Ok(StoredToken::new(
        reply.access.clone(),
        refresh,
        expires,
        &extras,
    ))
}

pub(crate) fn form<'a>(
    url: &str,
    fields: impl IntoIterator<Item = (&'static str, &'a str)>,
) -> TokenRequest {
    let fields = fields.into_iter();
    TokenRequest {
        url: url.to_owned(),
        headers: Vec::new(),
        form: Some(
            fields
                .map(|(name, value)| (name.to_owned(), Secret::new(value)))
                .collect(),
        ),
    }
}

/// The tokens in `answer` to `request`.
pub(crate) fn read_tokens(
    request: &TokenRequest,
    answer: Result<TokenAnswer, PostError>,
) -> Result<TokenReply, OAuthError> {
    let body: Body = read(request, answer)?;
    let access = body.access_token.filter(|token| !token.is_empty());
    Ok(TokenReply {
        access: Secret::new(access.ok_or(OAuthError::Unusable("it has no access token"))?),
        refresh: body
            .refresh_token
            .filter(|token| !token.is_empty())
            .map(Secret::new),
        expires_in: body
            .expires_in
            .as_ref()
            .and_then(seconds)
            .unwrap_or(UNSTATED_SECONDS),
    })
}

/// Some servers write numbers as text.
pub(crate) fn seconds(value: &Value) -> Option<i64> {
    let text = value.as_str().and_then(|text| text.parse().ok());
    let number = value.as_f64().filter(|n| n.abs() <= 9e15);
    // Checked to be within the range in which every whole number is exact.
    text.or(value.as_i64()).or(number.map(|n| n as i64))
}

/// The body of a successful answer. Errors are those of RFC 6749 section 5.2, also when they
/// come with status 200.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    request: &TokenRequest,
    answer: Result<TokenAnswer, PostError>,
) -> Result<T, OAuthError> {
    let answer = answer.map_err(|error| OAuthError::NoAnswer(error.0))?;
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
    if let Some(error) = body.as_ref().and_then(|body| said(request, body)) {
        return Err(match (error.code.as_str(), answer.status) {
            ("invalid_grant", _) => OAuthError::Invalid(error.text),
            ("access_denied", _) => OAuthError::Denied,
            ("expired_token", _) => OAuthError::TimedOut,
            ("server_error" | "temporarily_unavailable", _) | (_, 500..) => {
                OAuthError::Failed(error.text)
            }
            _ => OAuthError::Refused(error.text),
        });
    }
    match answer.status {
        200..300 => {}
        401 | 403 => return Err(OAuthError::Invalid(format!("status {}", answer.status))),
        429 | 500.. => return Err(OAuthError::Failed(format!("status {}", answer.status))),
        status => return Err(OAuthError::Refused(format!("status {status}"))),
    }
    let body = body.ok_or(OAuthError::Unusable("it is not JSON"))?;
    serde_json::from_value(body).map_err(|_| OAuthError::Unusable("a field has the wrong kind"))
}

/// What a server said is wrong.
pub(crate) struct Said {
    pub(crate) code: String,
    text: String,
}

pub(crate) fn said(request: &TokenRequest, body: &Value) -> Option<Said> {
    let code = body.get("error")?.as_str()?;
    let description = body.get("error_description").and_then(Value::as_str);
    let text = match description {
        Some(description) => format!("{code}: {description}"),
        None => code.to_owned(),
    };
    Some(Said {
        code: code.to_owned(),
        text: shown(request, &text),
    })
}

/// A server's text, short, on one line and without what was sent to it.
fn shown(request: &TokenRequest, text: &str) -> String {
    let public = ["grant_type", "scope"];
    let fields = request.form.iter().flatten();
    let fields = fields.filter(|(name, _)| !public.contains(&name.as_str()));
    let sent = fields
        .chain(&request.headers)
        .map(|(_, value)| value.reveal());
    let mut secrets: Vec<String> = sent
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .chain(secrets_of(&request.url))
        .collect();
    // As they stand in a form, too.
    let encoded = secrets
        .iter()
        .map(|secret| encode(secret))
        .collect::<Vec<_>>();
    secrets.extend(encoded);
    secrets.retain(|secret| secret.len() > 6);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let text = secrets
        .iter()
        .fold(text.to_owned(), |text, secret| text.replace(secret, "…"));
    one_line(&text)
}

fn encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// User, password and values of the query of an address, as they stand there and decoded.
fn secrets_of(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else {
        return Vec::new();
    };
    let query = url.query().into_iter().flat_map(|query| query.split('&'));
    let values = query.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    let raw = [Some(url.username()), url.password()];
    let raw = raw.into_iter().flatten().chain(values).map(str::to_owned);
    let decoded = url.query_pairs().map(|(_, value)| value.into_owned());
    raw.chain(decoded).collect()
}

pub(crate) fn one_line(text: &str) -> String {
    let line: String = sanitize::terminal_text(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut short: String = line.chars().take(SHOWN_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<TokenAnswer, PostError> {
        Ok(TokenAnswer {
            status,
            body: body.as_bytes().to_vec(),
        })
    }

    fn request() -> TokenRequest {
        refresh_request(
            "https://a.example/t",
            "my-client",
            &Secret::new("rt-planted"),
        )
    }

    #[test]
    fn tokens_are_read_in_the_forms_that_servers_use() {
        let rows = [
            (
                r#"{"access_token":"a","refresh_token":"r","expires_in":60}"#,
                Some("r"),
                60,
            ),
            (r#"{"access_token":"a","expires_in":"60"}"#, None, 60),
            (
                r#"{"access_token":"a","refresh_token":"","expires_in":60.0}"#,
                None,
                60,
            ),
            (r#"{"access_token":"a","refresh_token":null}"#, None, 3600),
        ];
        for (body, refresh, expires_in) in rows {
            let reply = read_tokens(&request(), answer(200, body)).unwrap();
            assert_eq!(reply.access.reveal(), "a");
            assert_eq!(reply.refresh.as_ref().map(Secret::reveal), refresh);
            assert_eq!(reply.expires_in, expires_in);
            assert_eq!(
                reply.expires_ms(1_000_000),
                1_000_000 + expires_in * 1000 - 300_000
            );
        }
    }

    #[test]
    fn every_failure_has_its_kind_and_shows_nothing_that_was_sent() {
        type Is = fn(&OAuthError) -> bool;
        let rows: [(u16, &str, Is); 11] = [
            (
                400,
                r#"{"error":"invalid_grant","error_description":"rt-planted was used"}"#,
                |e| matches!(e, OAuthError::Invalid(_)),
            ),
            (400, r#"{"error":"invalid_client"}"#, |e| {
                matches!(e, OAuthError::Refused(_))
            }),
            (200, r#"{"error":"access_denied"}"#, |e| {
                *e == OAuthError::Denied
            }),
            (400, r#"{"error":"expired_token"}"#, |e| {
                *e == OAuthError::TimedOut
            }),
            (500, r#"{"error":"rt-planted\u001b[31m"}"#, |e| {
                matches!(e, OAuthError::Failed(_))
            }),
            (503, "<html>rt-planted</html>", |e| {
                matches!(e, OAuthError::Failed(_))
            }),
            (429, "", |e| matches!(e, OAuthError::Failed(_))),
            (401, "{}", |e| matches!(e, OAuthError::Invalid(_))),
            (302, "", |e| matches!(e, OAuthError::Refused(_))),
            (200, r#"{"access_token":{"rt-planted":1}}"#, |e| {
                matches!(e, OAuthError::Unusable(_))
            }),
            (200, "rt-planted", |e| matches!(e, OAuthError::Unusable(_))),
        ];
        for (status, body, is) in rows {
            let error = read_tokens(&request(), answer(status, body)).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(is(&error), "{text}");
            assert!(
                !text.contains("planted") && !text.contains('\u{1b}'),
                "{text}"
            );
        }
        let lost = read_tokens(&request(), Err(PostError("cut off".into()))).unwrap_err();
        assert_eq!(lost, OAuthError::NoAnswer("cut off".into()));
    }
}
