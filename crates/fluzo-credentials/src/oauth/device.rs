//! Device code: a short code to enter on a page, then asking until it was.

use std::time::Duration;

use fluzo_llm::{AbortSignal, Secret};
use serde::Deserialize;
use serde_json::Value;

use super::reply::{form, one_line, read, read_tokens, said, seconds};
use super::{Authority, OAuthError, TokenReply, check_address};
use crate::outside::{Clock, FormPost};

/// Asked no more often than this unless the server says otherwise, in seconds (RFC 8628).
const INTERVAL: i64 = 5;
/// Added after each `slow_down`, in seconds (RFC 8628).
const SLOWER: i64 = 5;
/// How long codes hold when the server does not say, in seconds.
const UNSTATED: i64 = 900;

/// What a person does to sign in.
#[derive(Debug, Clone)]
pub struct DeviceCode {
    /// The code to enter; shown.
    pub user_code: String,
    /// The page to enter it on.
    pub page: String,
    device_code: Secret,
    interval: Duration,
    ends_ms: i64,
}

#[derive(Deserialize)]
struct Body {
    device_code: String,
    user_code: String,
    #[serde(alias = "verification_url")]
    verification_uri: String,
    interval: Option<Value>,
    expires_in: Option<Value>,
}

impl DeviceCode {
    /// Asks for a code.
    ///
    /// # Errors
    ///
    /// When the server has no device codes, refused, or gave no whole answer.
    pub async fn begin(
        authority: &Authority,
        http: &dyn FormPost,
        clock: &dyn Clock,
        abort: &AbortSignal,
    ) -> Result<Self, OAuthError> {
        authority.check()?;
        let url = authority.device_url.as_ref();
        let url = url.ok_or(OAuthError::Address("deviceUrl"))?;
        let scope = authority.scopes.join(" ");
        let request = form(
            url,
            [
                ("client_id", authority.client_id.as_str()),
                ("scope", &scope),
            ],
        );
        let answer = abort
            .run_until_cancelled(http.exchange(request.clone()))
            .await;
        let body: Body = read(&request, answer.ok_or(OAuthError::Cancelled)?)?;
        check_address(&body.verification_uri, "verification_uri")?;
        let number = |value: &Option<Value>, unstated| {
            let stated = value.as_ref().and_then(seconds).filter(|n| *n > 0);
            stated.unwrap_or(unstated)
        };
        Ok(Self {
            user_code: one_line(&body.user_code),
            page: one_line(&body.verification_uri),
            device_code: Secret::new(body.device_code),
            interval: pause(number(&body.interval, INTERVAL)),
            ends_ms: clock.now_ms() + number(&body.expires_in, UNSTATED).saturating_mul(1000),
        })
    }
}

/// Asks, at the pace that the server sets, until the person has entered the code.
///
/// An answer that is lost or a server that fails is asked again, ever more slowly.
///
/// # Errors
///
/// When the person said no, the code has expired, the server refused, or `abort` was given.
pub async fn sign_in_with_device(
    authority: &Authority,
    code: &DeviceCode,
    http: &dyn FormPost,
    clock: &dyn Clock,
    abort: &AbortSignal,
) -> Result<TokenReply, OAuthError> {
    let request = form(
        &authority.token_url,
        [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", code.device_code.reveal()),
            ("client_id", &authority.client_id),
        ],
    );
    let mut interval = code.interval;
    loop {
        let left = u64::try_from(code.ends_ms - clock.now_ms()).unwrap_or(0);
        if Duration::from_millis(left) < interval {
            // The next question would come too late.
            return Err(OAuthError::TimedOut);
        }
        let waited = abort.run_until_cancelled(clock.sleep(interval)).await;
        waited.ok_or(OAuthError::Cancelled)?;
        let answer = abort
            .run_until_cancelled(http.exchange(request.clone()))
            .await;
        let answer = answer.ok_or(OAuthError::Cancelled)?;
        let body: Option<Value> = answer
            .as_ref()
            .ok()
            .and_then(|answer| serde_json::from_slice(&answer.body).ok());
        let error = body.as_ref().and_then(|body| said(&request, body));
        match error.as_ref().map(|said| said.code.as_str()) {
            Some("authorization_pending") => continue,
            Some("slow_down") => {
                interval = slower(interval, body.as_ref());
                continue;
            }
            _ => {}
        }
        match read_tokens(&request, answer) {
            Err(OAuthError::NoAnswer(_) | OAuthError::Failed(_)) => interval *= 2,
            done => return done,
        }
    }
}

/// Five seconds more, or what the server says when that is longer.
fn slower(interval: Duration, body: Option<&Value>) -> Duration {
    let stated = body.and_then(|body| body.get("interval")).and_then(seconds);
    (interval + pause(SLOWER)).max(pause(stated.unwrap_or(0)))
}

fn pause(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
