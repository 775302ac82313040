//! The one HTTP client: no redirects, no cookies, connections kept and reused.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fluzo_llm::{BoxFuture, StreamError, StreamErrorKind};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Url};

use crate::limits::Limit;
use crate::proxy::ProxyConfig;
use crate::roots::{self, ExtraRoots};

/// Idle connections to one server that are kept.
const IDLE_CONNECTIONS: usize = 4;

/// How long an idle connection is kept; a turn's tools may well run for minutes.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// What a client is made of.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    /// What it calls itself.
    pub user_agent: String,
    /// The proxies it goes through.
    pub proxies: ProxyConfig,
    /// Certificate authorities besides the built-in ones.
    pub extra_roots: ExtraRoots,
}

/// A client that is cheap until its first request.
///
/// It reads no environment and no system settings. TLS roots are loaded with the first
/// request to an `https` address. It never follows a redirect and never resends.
#[derive(Debug)]
pub struct HttpClient {
    config: HttpConfig,
    built: Mutex<Vec<(Variant, Client)>>,
}

/// What a client is built for. There are hardly more than two in one process.
#[derive(Clone, PartialEq, Eq)]
struct Variant {
    tls: bool,
    connect: Option<Duration>,
    proxy: Option<Url>,
    /// The host and the only addresses it may be reached at.
    pinned: Option<(String, Vec<IpAddr>)>,
}

// The address of a proxy may hold a password.
impl std::fmt::Debug for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Variant(tls: {}, proxy: {})",
            self.tls,
            self.proxy.is_some()
        )
    }
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
    /// The only addresses that may be connected to, instead of looking the host up. Means
    /// nothing when the request goes through a proxy.
    pub pinned: Option<Vec<IpAddr>>,
}

/// A response whose head has arrived.
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: BoxStream<'static, Result<Bytes, StreamError>>,
}

impl HttpClient {
    /// A client that calls itself `user_agent`, uses no proxy and trusts the built-in authorities.
    pub fn new(user_agent: impl Into<String>) -> Self {
        Self::with_config(HttpConfig {
            user_agent: user_agent.into(),
            ..HttpConfig::default()
        })
    }

    /// A client as `config` says.
    pub fn with_config(config: HttpConfig) -> Self {
        Self {
            config,
            built: Mutex::new(Vec::new()),
        }
    }

    /// The proxy that a request to `url` goes through, as scheme, host and port.
    ///
    /// # Errors
    ///
    /// The text for the user when the variable of the proxy holds no address.
    pub(crate) fn proxy_origin(&self, url: &Url) -> Result<Option<String>, StreamError> {
        Ok(self.proxy(url)?.as_ref().and_then(origin))
    }

    /// Sends `post`, as [`HttpClient::send`] does.
    pub(crate) fn post(&self, post: Post) -> BoxFuture<'static, Result<Answer, StreamError>> {
        self.send(Outgoing {
            method: Method::POST,
            url: post.url,
            headers: post.headers,
            body: post.body,
            connect: post.connect,
            pinned: None,
        })
    }

    /// Sends `send`; the answer's body is read by polling its stream, and dropping
    /// future or stream closes the connection.
    pub(crate) fn send(&self, send: Outgoing) -> BoxFuture<'static, Result<Answer, StreamError>> {
        let route = self.route(&send);
        Box::pin(async move {
            let route = route?;
            let request = route.client.request(send.method, send.url);
            let request = request.headers(send.headers);
            let request = if send.body.is_empty() {
                request
            } else {
                request.body(send.body)
            };
            let sent = request.send().await;
            let response = sent.map_err(|error| send_error(&error, &route, send.connect))?;
            let (status, target) = (response.status().as_u16(), &route.target);
            tracing::debug!(status, target, "response head");
            Ok(Answer {
                status,
                headers: response.headers().clone(),
                body: response
                    .bytes_stream()
                    .map(|part| part.map_err(|error| body_error(&error)))
                    .boxed(),
            })
        })
    }

    fn route(&self, send: &Outgoing) -> Result<Route, StreamError> {
        let proxy = self.proxy(&send.url)?;
        let pinned = send.pinned.clone();
        let host = send.url.host_str().unwrap_or_default().to_owned();
        let variant = Variant {
            tls: send.url.scheme() == "https"
                || proxy
                    .as_ref()
                    .is_some_and(|proxy| proxy.scheme() == "https"),
            connect: send.connect,
            proxy: proxy.clone(),
            pinned: pinned.map(|addresses| (host, addresses)),
        };
        Ok(Route {
            client: self.client(variant)?,
            target: origin(&send.url).unwrap_or_default(),
            proxy: proxy.as_ref().and_then(origin),
        })
    }

    /// The proxy that a request to `url` goes through.
    ///
    /// # Errors
    ///
    /// The text for the user when the variable of the proxy holds no address.
    pub(crate) fn proxy(&self, url: &Url) -> Result<Option<Url>, StreamError> {
        self.config
            .proxies
            .of(url)
            .map(|proxy| proxy.cloned())
            .map_err(|variable| {
                unusable(format!(
                    "the proxy in `{variable}` cannot be used: it is no address such as `http://host:port`"
                ))
            })
    }

    fn client(&self, variant: Variant) -> Result<Client, StreamError> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = built.iter().find(|(known, _)| *known == variant) {
            return Ok(client.clone());
        }
        let client = build(&self.config, &variant)
            .map_err(|reason| unusable(format!("the HTTP client cannot be built: {reason}")))?;
        // Addresses are pinned for one request.
        if variant.pinned.is_none() {
            built.push((variant, client.clone()));
        }
        Ok(client)
    }
}

/// The way of one request.
struct Route {
    client: Client,
    target: String,
    proxy: Option<String>,
}

impl Route {
    /// Where the request was to go, for an error.
    fn shown(&self) -> String {
        match &self.proxy {
            Some(proxy) => format!("`{}` through the proxy `{proxy}`", self.target),
            None => format!("`{}`", self.target),
        }
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

fn build(config: &HttpConfig, variant: &Variant) -> Result<Client, String> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(roots::tls(variant.tls, &config.extra_roots)?)
        .user_agent(&config.user_agent)
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
    if let Some(proxy) = &variant.proxy {
        let proxy = reqwest::Proxy::all(proxy.clone()).map_err(|error| chain(&error))?;
        builder = builder.proxy(proxy);
    }
    if let Some((host, addresses)) = &variant.pinned {
        let sockets: Vec<_> = addresses.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        builder = builder.resolve_to_addrs(host, &sockets);
    }
    builder.build().map_err(|error| chain(&error))
}

fn unusable(text: String) -> StreamError {
    StreamError::new(StreamErrorKind::InvalidRequest, text)
}

fn send_error(error: &reqwest::Error, route: &Route, connect: Option<Duration>) -> StreamError {
    match connect {
        Some(limit) if error.is_connect() && error.is_timeout() => {
            return Limit::Connect.error(limit);
        }
        _ => {}
    }
    let (target, cause) = (route.shown(), chain(error));
    if is_untrusted(error) {
        return unusable(format!(
            "connection refused: {target} cannot be trusted: {cause}; an authority of your own is added with \
             the setting `caFiles` or the variable `SSL_CERT_FILE`"
        ));
    }
    if error.is_connect() {
        let text = format!("connection error: {target} cannot be reached: {cause}");
        return StreamError::new(StreamErrorKind::Connect, text);
    }
    if error.is_builder() {
        return unusable(format!("the request to {target} cannot be sent: {cause}"));
    }
    let text = format!("connection lost: {target} gave no answer: {cause}");
    StreamError::new(StreamErrorKind::Transient, text)
}

/// Whether the server's certificate is the reason.
fn is_untrusted(error: &reqwest::Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return true;
        }
        // An I/O error is transparent: its source is that of the error it wraps.
        let wrapped = error.downcast_ref::<std::io::Error>();
        next = match wrapped.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
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
        let variant = |tls: bool, proxy: Option<&str>| Variant {
            tls,
            connect: None,
            proxy: proxy.map(|text| Url::parse(text).unwrap()),
            pinned: None,
        };
        let proxied = || variant(false, Some("http://u:planted@p:1"));
        for variant in [
            variant(false, None),
            variant(false, None),
            variant(true, None),
            proxied(),
            variant(false, None),
            proxied(),
        ] {
            http.client(variant).unwrap();
        }
        assert_eq!(http.built.lock().unwrap().len(), 3);
        assert!(!format!("{http:?}").contains("planted"), "{http:?}");
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
