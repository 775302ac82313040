//! Small requests whose whole response is read at once: lists of models, tokens.

use std::time::Duration;

use fluzo_llm::{BoxFuture, Secret, StreamError, StreamErrorKind};
use futures_util::StreamExt;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use tokio::time::{Instant, timeout_at};

use crate::failure;
use crate::http::{HttpClient, Outgoing};
use crate::limits::span;
use crate::provider::{invalid, secret_pair};

/// Limits of a small request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Until the connection stands, name lookup and TLS included.
    pub connect: Duration,
    /// From the start to the end of the response.
    pub total: Duration,
    /// Largest response accepted, in bytes after decompression.
    pub max_bytes: usize,
    /// The settings `SECTION.connectTimeoutMs` and `SECTION.totalTimeoutMs` change the limits
    /// in time; an error names them.
    pub section: &'static str,
}

/// A whole response.
#[derive(Clone)]
pub struct Response {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl CallLimits {
    /// For a server that authorises: 10 s to connect, 30 s in all, 256 KiB.
    pub fn sign_in() -> Self {
        Self {
            connect: Duration::from_secs(10),
            total: Duration::from_secs(30),
            max_bytes: 256 << 10,
            section: "signIn",
        }
    }

    /// For a list of models: 5 s to connect, 10 s in all, 1 MiB.
    pub fn discovery() -> Self {
        Self {
            connect: Duration::from_secs(5),
            total: Duration::from_secs(10),
            max_bytes: 1 << 20,
            section: "discovery",
        }
    }
}

impl Response {
    /// The HTTP status; never a redirect.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first value of a header, when it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The server's id of the request.
    pub fn request_id(&self) -> Option<String> {
        failure::request_id(&self.headers)
    }

    /// The body, decompressed. It may hold secrets.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

// Headers and body of a sign-in are secrets.
impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Response({}, {} bytes)", self.status, self.body.len())
    }
}

impl HttpClient {
    /// Asks for `url` and reads the whole response, whatever its status.
    ///
    /// Nothing is sent before the first poll; dropping the future closes the connection. No
    /// error holds a header value, or more of `url` than scheme, host and port.
    ///
    /// # Errors
    ///
    /// `url` or a header cannot be sent, there is no connection, the response breaks off, is too
    /// large or too late, or is a redirect ([`StreamErrorKind::Redirect`]; never followed).
    pub fn get(
        &self,
        url: &str,
        headers: &[(&str, Secret)],
        limits: CallLimits,
    ) -> BoxFuture<'_, Result<Response, StreamError>> {
        self.whole(Method::GET, url, headers, Vec::new(), limits)
    }

    /// Posts `fields` as a form (`application/x-www-form-urlencoded`) and reads the whole
    /// response, whatever its status. Otherwise as [`HttpClient::get`].
    ///
    /// # Errors
    ///
    /// As [`HttpClient::get`].
    pub fn post_form(
        &self,
        url: &str,
        headers: &[(&str, Secret)],
        fields: &[(&str, Secret)],
        limits: CallLimits,
    ) -> BoxFuture<'_, Result<Response, StreamError>> {
        let form = Secret::new("application/x-www-form-urlencoded");
        let mut all = vec![("content-type", form)];
        all.extend_from_slice(headers);
        self.whole(Method::POST, url, &all, form_text(fields), limits)
    }

    fn whole(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, Secret)],
        body: Vec<u8>,
        limits: CallLimits,
    ) -> BoxFuture<'_, Result<Response, StreamError>> {
        let send = address(url).and_then(|url| {
            Ok(Outgoing {
                method,
                url,
                headers: header_map(headers)?,
                body,
                connect: Some(limits.connect),
                pinned: None,
            })
        });
        Box::pin(async move {
            let send = send?;
            whole_response(self, send, limits).await
        })
    }
}

/// Sends `send` through `http` and reads what comes, within `limits`.
pub(crate) async fn whole_response(
    http: &HttpClient,
    send: Outgoing,
    limits: CallLimits,
) -> Result<Response, StreamError> {
    let deadline = Instant::now() + limits.total;
    let url = send.url.clone();
    let work = async {
        let answer = http.send(send).await.map_err(|error| match error.kind {
            StreamErrorKind::Timeout => {
                timed_out("no connection", limits.connect, limits.section, "connect")
            }
            _ => error,
        })?;
        if (300..400).contains(&answer.status) {
            return Err(failure::redirect(answer.status, &answer.headers, &url));
        }
        let (mut parts, mut body) = (answer.body, Vec::new());
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part?);
            if body.len() > limits.max_bytes {
                let text = format!("the response is larger than {} bytes", limits.max_bytes);
                return Err(StreamError::new(StreamErrorKind::TooLarge, text));
            }
        }
        Ok(Response {
            status: answer.status,
            headers: answer.headers,
            body,
        })
    };
    let late = |_| {
        let what = "the response was not complete";
        Err(timed_out(what, limits.total, limits.section, "total"))
    };
    timeout_at(deadline, work).await.unwrap_or_else(late)
}

/// The error of a request that reached the limit `which` of `section`.
pub(crate) fn timed_out(what: &str, limit: Duration, section: &str, which: &str) -> StreamError {
    let limit = span(limit);
    StreamError::new(
        StreamErrorKind::Timeout,
        format!("timed out: {what} within {limit} (setting `{section}.{which}TimeoutMs`)"),
    )
}

fn address(text: &str) -> Result<Url, StreamError> {
    Url::parse(text.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
        .ok_or_else(|| invalid("the address is no http or https address".to_owned()))
}

fn header_map(headers: &[(&str, Secret)]) -> Result<HeaderMap, StreamError> {
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| secret_pair(name, value.reveal()))
        .collect()
}

fn form_text(fields: &[(&str, Secret)]) -> Vec<u8> {
    // The query of an address has the same form.
    let Ok(mut url) = Url::parse("form://x") else {
        return Vec::new();
    };
    url.query_pairs_mut()
        .extend_pairs(fields.iter().map(|(name, value)| (name, value.reveal())));
    url.query().unwrap_or_default().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let rows: [(&[(&str, &str)], &str); 3] = [
            (&[], ""),
            (&[("a", "1"), ("b", "x y&=+é")], "a=1&b=x+y%26%3D%2B%C3%A9"),
            (&[("scope", "")], "scope="),
        ];
        for (fields, text) in rows {
            let fields: Vec<_> = fields.iter().map(|(n, v)| (*n, Secret::new(*v))).collect();
            assert_eq!(String::from_utf8(form_text(&fields)).unwrap(), text);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_named_without_its_value() {
        let http = HttpClient::new("t");
        let none = ("", "");
        let rows = [
            ("planted", none, "the address is no http or https address"),
            (
                "ftp://u:planted@h/",
                none,
                "the address is no http or https address",
            ),
            (
                "http://h/",
                ("a b", "planted"),
                "`a b` is no name of a header",
            ),
            (
                "http://h/",
                ("x-a", "planted\nvalue"),
                "the value of header `x-a` holds characters that cannot be sent",
            ),
        ];
        for (url, (name, value), text) in rows {
            let header = (!name.is_empty()).then(|| (name, Secret::new(value)));
            let headers: Vec<_> = header.into_iter().collect();
            let sent = http.get(url, &headers, CallLimits::discovery()).await;
            let error = sent.unwrap_err();
            assert_eq!(
                (error.kind, error.message.as_str()),
                (StreamErrorKind::InvalidRequest, text)
            );
        }
    }
}
