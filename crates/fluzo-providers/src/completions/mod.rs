//! Chat Completions (`openai-completions`): one POST to `BASE/chat/completions`, answered by
//! a stream of events or by one JSON object.

mod compat;
mod end;
mod messages;
mod request;
mod response;
mod usage;
mod wire;

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, EventStream, ModelRequest, Provider, StreamError, StreamErrorKind, StreamEvent,
};
use futures_util::stream;
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

pub use end::{Judgement, Signals, judge_end};

use crate::drive::{Exchange, drive};
use crate::failure::{Clock, Context};
use crate::http::{HttpClient, Post};
use crate::limits::LimitPolicy;
use crate::redact::Redactor;
use response::ResponseReader;

/// The name of this dialect.
pub const API: &str = "openai-completions";

/// A server that speaks Chat Completions.
pub struct CompletionsProvider {
    http: Arc<HttpClient>,
    limits: LimitPolicy,
    clock: Clock,
}

impl CompletionsProvider {
    /// A provider that sends over `http` within `limits`. `clock` is asked only when a server
    /// names a date until which to wait and not its own time.
    pub fn new(http: Arc<HttpClient>, limits: LimitPolicy, clock: Clock) -> Self {
        Self {
            http,
            limits,
            clock,
        }
    }

    fn exchange(
        &self,
        request: &ModelRequest,
        abort: AbortSignal,
    ) -> Result<Exchange, StreamError> {
        let url = endpoint(&request.model.base_url, &request.model.provider)?;
        let limits = self.limits.of(&url);
        let context = Context {
            redactor: Redactor::new(&request.auth),
            clock: Arc::clone(&self.clock),
        };
        let body = request::body(request)
            .map_err(|error| invalid(format!("the request cannot be written as JSON: {error}")))?;
        let post = Post {
            url: url.clone(),
            headers: headers(request)?,
            body,
            connect: limits.connect,
        };
        let http = Arc::clone(&self.http);
        Ok(Exchange {
            // The client is built, and the request sent, by the first poll.
            send: Box::pin(async move { http.post(post).await }),
            url,
            limits,
            abort,
            reader: Box::new(ResponseReader::new(request, &limits, context.clone())),
            context,
        })
    }
}

impl Provider for CompletionsProvider {
    fn stream(&self, request: ModelRequest, abort: AbortSignal) -> EventStream {
        match self.exchange(&request, abort) {
            Ok(exchange) => drive(exchange),
            Err(error) => Box::pin(stream::iter([StreamEvent::failure(error)])),
        }
    }
}

fn endpoint(base_url: &str, provider: &str) -> Result<Url, StreamError> {
    // The address may hold a password, so the error names the provider instead.
    let unusable = || {
        invalid(format!(
            "the base URL of provider `{provider}` is no http or https address"
        ))
    };
    let mut url = Url::parse(base_url.trim()).map_err(|_| unusable())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(unusable());
    }
    url.path_segments_mut()
        .map_err(|()| unusable())?
        .pop_if_empty()
        .extend(["chat", "completions"]);
    url.set_fragment(None);
    Ok(url)
}

/// Headers of the model, then those of the request, each replacing an earlier one of its name.
fn headers(request: &ModelRequest) -> Result<HeaderMap, StreamError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("text/event-stream, application/json"),
    );
    if let Some(key) = &request.auth.api_key {
        let value = secret_value("authorization", &format!("Bearer {}", key.reveal()))?;
        headers.insert(AUTHORIZATION, value);
    }
    let of_model = request
        .model
        .headers
        .iter()
        .map(|(name, value)| (name, value.as_str()));
    let of_request = request
        .auth
        .headers
        .iter()
        .map(|(name, value)| (name, value.reveal()));
    for (name, value) in of_model.chain(of_request) {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("`{name}` is no name of a header")))?;
        headers.insert(key, secret_value(name, value)?);
    }
    Ok(headers)
}

fn secret_value(name: &str, value: &str) -> Result<HeaderValue, StreamError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        invalid(format!(
            "the value of header `{name}` holds characters that cannot be sent"
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn invalid(text: String) -> StreamError {
    StreamError::new(StreamErrorKind::InvalidRequest, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let rows = [
            ("http://h:1/v1", Some("http://h:1/v1/chat/completions")),
            ("http://h:1/v1/", Some("http://h:1/v1/chat/completions")),
            ("https://h", Some("https://h/chat/completions")),
            (
                "https://h/x?version=1#f",
                Some("https://h/x/chat/completions?version=1"),
            ),
            ("ftp://h/v1", None),
            ("h:1/v1", None),
            ("", None),
        ];
        for (base, expected) in rows {
            assert_eq!(
                endpoint(base, "p").ok().as_ref().map(Url::as_str),
                expected,
                "{base}"
            );
        }
    }
}
