//! One request in one dialect: address, headers, body and the reader of the response.

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, EventStream, FormSwitch, ModelRequest, Provider, Secret, StreamError,
    StreamErrorKind, StreamEvent,
};
use futures_util::stream;
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::drive::{Asked, Exchange, drive};
use crate::failure::{Clock, Context};
use crate::host_headers;
use crate::http::{HttpClient, Post};
use crate::limits::LimitPolicy;
use crate::reader::{BodyReader, Meaning};
use crate::redact::Redactor;

/// What a dialect makes of a request.
pub(crate) trait Dialect: Send + Sync {
    /// Where the request goes.
    ///
    /// # Errors
    ///
    /// When the base URL cannot be used.
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError>;

    /// Adds the dialect's own headers, that of the key included. Headers of the model and of
    /// the credentials come after them and replace them.
    ///
    /// # Errors
    ///
    /// When a value cannot be sent.
    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError>;

    /// The JSON of the request. The same request gives the same bytes.
    ///
    /// # Errors
    ///
    /// When a value cannot be written as JSON.
    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error>;

    /// What will understand the response.
    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning>;
}

/// A server that speaks one dialect.
pub(crate) struct HttpProvider {
    dialect: &'static dyn Dialect,
    http: Arc<HttpClient>,
    limits: LimitPolicy,
    clock: Clock,
}

impl HttpProvider {
    /// A provider that sends over `http` within `limits`. `clock` is asked when a server names
    /// a date until which to wait and not its own time, and by dialects that make ids of calls.
    pub(crate) fn new(
        dialect: &'static dyn Dialect,
        http: Arc<HttpClient>,
        limits: LimitPolicy,
        clock: Clock,
    ) -> Self {
        Self {
            dialect,
            http,
            limits,
            clock,
        }
    }

    fn exchange(&self, request: ModelRequest, abort: AbortSignal) -> Result<Exchange, StreamError> {
        let url = self.dialect.endpoint(&request)?;
        let limits = self.limits.of(&url);
        let context = Context {
            redactor: Redactor::new(&request.auth)
                .with_address(&url)
                .with_proxy(self.http.proxy(&url)?.as_ref()),
            clock: Arc::clone(&self.clock),
        };
        let body = self
            .dialect
            .body(&request)
            .map_err(|error| invalid(format!("the request cannot be written as JSON: {error}")))?;
        let post = Post {
            url: url.clone(),
            headers: self.headers(&request)?,
            body,
            connect: limits.connect,
        };
        let http = Arc::clone(&self.http);
        let meaning = self.dialect.meaning(&request, context.clone());
        let dialect = self.dialect;
        Ok(Exchange {
            // The client is built, and the request sent, by the first poll.
            send: Box::pin(async move { http.post(post).await }),
            url,
            limits,
            abort,
            reader: Box::new(BodyReader::new(meaning, &limits, context.clone())),
            context,
            asked: Asked {
                window: request.model.context_window,
                other_form: Box::new(move |switches| other_form(dialect, &request, switches)),
            },
        })
    }

    /// Headers of the dialect, then of the model, then of the credentials, each replacing an
    /// earlier one of its name.
    fn headers(&self, request: &ModelRequest) -> Result<HeaderMap, StreamError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("text/event-stream, application/json"),
        );
        self.dialect.headers(request, &mut headers)?;
        host_headers::add(request, &mut headers)?;
        let of_model = request.model.headers.iter();
        let of_model = of_model.map(|(name, value)| (name, value.as_str()));
        let of_credentials = request.auth.headers.iter();
        let of_credentials = of_credentials.map(|(name, value)| (name, value.reveal()));
        for (name, value) in of_model.chain(of_credentials) {
            let (name, value) = secret_pair(name, value)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

impl Provider for HttpProvider {
    fn stream(&self, request: ModelRequest, abort: AbortSignal) -> EventStream {
        match self.exchange(request, abort) {
            Ok(exchange) => drive(exchange),
            Err(error) => Box::pin(stream::iter([StreamEvent::failure(error)])),
        }
    }
}

/// The first of `switches` that would change `request`. A key that the user or an earlier
/// refusal has decided about is not offered.
fn other_form(
    dialect: &dyn Dialect,
    request: &ModelRequest,
    switches: &[FormSwitch],
) -> Option<FormSwitch> {
    let decided = |switch: &&FormSwitch| {
        let mut forms = request.options.forms.iter();
        request.model.compat.contains_key(switch.key())
            || forms.any(|form| form.key() == switch.key())
    };
    let mut open = switches.iter().filter(|switch| !decided(switch)).peekable();
    open.peek()?;
    let body = dialect.body(request).ok()?;
    let changes = |switch: &&FormSwitch| {
        let mut other = request.clone();
        other.options.forms.push(**switch);
        dialect.body(&other).is_ok_and(|other| other != body)
    };
    open.find(changes).copied()
}

/// The base URL of `request` with `segments` added to its path.
pub(crate) fn endpoint(request: &ModelRequest, segments: &[&str]) -> Result<Url, StreamError> {
    let provider = &request.model.provider;
    // The address may hold a password, so the error names the provider instead.
    let unusable = || {
        invalid(format!(
            "the base URL of provider `{provider}` is no http or https address"
        ))
    };
    let mut url = Url::parse(base_url(request).trim()).map_err(|_| unusable())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(unusable());
    }
    url.path_segments_mut()
        .map_err(|()| unusable())?
        .pop_if_empty()
        .extend(segments);
    url.set_fragment(None);
    Ok(url)
}

/// The base URL that counts: what the credentials name, else the model's.
pub(crate) fn base_url(request: &ModelRequest) -> &str {
    let named = request.auth.base_url.as_deref();
    named.unwrap_or(&request.model.base_url)
}

/// Sends the key, when there is one, as `authorization: Bearer KEY`.
pub(crate) fn bearer(request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
    let value = |key: &Secret| format!("Bearer {}", key.reveal());
    match request.auth.api_key.as_ref().map(value) {
        Some(value) => secret_header("authorization", &value, headers),
        None => Ok(()),
    }
}

/// Adds a header that is never shown.
pub(crate) fn secret_header(
    name: &'static str,
    value: &str,
    headers: &mut HeaderMap,
) -> Result<(), StreamError> {
    headers.insert(HeaderName::from_static(name), secret_value(name, value)?);
    Ok(())
}

/// A header that is never shown.
pub(crate) fn secret_pair(
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), StreamError> {
    let key = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("`{name}` is no name of a header")))?;
    Ok((key, secret_value(name, value)?))
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

/// The error of a request that cannot be sent.
pub(crate) fn invalid(text: String) -> StreamError {
    StreamError::new(StreamErrorKind::InvalidRequest, text)
}

#[cfg(test)]
mod tests {
    use fluzo_llm::{RequestAuth, RequestOptions, Transcript};

    use super::*;

    fn request(base_url: &str, named: Option<&str>) -> ModelRequest {
        let model = serde_json::json!({
            "id": "m", "name": "m", "api": "a", "provider": "p", "baseUrl": base_url,
            "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        });
        ModelRequest {
            model: Arc::new(serde_json::from_value(model).unwrap()),
            system_prompt: "".into(),
            transcript: Transcript::default(),
            tools: [].into(),
            options: RequestOptions::default(),
            auth: RequestAuth {
                base_url: named.map(str::to_owned),
                ..RequestAuth::default()
            },
        }
    }

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
            let url = endpoint(&request(base, None), &["chat", "completions"]);
            assert_eq!(url.ok().as_ref().map(Url::as_str), expected, "{base}");
        }
    }

    #[test]
    fn what_the_credentials_name_wins() {
        let url = endpoint(&request("https://a/v1", Some("https://b")), &["x"]).unwrap();
        assert_eq!(url.as_str(), "https://b/x");
    }
}
