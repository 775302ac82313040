//! Requests to real providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluzo_agent::{Halt, ModelEffect};
use fluzo_llm::{
    AbortSignal, BoxFuture, CacheRetention, Credentials, EventStream, ModelRequest, Provider,
    StreamError, StreamErrorKind, StreamEvent, ThinkingLevel,
};
use fluzo_stdx::ids::{IdSource, RandomIds};
use futures_util::{StreamExt, stream};

use crate::forms::FormMemory;

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
/// looked up before every request and in the forms that the server is known to demand.
pub struct ProviderModel {
    dialects: Arc<dyn Dialects>,
    credentials: Arc<dyn Credentials>,
    forms: Arc<FormMemory>,
    cache: CacheRetention,
    thinking_budgets: BTreeMap<ThinkingLevel, u64>,
    text_for_images: Option<String>,
}

impl ProviderModel {
    /// Requests through `dialects`, authorised by `credentials`, in the forms of `forms`.
    pub fn new(
        dialects: Arc<dyn Dialects>,
        credentials: Arc<dyn Credentials>,
        forms: Arc<FormMemory>,
    ) -> Self {
        Self {
            dialects,
            credentials,
            forms,
            cache: CacheRetention::default(),
            thinking_budgets: BTreeMap::new(),
            text_for_images: None,
        }
    }

    /// Sends `text` in the place of every image, wherever in the conversation it stands.
    #[must_use]
    pub fn with_text_for_images(mut self, text: Option<&str>) -> Self {
        self.text_for_images = text.map(str::to_owned);
        self
    }

    /// Asks for `cache` in requests that ask for nothing but the default, and gives `budgets`
    /// (tokens by level) to those that have none of their own.
    #[must_use]
    pub fn with_options(
        mut self,
        cache: CacheRetention,
        budgets: BTreeMap<ThinkingLevel, u64>,
    ) -> Self {
        (self.cache, self.thinking_budgets) = (cache, budgets);
        self
    }

    fn fill(&self, request: &mut ModelRequest) {
        let options = &mut request.options;
        if options.cache == CacheRetention::default() {
            options.cache = self.cache;
        }
        if options.thinking_budgets.is_empty() {
            options.thinking_budgets = self.thinking_budgets.clone();
        }
        if let Some(text) = &self.text_for_images {
            request.transcript = request.transcript.with_text_for_images(text);
        }
    }

    fn send(
        &self,
        provider: &dyn Provider,
        mut request: ModelRequest,
        abort: AbortSignal,
    ) -> EventStream {
        let model = Arc::clone(&request.model);
        let base_url = request.auth.base_url.as_deref();
        let base_url = base_url.unwrap_or(&model.base_url);
        let (switches, pending) = self.forms.of(&model, base_url);
        request.options.forms = switches;
        let events = provider.stream(request, abort);
        if !pending && !self.forms.is_off() {
            return events;
        }
        let forms = Arc::clone(&self.forms);
        Box::pin(events.map(move |mut event| {
            match &mut event {
                StreamEvent::Done(_) => forms.confirm(&model),
                StreamEvent::Failed(finish) => {
                    if let Some(error) = &mut finish.error {
                        forms.judge(&model, error);
                    }
                }
                _ => {}
            }
            event
        }))
    }
}

impl ModelEffect for ProviderModel {
    fn request<'a>(
        &'a self,
        mut request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        Box::pin(async move {
            self.fill(&mut request);
            let found = self.credentials.resolve(&request.model);
            match abort.run_until_cancelled(found).await {
                None => return Ok(aborted()),
                Some(Ok(auth)) => request.auth = auth,
                Some(Err(error)) => {
                    return Ok(failed(StreamErrorKind::Authentication, error.to_string()));
                }
            }
            Ok(match self.dialects.provider(&request.model.api) {
                Ok(provider) => identified(self.send(&*provider, request, abort)),
                Err(text) => failed(StreamErrorKind::InvalidRequest, text),
            })
        })
    }
}

/// Gives a redirect that ends `events` the id of the request, and a correlation id where the
/// server gave none.
fn identified(events: EventStream) -> EventStream {
    let operation = RandomIds.long_id();
    tracing::debug!(operation, "request");
    Box::pin(events.map(move |mut event| {
        if let StreamEvent::Failed(finish) = &mut event
            && let Some(redirect) = finish.error.as_mut().and_then(|e| e.redirect.as_mut())
        {
            redirect.operation_id = Some(operation.clone());
            redirect
                .correlation_id
                .get_or_insert_with(|| RandomIds.long_id());
            tracing::warn!("{}", redirect.summary());
        }
        event
    }))
}

fn failed(kind: StreamErrorKind, text: String) -> EventStream {
    ended(StreamError::new(kind, text))
}

fn aborted() -> EventStream {
    ended(StreamError::aborted())
}

fn ended(error: StreamError) -> EventStream {
    let event = StreamEvent::failure(error);
    Box::pin(stream::once(std::future::ready(event)))
}
