//! Scripts of responses.

use std::collections::VecDeque;

use fluzo_llm::{
    AbortSignal, EventStream, Finish, StopReason, StreamError, StreamErrorKind, StreamEvent,
    ToolCall, Usage,
};
use futures_util::future::{Either, select};
use futures_util::stream::unfold;
use serde_json::Value;

use crate::{Switch, polling};

/// What a model answers to one request.
///
/// Blocks are added in order; [`done`](Self::done), [`fail`](Self::fail),
/// [`cut`](Self::cut), [`until_abort`](Self::until_abort) or [`forever`](Self::forever)
/// say how it ends. A reply that says nothing ends like a complete one: `toolUse` when
/// it calls a tool, else `stop`.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    steps: VecDeque<Step>,
    blocks: usize,
    calls: bool,
    end: Option<End>,
}

#[derive(Debug, Clone)]
enum Step {
    Event(StreamEvent),
    Wait(Switch),
    Pause,
}

#[derive(Debug, Clone)]
enum End {
    Event(StreamEvent),
    Cut,
    UntilAbort,
    Forever,
}

/// A complete reply of one text block that arrives in `chunks`.
pub fn text<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Reply {
    Reply::new().text(chunks)
}

/// A complete reply that thinks, then says `answer`.
pub fn thinking<'a>(chunks: impl IntoIterator<Item = &'a str>, answer: &'a str) -> Reply {
    Reply::new().thinking(chunks).text([answer])
}

/// A complete reply of tool calls: id, name, arguments.
pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> Reply {
    calls
        .into_iter()
        .fold(Reply::new(), |reply, (id, name, arguments)| {
            reply.call(id, name, &arguments.to_string())
        })
}

/// A request that fails before anything arrives.
pub fn failing(kind: StreamErrorKind, message: &str) -> Reply {
    Reply::new().fail(StreamError::new(kind, message))
}

/// A response of `chunks` that stops without its last event.
pub fn cut<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Reply {
    Reply::new().text(chunks).cut()
}

/// A response that says `chunks` and then nothing more until it is aborted.
pub fn never_ending<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Reply {
    Reply::new().open_text(chunks).until_abort()
}

impl Reply {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default().event(StreamEvent::Start)
    }

    /// A response whose first event is not a start.
    pub fn without_start() -> Self {
        Self::default()
    }

    /// A text block.
    #[must_use]
    pub fn text<'a>(self, chunks: impl IntoIterator<Item = &'a str>) -> Self {
        let index = self.blocks;
        self.open_text(chunks).event(StreamEvent::TextEnd {
            index,
            signature: None,
        })
    }

    /// A text block that does not end.
    #[must_use]
    pub fn open_text<'a>(mut self, chunks: impl IntoIterator<Item = &'a str>) -> Self {
        let index = self.block();
        let delta = |chunk: &str| StreamEvent::TextDelta {
            index,
            delta: chunk.to_owned(),
        };
        chunks
            .into_iter()
            .fold(self.event(StreamEvent::TextStart { index }), |r, c| {
                r.event(delta(c))
            })
    }

    /// A thinking block.
    #[must_use]
    pub fn thinking<'a>(mut self, chunks: impl IntoIterator<Item = &'a str>) -> Self {
        let index = self.block();
        let delta = |chunk: &str| StreamEvent::ThinkingDelta {
            index,
            delta: chunk.to_owned(),
        };
        let begun = self.event(StreamEvent::ThinkingStart { index });
        let grown = chunks
            .into_iter()
            .fold(begun, |reply, chunk| reply.event(delta(chunk)));
        grown.event(StreamEvent::ThinkingEnd {
            index,
            signature: None,
            redacted: false,
        })
    }

    /// A tool call whose arguments arrive as this text in one delta, complete or not.
    #[must_use]
    pub fn call(self, id: &str, name: &str, arguments: &str) -> Self {
        self.call_in_chunks(id, name, [arguments])
    }

    /// A tool call whose argument text arrives in `chunks`.
    #[must_use]
    pub fn call_in_chunks<'a>(
        self,
        id: &str,
        name: &str,
        chunks: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let index = self.blocks;
        let chunks: Vec<_> = chunks.into_iter().collect();
        let call = Box::new(ToolCall::from_text(id, name, &chunks.concat()));
        self.open_call(id, name, chunks)
            .event(StreamEvent::ToolCallEnd { index, call })
    }

    /// A tool call that does not end.
    #[must_use]
    pub fn open_call<'a>(
        mut self,
        id: &str,
        name: &str,
        chunks: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let index = self.block();
        self.calls = true;
        let begun = self.event(StreamEvent::ToolCallStart {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
        });
        let delta = |chunk: &str| StreamEvent::ToolCallDelta {
            index,
            delta: chunk.to_owned(),
        };
        chunks
            .into_iter()
            .fold(begun, |reply, chunk| reply.event(delta(chunk)))
    }

    /// Any event.
    #[must_use]
    pub fn event(mut self, event: StreamEvent) -> Self {
        self.steps.push_back(Step::Event(event));
        self
    }

    /// Nothing more until the test flips `switch`; an abort meanwhile ends the response.
    #[must_use]
    pub fn wait(mut self, switch: &Switch) -> Self {
        self.steps.push_back(Step::Wait(switch.clone()));
        self
    }

    /// Pending once.
    #[must_use]
    pub fn pause(mut self) -> Self {
        self.steps.push_back(Step::Pause);
        self
    }

    /// Complete, with this stop reason.
    #[must_use]
    pub fn done(self, stop_reason: StopReason) -> Self {
        let finish = Finish::done(stop_reason, Usage::default());
        self.finish(StreamEvent::Done(Box::new(finish)))
    }

    /// Failed.
    #[must_use]
    pub fn fail(self, error: StreamError) -> Self {
        self.finish(StreamEvent::failure(error))
    }

    /// The stream ends without its last event.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = Some(End::Cut);
        self
    }

    /// Nothing more until an abort, then its proper end.
    #[must_use]
    pub fn until_abort(mut self) -> Self {
        self.end = Some(End::UntilAbort);
        self
    }

    /// Nothing more, not even after an abort.
    #[must_use]
    pub fn forever(mut self) -> Self {
        self.end = Some(End::Forever);
        self
    }

    /// Ends with `last`.
    #[must_use]
    pub fn finish(mut self, last: StreamEvent) -> Self {
        self.end = Some(End::Event(last));
        self
    }

    /// The stream of this reply.
    pub fn stream(self, abort: AbortSignal) -> EventStream {
        let end = self.ending();
        let rest = Rest {
            steps: self.steps,
            end: Some(end),
            abort,
        };
        Box::pin(unfold(rest, |mut rest| async move {
            rest.next().await.map(|event| (event, rest))
        }))
    }

    fn block(&mut self) -> usize {
        self.blocks += 1;
        self.blocks - 1
    }

    fn ending(&self) -> End {
        let stop_reason = if self.calls {
            StopReason::ToolUse
        } else {
            StopReason::Stop
        };
        let done = || Finish::done(stop_reason, Usage::default());
        self.end
            .clone()
            .unwrap_or_else(|| End::Event(StreamEvent::Done(Box::new(done()))))
    }
}

struct Rest {
    steps: VecDeque<Step>,
    end: Option<End>,
    abort: AbortSignal,
}

impl Rest {
    async fn next(&mut self) -> Option<StreamEvent> {
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Event(event) => return Some(event),
                Step::Pause => polling::pause().await,
                Step::Wait(switch) => {
                    let waited = Box::pin(switch.wait());
                    let aborted = Box::pin(self.abort.cancelled());
                    if let Either::Right(_) = select(waited, aborted).await {
                        self.steps.clear();
                        self.end = Some(End::UntilAbort);
                    }
                }
            }
        }
        match self.end.take()? {
            End::Event(event) => Some(event),
            End::Cut => None,
            End::UntilAbort => {
                self.abort.cancelled().await;
                Some(StreamEvent::failure(StreamError::aborted()))
            }
            End::Forever => std::future::pending().await,
        }
    }
}
