//! Limits of one request, and which of them apply to which endpoint.
//!
//! Every limit is a value handed in. One that fires names itself and its setting key.

use std::time::Duration;

use fluzo_llm::{StreamError, StreamErrorKind};
use reqwest::Url;

use crate::address::{AddressClass, literal};

const TOTAL_SETTING: &str = "provider.totalTimeoutMs";

/// Limits of one request. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the connection until it stands, name lookup and TLS included.
    pub connect: Option<Duration>,
    /// From the start of the request until the first text, thinking or tool call.
    /// Response headers, comments and empty events do not count.
    pub first_output: Option<Duration>,
    /// Between two signs of life once output has begun.
    pub idle: Option<Duration>,
    /// From the start of the request to the end of the response.
    pub total: Option<Duration>,
    /// Key of the setting that changes `total`.
    pub total_setting: &'static str,
    /// Largest event accepted, in bytes.
    pub max_event_bytes: usize,
    /// Largest response accepted, in bytes after decompression.
    pub max_response_bytes: u64,
    /// Whether comments and empty events are signs of life. They never count as output.
    pub keepalive_counts: bool,
}

/// Limits by where the endpoint is: a local server may load a model and read a long prompt
/// for many minutes before its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitPolicy {
    /// For loopback, private and link-local addresses, and names without a dot.
    pub local: Limits,
    /// For everything else.
    pub remote: Limits,
}

/// A limit in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::connect`].
    Connect,
    /// [`Limits::first_output`].
    FirstOutput,
    /// [`Limits::idle`].
    Idle,
    /// [`Limits::total`].
    Total,
}

impl Limits {
    /// Long limits without a limit on the whole request: waits of 10 minutes for the first
    /// output and 5 minutes between signs of life, or 30 minutes each when `local`.
    pub fn open(local: bool) -> Self {
        let minutes = |n: u64| Some(Duration::from_secs(60 * n));
        Self {
            connect: Some(Duration::from_secs(30)),
            first_output: minutes(if local { 30 } else { 10 }),
            idle: minutes(if local { 30 } else { 5 }),
            total: None,
            total_setting: TOTAL_SETTING,
            max_event_bytes: 16 << 20,
            max_response_bytes: 256 << 20,
            keepalive_counts: true,
        }
    }

    /// The error of a request that reached `limit` after `span`.
    pub(crate) fn error(&self, limit: Limit, span: Duration) -> StreamError {
        let setting = match limit {
            Limit::Total => self.total_setting,
            other => other.setting(),
        };
        limit.error_naming(span, setting)
    }

    /// Short limits: 10 s to connect, 90 s to the first output, 30 s between output, 180 s in all.
    pub fn governed() -> Self {
        let seconds = |n| Some(Duration::from_secs(n));
        Self {
            connect: seconds(10),
            first_output: seconds(90),
            idle: seconds(30),
            total: seconds(180),
            keepalive_counts: false,
            ..Self::open(false)
        }
    }
}

impl LimitPolicy {
    /// [`Limits::open`] for both places.
    pub fn open() -> Self {
        Self {
            local: Limits::open(true),
            remote: Limits::open(false),
        }
    }

    /// The same limits everywhere.
    pub fn uniform(limits: Limits) -> Self {
        Self {
            local: limits,
            remote: limits,
        }
    }

    pub(crate) fn of(&self, url: &Url) -> Limits {
        if is_local(url) {
            self.local
        } else {
            self.remote
        }
    }
}

impl Limit {
    /// The setting that changes it.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Connect => "provider.connectTimeoutMs",
            Self::FirstOutput => "provider.firstOutputTimeoutMs",
            Self::Idle => "provider.idleTimeoutMs",
            Self::Total => TOTAL_SETTING,
        }
    }

    /// The error of a request that reached it after `limit`.
    pub fn error(self, limit: Duration) -> StreamError {
        self.error_naming(limit, self.setting())
    }

    fn error_naming(self, limit: Duration, setting: &str) -> StreamError {
        let what = match self {
            Self::Connect => "no connection",
            Self::FirstOutput => "no output from the model",
            Self::Idle => "nothing more from the model",
            Self::Total => "the response was not complete",
        };
        let text = format!(
            "timed out: {what} within {} (setting `{setting}`)",
            span(limit)
        );
        StreamError::new(StreamErrorKind::Timeout, text)
    }
}

/// A limit in words.
pub(crate) fn span(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}

/// Whether `url` points into the machine or its private network.
pub fn is_local(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    if let Some(address) = literal(host) {
        return AddressClass::of(address) != AddressClass::Public;
    }
    let host = host.trim_end_matches('.');
    let suffixes = [".localhost", ".local", ".internal", ".lan"];
    !host.contains('.') || suffixes.iter().any(|suffix| host.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_endpoints() {
        let rows = [
            ("http://localhost:11434/v1", true),
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://192.168.1.5/v1", true),
            ("http://10.0.0.1/v1", true),
            ("http://100.100.1.1/v1", true),
            ("http://[fd00::1]/v1", true),
            ("http://ollama:11434/v1", true),
            ("http://box.local/v1", true),
            ("https://api.example.com/v1", false),
            ("https://8.8.8.8/v1", false),
            ("https://localhost.example.com/v1", false),
            ("https://[2001:db8::1]/v1", false),
        ];
        for (url, local) in rows {
            assert_eq!(is_local(&Url::parse(url).unwrap()), local, "{url}");
        }
    }

    #[test]
    fn each_limit_names_itself_and_its_setting() {
        let rows = [
            (
                Limit::Connect,
                "timed out: no connection within 2 s (setting `provider.connectTimeoutMs`)",
            ),
            (
                Limit::FirstOutput,
                "timed out: no output from the model within 2 s (setting `provider.firstOutputTimeoutMs`)",
            ),
            (
                Limit::Idle,
                "timed out: nothing more from the model within 2 s (setting `provider.idleTimeoutMs`)",
            ),
            (
                Limit::Total,
                "timed out: the response was not complete within 2 s (setting `provider.totalTimeoutMs`)",
            ),
        ];
        for (limit, text) in rows {
            let error = limit.error(Duration::from_secs(2));
            assert_eq!(
                (error.kind, error.message.as_str()),
                (StreamErrorKind::Timeout, text)
            );
        }
    }

    #[test]
    fn the_limit_of_a_whole_request_names_the_setting_that_gave_it() {
        let limits = Limits {
            total_setting: "other.key",
            ..Limits::open(false)
        };
        let text = |limit| limits.error(limit, Duration::from_secs(2)).message;
        assert!(text(Limit::Total).ends_with("(setting `other.key`)"));
        assert!(text(Limit::Idle).ends_with("(setting `provider.idleTimeoutMs`)"));
    }

    #[test]
    fn defaults_of_the_open_profile_are_long_and_longer_for_local_servers() {
        let policy = LimitPolicy::open();
        assert_eq!(policy.local.first_output, Some(Duration::from_secs(1800)));
        assert_eq!(policy.remote.first_output, Some(Duration::from_secs(600)));
        assert_eq!(policy.remote.idle, Some(Duration::from_secs(300)));
        assert_eq!((policy.local.total, policy.remote.total), (None, None));
    }

    #[test]
    fn defaults_of_the_governed_profile() {
        let limits = Limits::governed();
        let all = [
            limits.connect,
            limits.first_output,
            limits.idle,
            limits.total,
        ];
        assert_eq!(
            all.map(|limit| limit.map(|l| l.as_secs())),
            [Some(10), Some(90), Some(30), Some(180)]
        );
    }
}
