//! Asks a server for its models, when the user wants it.
//!
//! In two steps, so that the user can be told before anything is connected: [`Discovery::probe`]
//! looks the name up and says where it leads, [`Discovery::list`] connects, and only to an
//! address of the class that was told. Nothing but lists of models is ever asked for.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use fluzo_llm::{BoxFuture, RequestAuth, StreamError};
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use tokio::time::timeout;

use crate::address::{AddressClass, literal};
use crate::call::{CallLimits, Response, timed_out, whole_response};
use crate::http::{HttpClient, Outgoing, origin};
use crate::model_lists::{self, Family, MAX_MODELS};
use crate::provider::secret_pair;
use crate::redact::Redactor;

/// Looks names up.
pub trait Resolver: Send + Sync {
    /// The addresses of `host`; none when the name is unknown. Dropping the future abandons the
    /// search.
    ///
    /// # Errors
    ///
    /// The text for the user when the search failed.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>>;
}

/// A server that may be asked.
#[derive(Debug, Clone)]
pub struct ModelServer {
    /// Its base URL, as a model has it.
    pub base_url: String,
    /// The dialect it speaks; it decides how a list of models is asked for.
    pub api: String,
    /// Key and headers.
    pub auth: RequestAuth,
}

/// Where an endpoint leads. Nothing has been connected for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Scheme, host and port.
    pub origin: String,
    /// How it is reached.
    pub reach: Reach,
    /// What is sent can be read on the way.
    pub cleartext: bool,
    /// A key or header of the user would be sent.
    pub authorized: bool,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// At one of these addresses, which are of this class.
    Direct {
        /// The addresses of its name.
        addresses: Vec<IpAddr>,
        /// Their class.
        class: AddressClass,
    },
    /// Through this proxy, which looks the name up itself.
    Proxy(String),
}

/// What a server says of its models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelList {
    /// The models, in the server's order.
    pub models: Vec<DiscoveredModel>,
    /// There were more than are accepted.
    pub truncated: bool,
}

/// A model of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredModel {
    /// Its id.
    pub id: String,
    /// What it is called, when the server says so.
    pub name: Option<String>,
    /// Its context window in tokens, when the server says so.
    pub context: Option<u64>,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The base URL cannot be used.
    #[error("the base URL is no http or https address")]
    Address,
    /// The name leads nowhere.
    #[error("`{host}` is unresolved: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// Why.
        reason: String,
    },
    /// The name leads elsewhere than it did when the user was told.
    #[error("`{origin}` was {shown} and now is {found}: nothing was connected")]
    Changed {
        /// Scheme, host and port.
        origin: String,
        /// What the user was told.
        shown: String,
        /// What is found now.
        found: String,
    },
    /// The request failed.
    #[error(transparent)]
    Request(#[from] StreamError),
    /// The server refused.
    #[error("`{origin}` answered {status} when asked for its models")]
    Refused {
        /// Scheme, host and port.
        origin: String,
        /// The status.
        status: u16,
    },
    /// The answer is something else.
    #[error("`{origin}` gave no list of models")]
    NoList {
        /// Scheme, host and port.
        origin: String,
    },
}

/// Asks servers for their models.
pub struct Discovery {
    http: Arc<HttpClient>,
    resolver: Arc<dyn Resolver>,
    limits: CallLimits,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { addresses, class } => {
                let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                write!(f, "{class} ({})", shown.join(", "))
            }
            Self::Proxy(proxy) => write!(f, "behind the proxy {proxy}"),
        }
    }
}

impl Probe {
    /// Whether somebody on the way could read or change what is sent: the connection is neither
    /// encrypted nor within the machine.
    pub fn is_exposed(&self) -> bool {
        let within = matches!(
            self.reach,
            Reach::Direct {
                class: AddressClass::Loopback,
                ..
            }
        );
        self.cleartext && !within
    }
}

impl Discovery {
    /// Sends over `http` to what `resolver` finds, within `limits`; the limit on the whole
    /// request spans all requests for one list.
    pub fn new(http: Arc<HttpClient>, resolver: Arc<dyn Resolver>, limits: CallLimits) -> Self {
        Self {
            http,
            resolver,
            limits,
        }
    }

    /// Where `endpoint` leads. Opens no connection to it.
    ///
    /// # Errors
    ///
    /// The base URL cannot be used, or its name leads nowhere.
    pub async fn probe(&self, endpoint: &ModelServer) -> Result<Probe, DiscoveryError> {
        let url = address(endpoint)?;
        let auth = &endpoint.auth;
        Ok(Probe {
            origin: origin(&url).unwrap_or_default(),
            reach: self.reach(&url).await?,
            cleartext: url.scheme() == "http",
            authorized: auth.api_key.is_some()
                || !auth.headers.is_empty()
                || !url.username().is_empty(),
        })
    }

    /// The models of `endpoint`. Connects only as `shown` says; the host is named to the server
    /// as it stands in the base URL. Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// The endpoint leads elsewhere than it did, a limit was reached, the server redirects,
    /// refuses, or answers something else.
    pub async fn list(
        &self,
        endpoint: &ModelServer,
        shown: &Probe,
    ) -> Result<ModelList, DiscoveryError> {
        let limit = self.limits.total;
        let late = |_| {
            let what = "the list of models was not complete";
            Err(timed_out(what, limit, self.limits.section, "total").into())
        };
        timeout(limit, self.list_unlimited(endpoint, shown))
            .await
            .unwrap_or_else(late)
    }

    async fn list_unlimited(
        &self,
        endpoint: &ModelServer,
        shown: &Probe,
    ) -> Result<ModelList, DiscoveryError> {
        let url = address(endpoint)?;
        let pinned = match (self.reach(&url).await?, &shown.reach) {
            (Reach::Direct { addresses, class }, Reach::Direct { class: told, .. })
                if class == *told && origin(&url).as_ref() == Some(&shown.origin) =>
            {
                let of_class = |address: &IpAddr| AddressClass::of(*address) == class;
                Some(addresses.into_iter().filter(of_class).collect())
            }
            (Reach::Proxy(proxy), Reach::Proxy(told)) if proxy == *told => None,
            (found, told) => {
                return Err(DiscoveryError::Changed {
                    origin: shown.origin.clone(),
                    shown: told.to_string(),
                    found: found.to_string(),
                });
            }
        };
        let asked = Asked {
            discovery: self,
            endpoint,
            pinned,
            redactor: Redactor::new(&endpoint.auth)
                .with_address(&url)
                .with_proxy(self.http.proxy(&url)?.as_ref()),
            origin: shown.origin.clone(),
        };
        let local = !matches!(
            shown.reach,
            Reach::Direct {
                class: AddressClass::Public,
                ..
            } | Reach::Proxy(_)
        );
        asked.list(&url, local).await
    }

    async fn reach(&self, url: &Url) -> Result<Reach, DiscoveryError> {
        if let Some(proxy) = self.http.proxy_origin(url)? {
            return Ok(Reach::Proxy(proxy));
        }
        let host = url.host_str().unwrap_or_default();
        let unresolved = |reason: &str| DiscoveryError::Unresolved {
            host: host.to_owned(),
            reason: reason.to_owned(),
        };
        let addresses = match literal(host) {
            Some(address) => vec![address],
            None => timeout(self.limits.connect, self.resolver.resolve(host))
                .await
                .map_err(|_| {
                    let (what, limits) = ("the name was not found", &self.limits);
                    timed_out(what, limits.connect, limits.section, "connect")
                })?
                .map_err(|reason| unresolved(&reason))?,
        };
        let class = AddressClass::of_all(&addresses);
        let class = class.ok_or_else(|| unresolved("the name has no address"))?;
        Ok(Reach::Direct { addresses, class })
    }
}

/// The requests for one list.
struct Asked<'a> {
    discovery: &'a Discovery,
    endpoint: &'a ModelServer,
    pinned: Option<Vec<IpAddr>>,
    redactor: Redactor,
    origin: String,
}

impl Asked<'_> {
    async fn list(&self, base: &Url, local: bool) -> Result<ModelList, DiscoveryError> {
        let family = Family::of(&self.endpoint.api);
        let first = self.get(family, &model_lists::url(family, base)).await?;
        let mut models =
            match first.status() {
                200..=299 => model_lists::read(first.body()).ok_or_else(|| self.no_list())?,
                // Some local servers list their models only in a form of their own.
                404 | 405 if local => self.own_list(base, "api/tags").await?.ok_or_else(|| {
                    DiscoveryError::Refused {
                        origin: self.origin.clone(),
                        status: first.status(),
                    }
                })?,
                status => {
                    return Err(DiscoveryError::Refused {
                        origin: self.origin.clone(),
                        status,
                    });
                }
            };
        let truncated = models.len() > MAX_MODELS;
        models.truncate(MAX_MODELS);
        if local && models.iter().any(|model| model.context.is_none()) {
            self.add_contexts(base, &mut models).await?;
        }
        for model in &mut models {
            model.id = self.redactor.clean(std::mem::take(&mut model.id));
            model.name = model.name.take().map(|name| self.redactor.clean(name));
        }
        Ok(ModelList { models, truncated })
    }

    /// What local servers tell of context windows elsewhere.
    async fn add_contexts(
        &self,
        base: &Url,
        models: &mut [DiscoveredModel],
    ) -> Result<(), DiscoveryError> {
        if let Some(others) = self.own_list(base, "api/v0/models").await? {
            for model in models.iter_mut().filter(|model| model.context.is_none()) {
                let same = others.iter().find(|other| other.id == model.id);
                model.context = same.and_then(|other| other.context);
            }
        }
        if let [only] = models
            && only.context.is_none()
        {
            let url = model_lists::beside(base, "props");
            let props = self.get(Family::OpenAi, &url).await?;
            if props.is_success() {
                only.context = model_lists::context_of_props(props.body());
            }
        }
        Ok(())
    }

    /// The list at `path` below the server's root; `None` when there is none.
    async fn own_list(
        &self,
        base: &Url,
        path: &str,
    ) -> Result<Option<Vec<DiscoveredModel>>, DiscoveryError> {
        let url = model_lists::beside(base, path);
        let response = self.get(Family::OpenAi, &url).await?;
        let found = response
            .is_success()
            .then(|| model_lists::read(response.body()));
        Ok(found.flatten())
    }

    async fn get(&self, family: Family, url: &Url) -> Result<Response, DiscoveryError> {
        let limits = self.discovery.limits;
        let send = Outgoing {
            method: Method::GET,
            url: url.clone(),
            headers: headers(family, &self.endpoint.auth)?,
            body: Vec::new(),
            connect: Some(limits.connect),
            pinned: self.pinned.clone(),
        };
        Ok(whole_response(&self.discovery.http, send, limits).await?)
    }

    fn no_list(&self) -> DiscoveryError {
        DiscoveryError::NoList {
            origin: self.origin.clone(),
        }
    }
}

fn address(endpoint: &ModelServer) -> Result<Url, DiscoveryError> {
    let url = Url::parse(endpoint.base_url.trim()).map_err(|_| DiscoveryError::Address)?;
    let usable = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    usable.then_some(url).ok_or(DiscoveryError::Address)
}

/// The key as the family wants it, then the user's own headers.
fn headers(family: Family, auth: &RequestAuth) -> Result<HeaderMap, DiscoveryError> {
    let key = auth.api_key.iter().map(|key| family.key_header(key));
    let fixed = family
        .fixed_headers()
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let own = auth
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let mut map = HeaderMap::new();
    for (name, value) in fixed.chain(key).chain(own) {
        let (key, value) = secret_pair(&name, &value)?;
        map.insert(key, value);
    }
    Ok(map)
}
