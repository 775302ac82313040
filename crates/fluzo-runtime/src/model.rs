//! Requests to real providers.

use std::sync::Arc;

use fluzo_agent::{Halt, ModelEffect};
use fluzo_llm::{
    AbortSignal, BoxFuture, Credentials, EventStream, ModelRequest, Provider, StreamError,
    StreamErrorKind, StreamEvent,
};
use futures_util::stream;

/// Finds the provider that speaks a dialect.
pub trait Dialects: Send + Sync {
    /// The provider for `api`.
    ///
    /// # Errors
    ///
    /// The text for the user when there is none.
    fn provider(&self, api: &str) -> Result<Arc<dyn Provider>, String>;
}

/// Sends requests through the provider of the model's dialect, with a key that is
/// looked up before every request.
pub struct ProviderModel {
    dialects: Arc<dyn Dialects>,
    credentials: Arc<dyn Credentials>,
}

impl ProviderModel {
    /// Requests through `dialects`, authorised by `credentials`.
    pub fn new(dialects: Arc<dyn Dialects>, credentials: Arc<dyn Credentials>) -> Self {
        Self {
            dialects,
            credentials,
        }
    }
}

impl ModelEffect for ProviderModel {
    fn request<'a>(
        &'a self,
        mut request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        Box::pin(async move {
            match self.credentials.resolve(&request.model).await {
                Ok(auth) => request.auth = auth,
                Err(error) => {
                    return Ok(failed(StreamErrorKind::Authentication, error.to_string()));
                }
            }
            Ok(match self.dialects.provider(&request.model.api) {
                Ok(provider) => provider.stream(request, abort),
                Err(text) => failed(StreamErrorKind::InvalidRequest, text),
            })
        })
    }
}

fn failed(kind: StreamErrorKind, text: String) -> EventStream {
    let event = StreamEvent::failure(StreamError::new(kind, text));
    Box::pin(stream::once(std::future::ready(event)))
}
