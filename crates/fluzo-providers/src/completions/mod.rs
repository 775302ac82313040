//! Chat Completions (`openai-completions`): one POST to `BASE/chat/completions`, answered by
//! a stream of events or by one JSON object.

mod compat;
mod end;
mod messages;
mod request;
mod response;
mod usage;
mod wire;

use fluzo_llm::{ModelRequest, StreamError};
use reqwest::Url;
use reqwest::header::HeaderMap;

pub use end::{Judgement, Signals, judge_end};

use crate::failure::Context;
use crate::provider::{self, Dialect};
use crate::reader::Meaning;
use response::Response;

/// The name of this dialect.
pub const API: &str = "openai-completions";

/// Chat Completions.
pub(crate) struct Completions;

impl Dialect for Completions {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        provider::endpoint(request, &["chat", "completions"])
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        provider::bearer(request, headers)
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}
