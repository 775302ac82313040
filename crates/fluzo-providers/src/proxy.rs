//! Which proxy a request goes through.
//!
//! The variables and their meaning are those of curl: `http_proxy`, `https_proxy`, `all_proxy` and
//! `no_proxy`, a name in small letters before the same name in capitals.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::address::{is_loopback, literal};

/// Proxies by the scheme of the address asked for, and what is reached without one.
#[derive(Clone, Default)]
pub struct ProxyConfig {
    http: Option<Proxy>,
    https: Option<Proxy>,
    bypass: Vec<Bypass>,
}

/// A proxy and the variable that names it.
#[derive(Clone)]
struct Proxy {
    variable: &'static str,
    /// `None` when its text is no address.
    url: Option<Url>,
}

/// Hosts that are reached without a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bypass {
    All,
    /// A name and every name below it.
    Name {
        name: String,
        port: Option<u16>,
    },
    /// The addresses that share the first `bits` bits.
    Network {
        address: IpAddr,
        bits: u8,
        port: Option<u16>,
    },
}

impl ProxyConfig {
    /// What the variables say; `read` returns the value of a variable.
    ///
    /// `HTTP_PROXY` in capitals does not count where `REQUEST_METHOD` is set: there it is a
    /// header of somebody's request. A value without a scheme is an `http` proxy.
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| read(name).filter(|value| !value.trim().is_empty());
        let proxy = |names: [&'static str; 2]| {
            names.into_iter().find_map(|variable| {
                let untrusted = variable == "HTTP_PROXY" && read("REQUEST_METHOD").is_some();
                let text = value(variable).filter(|_| !untrusted)?;
                let url = proxy_url(&text);
                Some(Proxy { variable, url })
            })
        };
        let all = proxy(["all_proxy", "ALL_PROXY"]);
        let bypass = value("no_proxy").or_else(|| value("NO_PROXY"));
        Self {
            http: proxy(["http_proxy", "HTTP_PROXY"]).or_else(|| all.clone()),
            https: proxy(["https_proxy", "HTTPS_PROXY"]).or(all),
            bypass: bypass.as_deref().map(bypasses).unwrap_or_default(),
        }
    }

    /// The proxy for `url`; `None` is a direct connection. The machine itself is always
    /// reached directly.
    ///
    /// # Errors
    ///
    /// The variable that holds no address of a proxy.
    pub(crate) fn of(&self, url: &Url) -> Result<Option<&Url>, &'static str> {
        let proxy = match url.scheme() {
            "https" => &self.https,
            _ => &self.http,
        };
        let Some(proxy) = proxy else { return Ok(None) };
        let Some(host) = url.host_str() else {
            return Ok(None);
        };
        let port = url.port_or_known_default();
        if is_loopback(host) || self.bypass.iter().any(|b| b.covers(host, port)) {
            return Ok(None);
        }
        proxy.url.as_ref().map(Some).ok_or(proxy.variable)
    }
}

// The address of a proxy may hold a password.
impl fmt::Debug for ProxyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |proxy: &Option<Proxy>| {
            let url = proxy.as_ref()?.url.as_ref();
            Some(url.and_then(crate::http::origin).unwrap_or_default())
        };
        f.debug_struct("ProxyConfig")
            .field("http", &shown(&self.http))
            .field("https", &shown(&self.https))
            .field("bypass", &self.bypass)
            .finish()
    }
}

impl Bypass {
    fn covers(&self, host: &str, port: Option<u16>) -> bool {
        let same_port = |wanted: &Option<u16>| wanted.is_none() || *wanted == port;
        match self {
            Self::All => true,
            Self::Name { name, port } => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let below = host.strip_suffix(name.as_str());
                same_port(port) && below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            Self::Network {
                address,
                bits,
                port,
            } => same_port(port) && literal(host).is_some_and(|host| shares(host, *address, *bits)),
        }
    }
}

fn proxy_url(text: &str) -> Option<Url> {
    let text = text.trim();
    let url = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("http://{text}"))
    };
    let known = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];
    url.ok().filter(|url| {
        known.contains(&url.scheme()) && url.host_str().is_some_and(|h| !h.is_empty())
    })
}

fn bypasses(text: &str) -> Vec<Bypass> {
    text.split([',', ' ', '\t'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .filter_map(bypass)
        .collect()
}

/// One entry; `None` when nothing can match it.
fn bypass(entry: &str) -> Option<Bypass> {
    if entry == "*" {
        return Some(Bypass::All);
    }
    if let Some((address, bits)) = entry.split_once('/') {
        let address = literal(address)?;
        let bits: u8 = bits.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        return (bits <= most).then_some(Bypass::Network {
            address,
            bits,
            port: None,
        });
    }
    let (host, port) = match literal(entry) {
        Some(_) => (entry, None),
        None => match entry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (entry, None),
        },
    };
    if let Some(address) = literal(host) {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return Some(Bypass::Network {
            address,
            bits,
            port,
        });
    }
    let name = host.trim_start_matches('*').trim_matches('.');
    (!name.is_empty()).then(|| Bypass::Name {
        name: name.to_ascii_lowercase(),
        port,
    })
}

fn shares(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (one, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differing = u32::from(a) ^ u32::from(b);
            differing.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differing = u128::from(a) ^ u128::from(b);
            differing.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> ProxyConfig {
        ProxyConfig::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn chosen(variables: &[(&str, &str)], url: &str) -> String {
        match config(variables).of(&Url::parse(url).unwrap()) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "direct".to_owned(),
            Err(variable) => format!("broken {variable}"),
        }
    }

    #[test]
    fn variables_in_both_letter_cases() {
        type Row = (
            &'static [(&'static str, &'static str)],
            &'static str,
            &'static str,
        );
        let rows: &[Row] = &[
            (&[], "https://a.test/", "direct"),
            (
                &[("HTTPS_PROXY", "http://p:1")],
                "https://a.test/",
                "http://p:1/",
            ),
            (
                &[("https_proxy", "http://p:1")],
                "https://a.test/",
                "http://p:1/",
            ),
            (&[("HTTPS_PROXY", "http://p:1")], "http://a.test/", "direct"),
            (
                &[("HTTP_PROXY", "http://p:1")],
                "http://a.test/",
                "http://p:1/",
            ),
            (&[("http_proxy", "p:1")], "http://a.test/", "http://p:1/"),
            (&[("http_proxy", "http://p:1")], "https://a.test/", "direct"),
            (
                &[("ALL_PROXY", "socks5://p:1")],
                "https://a.test/",
                "socks5://p:1",
            ),
            (
                &[("all_proxy", "socks5h://p:1")],
                "http://a.test/",
                "socks5h://p:1",
            ),
            (
                &[
                    ("https_proxy", "http://small:1"),
                    ("HTTPS_PROXY", "http://capital:1"),
                ],
                "https://a.test/",
                "http://small:1/",
            ),
            (
                &[("https_proxy", ""), ("HTTPS_PROXY", "http://capital:1")],
                "https://a.test/",
                "http://capital:1/",
            ),
            (
                &[("all_proxy", "http://all:1"), ("https_proxy", "http://p:1")],
                "https://a.test/",
                "http://p:1/",
            ),
            (
                &[("HTTP_PROXY", "http://p:1"), ("REQUEST_METHOD", "GET")],
                "http://a.test/",
                "direct",
            ),
            (
                &[("http_proxy", "http://p:1"), ("REQUEST_METHOD", "GET")],
                "http://a.test/",
                "http://p:1/",
            ),
            (
                &[("https_proxy", "ftp://p:1")],
                "https://a.test/",
                "broken https_proxy",
            ),
            (
                &[("HTTPS_PROXY", "http://[bad")],
                "https://a.test/",
                "broken HTTPS_PROXY",
            ),
            (
                &[("HTTPS_PROXY", "http://[bad")],
                "http://localhost/",
                "direct",
            ),
        ];
        for (variables, url, expected) in rows {
            assert_eq!(chosen(variables, url), *expected, "{variables:?} {url}");
        }
    }

    #[test]
    fn what_is_reached_directly() {
        let rows = [
            ("", "https://a.test/", false),
            ("*", "https://a.test/", true),
            ("a.test", "https://a.test/", true),
            ("A.Test", "https://a.TEST./", true),
            ("a.test", "https://x.a.test/", true),
            ("a.test", "https://xa.test/", false),
            (".a.test", "https://x.a.test/", true),
            ("*.a.test", "https://x.a.test/", true),
            ("a.test:443", "https://a.test/", true),
            ("a.test:8443", "https://a.test/", false),
            ("a.test:8443", "https://a.test:8443/", true),
            ("x.test, a.test", "https://a.test/", true),
            ("x.test a.test", "https://a.test/", true),
            ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("10.0.0.0/33", "http://10.0.0.0/", false),
            ("0.0.0.0/0", "http://8.8.8.8/", true),
            ("10.1.2.3", "http://10.1.2.3/", true),
            ("10.1.2.3", "http://10.1.2.4/", false),
            ("10.1.2.3:80", "http://10.1.2.3/", true),
            ("10.1.2.3:81", "http://10.1.2.3/", false),
            ("fd00::/8", "http://[fd00::1]/", true),
            ("fd00::1", "http://[fd00::1]/", true),
            ("[fd00::1]", "http://[fd00::1]/", true),
            ("[fd00::1]:80", "http://[fd00::1]/", true),
            ("[fd00::1]:81", "http://[fd00::1]/", false),
            ("::/0", "http://[2001:db8::1]/", true),
            ("a.test:no", "https://a.test/", false),
            // The machine itself, whatever is listed.
            ("", "http://localhost:1/", true),
            ("", "http://x.localhost/", true),
            ("", "http://127.0.0.1:1/", true),
            ("", "http://127.9.9.9/", true),
            ("", "http://[::1]:1/", true),
            ("", "http://[::ffff:127.0.0.1]/", true),
            ("", "http://0.0.0.0:1/", true),
            ("", "http://10.0.0.1/", false),
        ];
        for (no_proxy, url, direct) in rows {
            let variables = [("all_proxy", "http://p:1"), ("NO_PROXY", no_proxy)];
            let got = chosen(&variables, url) == "direct";
            assert_eq!(got, direct, "{no_proxy:?} {url}");
        }
        let both = [
            ("all_proxy", "p:1"),
            ("no_proxy", "a.test"),
            ("NO_PROXY", "*"),
        ];
        assert_eq!(chosen(&both, "http://b.test/"), "http://p:1/");
    }

    #[test]
    fn a_password_is_not_shown() {
        let config = config(&[("all_proxy", "http://u:planted@p:1/planted")]);
        let shown = format!("{config:?}");
        assert!(!shown.contains("planted"), "{shown}");
        assert!(shown.contains("http://p:1"), "{shown}");
    }
}
