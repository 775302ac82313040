//! Models that answer by script.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluzo_agent::{Halt, ModelEffect};
use fluzo_llm::{AbortSignal, BoxFuture, EventStream, ModelRequest, Provider};

use crate::Reply;

/// The model effect of a run: gives its replies one after the other.
#[derive(Debug, Default)]
pub struct ScriptedModel(Mutex<Script>);

/// A provider with the same script behind the other trait.
#[derive(Debug, Default)]
pub struct ScriptedProvider(ScriptedModel);

#[derive(Debug, Default)]
struct Script {
    replies: VecDeque<Reply>,
    requests: Vec<ModelRequest>,
    aborts: Vec<AbortSignal>,
    halt_at: Option<(usize, Halt)>,
}

impl ScriptedModel {
    /// A model that gives these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script {
            replies: replies.into_iter().collect(),
            ..Script::default()
        };
        Self(Mutex::new(script))
    }

    /// Adds a reply at the end.
    pub fn push(&self, reply: Reply) {
        self.script().replies.push_back(reply);
    }

    /// Halts the run at request number `at`, counted from zero, instead of sending it.
    pub fn halt_at(&self, at: usize, halt: Halt) {
        self.script().halt_at = Some((at, halt));
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.script().requests.clone()
    }

    /// The abort signal of each request so far.
    pub fn aborts(&self) -> Vec<AbortSignal> {
        self.script().aborts.clone()
    }

    /// How many replies nobody has asked for.
    pub fn left(&self) -> usize {
        self.script().replies.len()
    }

    fn answer(&self, request: ModelRequest, abort: AbortSignal) -> Result<EventStream, Halt> {
        let mut script = self.script();
        let number = script.requests.len();
        if let Some((_, halt)) = script.halt_at.clone().filter(|(at, _)| *at == number) {
            return Err(halt);
        }
        script.requests.push(request);
        script.aborts.push(abort.clone());
        match script.replies.pop_front() {
            Some(reply) => Ok(reply.stream(abort)),
            None => {
                drop(script);
                panic!("no reply is scripted for request number {number}")
            }
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelEffect for ScriptedModel {
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        Box::pin(std::future::ready(self.answer(request, abort)))
    }
}

impl ScriptedProvider {
    /// A provider that gives these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self(ScriptedModel::new(replies))
    }

    /// The script.
    pub fn script(&self) -> &ScriptedModel {
        &self.0
    }
}

impl Provider for ScriptedProvider {
    fn stream(&self, request: ModelRequest, abort: AbortSignal) -> EventStream {
        match self.0.answer(request, abort) {
            Ok(stream) => stream,
            Err(halt) => panic!("a provider cannot halt a run: {halt}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fluzo_llm::{RequestAuth, RequestOptions, Transcript};
    use futures_util::StreamExt;

    use super::*;
    use crate::{poll_to_end, reply};

    fn request() -> ModelRequest {
        ModelRequest {
            model: Arc::new(crate::model()),
            system_prompt: Arc::from(""),
            transcript: Transcript::default(),
            tools: Arc::from([]),
            options: RequestOptions::default(),
            auth: RequestAuth::default(),
        }
    }

    fn events(provider: &ScriptedProvider) -> usize {
        let stream = provider.stream(request(), AbortSignal::new());
        poll_to_end(stream.collect::<Vec<_>>()).len()
    }

    #[test]
    fn a_provider_gives_its_replies_in_order_and_notes_the_requests() {
        let provider = ScriptedProvider::new([reply::text(["a"]), reply::cut([])]);
        // start, text_start, text_delta, text_end, done; then start, text_start, text_end
        assert_eq!((events(&provider), events(&provider)), (5, 3));
        assert_eq!(
            (provider.script().requests().len(), provider.script().left()),
            (2, 0)
        );
    }

    #[test]
    #[should_panic(expected = "no reply is scripted for request number 1")]
    fn a_request_without_a_reply_fails_the_test() {
        let provider = ScriptedProvider::new([reply::text(["a"])]);
        events(&provider);
        events(&provider);
    }
}
