//! Wire dialects of model servers over HTTP.
//!
//! One module for each dialect; the client, server-sent events, limits, the driver of a
//! request and the classification of errors are shared. A provider sends each request
//! exactly once: it never retries, never follows a redirect and never waits on its own account.

mod adapt;
mod address;
mod anthropic;
mod assemble;
mod call;
mod classify;
mod completions;
mod counts;
mod details;
mod dialect;
mod discovery;
mod drive;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gemini;
#[cfg(test)]
mod histories;
mod host_headers;
mod http;
mod indexed;
mod limits;
mod loose;
mod model_lists;
mod preview;
mod provider;
mod proxy;
pub mod quirks;
mod reader;
mod redact;
mod report;
mod responses;
mod roots;
pub mod sse;
#[cfg(test)]
mod testing;
mod waits;

pub use address::AddressClass;
pub use call::{CallLimits, Response};
pub use dialect::{UnknownDialect, dialects, provider_for};
pub use discovery::{
    DiscoveredModel, Discovery, DiscoveryError, ModelList, ModelServer, Probe, Reach, Resolver,
};
pub use failure::Clock;
pub use http::{HttpClient, HttpConfig};
pub use limits::{Limit, LimitPolicy, Limits};
pub use preview::{PreviewError, preview};
pub use proxy::ProxyConfig;
pub use roots::{ExtraRoots, ReadRootFiles, RootFile};
