//! Anthropic Messages (`anthropic-messages`): one POST to `BASE/v1/messages`, answered by a
//! stream of events or by one JSON object. On Vertex (`anthropic-vertex`) the URL names the
//! model and the body the version of the API.
//!
//! Source: the published reference of the Messages API, version 2023-06-01.

mod compat;
mod messages;
mod request;
mod response;
mod stop;
mod thinking;
mod usage;
mod wire;

use fluzo_llm::{ModelRequest, Secret, StreamError, StreamErrorKind};
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};

use crate::failure::Context;
use crate::provider::{self, Dialect};
use crate::reader::Meaning;
use compat::Compat;
use request::Place;
use response::Response;

/// The name of this dialect.
pub(crate) const API: &str = "anthropic-messages";

/// The name of its form on Vertex.
pub(crate) const VERTEX_API: &str = "anthropic-vertex";

const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Anthropic Messages.
pub(crate) struct Messages;

/// Anthropic Messages on Vertex.
pub(crate) struct VertexMessages;

impl Dialect for Messages {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        let base = provider::endpoint(request, &[])?;
        let path: &[&str] = match base.path().ends_with("/v1") {
            true => &["messages"],
            false => &["v1", "messages"],
        };
        provider::endpoint(request, path)
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        refuse_client_token(request)?;
        common_headers(request, headers)?;
        headers.insert(HeaderName::from_static("anthropic-version"), VERSION);
        match &request.auth.api_key {
            Some(key) => provider::secret_header("x-api-key", key.reveal(), headers),
            None => Ok(()),
        }
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request, Place::Anthropic)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}

impl Dialect for VertexMessages {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        let call = format!("{}:streamRawPredict", request.model.id);
        provider::endpoint(request, &["models", &call])
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        refuse_client_token(request)?;
        common_headers(request, headers)?;
        provider::bearer(request, headers)
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request, Place::Vertex)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}

fn common_headers(request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
    let compat = Compat::of(request);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let betas = compat.betas(request).join(",");
    if !betas.is_empty() {
        provider::secret_header("anthropic-beta", &betas, headers)?;
    }
    match &request.options.session_id {
        Some(id) if compat.sends_session_affinity(request) => {
            provider::secret_header("x-session-affinity", id, headers)
        }
        _ => Ok(()),
    }
}

/// A token of another vendor's client works only for a client that says it is that one, and
/// Fluzo never does.
fn refuse_client_token(request: &ModelRequest) -> Result<(), StreamError> {
    let auth = &request.auth;
    let headers = auth.headers.iter().map(|(_, value)| value);
    if !auth
        .api_key
        .iter()
        .chain(headers)
        .any(Secret::is_of_another_client)
    {
        return Ok(());
    }
    Err(StreamError::new(
        StreamErrorKind::Authentication,
        format!(
            "the stored token of `{}` belongs to another vendor's client, and Fluzo does not present itself as that client: set ANTHROPIC_API_KEY to an API key instead",
            request.model.provider
        ),
    ))
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
mod tests;
