//! Chat Completions (`openai-completions`): one POST to `BASE/chat/completions`, answered by
//! a stream of events or by one JSON object.

mod compat;
mod end;
mod messages;
mod request;
mod response;
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
pub(crate) const API: &str = "openai-completions";

/// Headers that keep the requests of a session on one machine, where a server has several.
const SESSION_HEADERS: [&str; 3] = ["session_id", "x-client-request-id", "x-session-affinity"];

/// Chat Completions.
pub(crate) struct Completions;

impl Dialect for Completions {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        provider::endpoint(request, &["chat", "completions"])
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        provider::bearer(request, headers)?;
        let compat = Compat::of(
            &request.model,
            provider::base_url(request),
            &request.options.forms,
        );
        let kept = request.options.cache != CacheRetention::None;
        let session = request.options.session_id.as_deref();
        let session = session.filter(|_| kept && compat.quirks.session_affinity);
        session.map_or(Ok(()), |id| {
            let mut names = SESSION_HEADERS.into_iter();
            names.try_for_each(|name| provider::secret_header(name, id, headers))
        })
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}
