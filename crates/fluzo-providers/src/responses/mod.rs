//! OpenAI Responses (`openai-responses`): one POST to `BASE/responses`, answered by a stream
//! of events or by one JSON object; and Azure's form of it (`azure-openai-responses`), which
//! differs in address, header of the key and name of the model.

mod azure;
mod compat;
mod end;
mod ids;
mod input;
mod items;
mod output;
mod request;
mod response;
#[cfg(test)]
mod script;
#[cfg(test)]
mod shape_tests;
mod usage;
mod wire;

use fluzo_llm::{CacheRetention, ModelRequest, StreamError};
use reqwest::Url;
use reqwest::header::HeaderMap;

use crate::failure::Context;
use crate::provider::{self, Dialect};
use crate::reader::Meaning;
use compat::Compat;
use response::Response;

/// The name of this dialect.
pub(crate) const API: &str = "openai-responses";

/// The name of Azure's form.
pub(crate) const AZURE_API: &str = "azure-openai-responses";

/// Responses as OpenAI and most others serve it.
pub(crate) struct Responses;

/// Responses as Azure serves it.
pub(crate) struct Azure;

impl Dialect for Responses {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        provider::endpoint(request, &["responses"])
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        provider::bearer(request, headers)?;
        session_headers(request, headers)
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}

impl Dialect for Azure {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        azure::endpoint(request)
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        if let Some(key) = &request.auth.api_key {
            provider::secret_header("api-key", key.reveal(), headers)?;
        }
        session_headers(request, headers)
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}

/// The session, for servers that keep the requests of one on the same machine.
fn session_headers(request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
    let Some(session) = cached_session(request) else {
        return Ok(());
    };
    if Compat::of(request).sends_session_id_header {
        provider::secret_header("session_id", session, headers)?;
    }
    provider::secret_header("x-client-request-id", session, headers)
}

/// The session's id, unless nothing of the request is to be kept.
fn cached_session(request: &ModelRequest) -> Option<&str> {
    let options = &request.options;
    let session = options.session_id.as_deref();
    session.filter(|_| options.cache != CacheRetention::None)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
