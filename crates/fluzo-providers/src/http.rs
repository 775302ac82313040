//! The one HTTP client: no proxy, no redirects, no cookies, connections kept and reused.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fluzo_llm::{BoxFuture, StreamError, StreamErrorKind};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Url};

use crate::limits::Limit;

/// Idle connections to one server that are kept.
const IDLE_CONNECTIONS: usize = 4;

/// How long an idle connection is kept; a turn's tools may well run for minutes.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// A client that is cheap until its first request.
///
/// It reads no environment and no system settings. TLS roots are loaded with the first
/// request to an `https` address. It never follows a redirect and never resends.
#[derive(Debug)]
pub struct HttpClient {
    user_agent: String,
    built: Mutex<Vec<(Variant, Client)>>,
}

/// What a client is built for. There are hardly more than two in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    tls: bool,
    connect: Option<Duration>,
}

/// A request to be posted.
pub(crate) struct Post {
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub connect: Option<Duration>,
}

/// A request to be sent.
pub(crate) struct Outgoing {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub connect: Option<Duration>,
}

/// A response whose head has arrived.
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: BoxStream<'static, Result<Bytes, StreamError>>,
}

impl HttpClient {
    /// A client that calls itself `user_agent`.
    pub fn new(user_agent: impl Into<String>) -> Self {
        Self {
            user_agent: user_agent.into(),
            built: Mutex::new(Vec::new()),
        }
    }

    /// Sends `post`, as [`HttpClient::send`] does.
    pub(crate) fn post(&self, post: Post) -> BoxFuture<'static, Result<Answer, StreamError>> {
        self.send(Outgoing {
            method: Method::POST,
            url: post.url,
            headers: post.headers,
            body: post.body,
            connect: post.connect,
        })
    }

    /// Sends `send`; the answer's body is read by polling its stream, and dropping
    /// future or stream closes the connection.
    pub(crate) fn send(&self, send: Outgoing) -> BoxFuture<'static, Result<Answer, StreamError>> {
        let client = self.client(Variant {
            tls: send.url.scheme() == "https",
            connect: send.connect,
        });
        Box::pin(async move {
            let target = origin(&send.url).unwrap_or_default();
            let request = client?.request(send.method, send.url).headers(send.headers);
            let request = if send.body.is_empty() {
                request
            } else {
                request.body(send.body)
            };
            let sent = request.send().await;
            let response = sent.map_err(|error| send_error(&error, &target, send.connect))?;
            tracing::debug!(status = response.status().as_u16(), target, "response head");
            Ok(Answer {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                body: response
                    .bytes_stream()
                    .map(|part| part.map_err(|error| body_error(&error)))
                    .boxed(),
            })
        })
    }

    fn client(&self, variant: Variant) -> Result<Client, StreamError> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = built.iter().find(|(known, _)| *known == variant) {
            return Ok(client.clone());
        }
        let client = build(&self.user_agent, variant).map_err(|reason| {
            StreamError::new(
                StreamErrorKind::Connect,
                format!("the HTTP client cannot be built: {reason}"),
            )
        })?;
        built.push((variant, client.clone()));
        Ok(client)
    }
}

/// Scheme, host and port, without anything secret. `None` when there is no host.
pub(crate) fn origin(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    Some(format!("{}://{host}{port}", url.scheme()))
}

fn build(user_agent: &str, variant: Variant) -> Result<Client, String> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(variant.tls)?)
        .user_agent(user_agent)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_TIME);
    if let Some(connect) = variant.connect {
        builder = builder.connect_timeout(connect);
    }
    builder.build().map_err(|error| chain(&error))
}

/// Without `roots` no server is trusted: right for a client that only speaks plain HTTP.
fn tls(roots: bool) -> Result<rustls::ClientConfig, String> {
    let mut store = rustls::RootCertStore::empty();
    if roots {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(store).with_no_client_auth())
}

fn send_error(error: &reqwest::Error, target: &str, connect: Option<Duration>) -> StreamError {
    match connect {
        Some(limit) if error.is_connect() && error.is_timeout() => {
            return Limit::Connect.error(limit);
        }
        _ => {}
    }
    if error.is_connect() {
        let text = format!(
            "connection error: `{target}` cannot be reached: {}",
            chain(error)
        );
        return StreamError::new(StreamErrorKind::Connect, text);
    }
    if error.is_builder() {
        let text = format!("the request to `{target}` cannot be sent: {}", chain(error));
        return StreamError::new(StreamErrorKind::InvalidRequest, text);
    }
    let text = format!(
        "connection lost: `{target}` gave no answer: {}",
        chain(error)
    );
    StreamError::new(StreamErrorKind::Transient, text)
}

fn body_error(error: &reqwest::Error) -> StreamError {
    let text = format!(
        "connection lost: the response was cut off: {}",
        chain(error)
    );
    StreamError::new(StreamErrorKind::Incomplete, text)
}

/// The innermost cause; the outer ones only say that a request failed, and to which URL.
fn chain(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_built_once_and_for_what_is_needed() {
        let http = HttpClient::new("test");
        assert!(http.built.lock().unwrap().is_empty());
        let plain = Variant {
            tls: false,
            connect: None,
        };
        for variant in [
            plain,
            plain,
            Variant {
                tls: true,
                connect: None,
            },
            plain,
        ] {
            http.client(variant).unwrap();
        }
        assert_eq!(http.built.lock().unwrap().len(), 2);
    }

    #[test]
    fn origins() {
        let rows = [
            ("http://u:p@h:1/x?y", Some("http://h:1")),
            ("https://h/x", Some("https://h")),
            ("http://[::1]:8/x", Some("http://[::1]:8")),
            ("data:x", None),
        ];
        for (url, expected) in rows {
            assert_eq!(origin(&Url::parse(url).unwrap()).as_deref(), expected);
        }
    }
}
