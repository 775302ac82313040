//! A tracing span around every effect, with names from one table.

use std::sync::Arc;
use std::time::Duration;

use fluzo_agent::{
    Answer, AppendError, Effects, Halt, HumanEffect, JournalEffect, ModelEffect, Permit, Question,
    Record, TimeEffect, ToolContext, ToolEffect, ToolFailure,
};
use fluzo_llm::{AbortSignal, BoxFuture, EventStream, ModelRequest, ToolOutput};
use tracing::{Instrument, info_span};

/// The effects by name: in spans, in manual drive and in documentation.
pub const EFFECTS: [&str; 5] = [APPEND, REQUEST_MODEL, RUN_TOOL, ASK, SLEEP];

/// A record is stored.
pub const APPEND: &str = "append";
/// A model is asked; the span ends when the stream begins.
pub const REQUEST_MODEL: &str = "request_model";
/// A tool runs.
pub const RUN_TOOL: &str = "run_tool";
/// A person is asked.
pub const ASK: &str = "ask";
/// The run waits.
pub const SLEEP: &str = "sleep";

/// Opens a span around every effect of `effects`.
pub fn traced(effects: Effects) -> Effects {
    Effects {
        model: Arc::new(Traced(effects.model)),
        tools: Arc::new(Traced(effects.tools)),
        human: Arc::new(Traced(effects.human)),
        time: Arc::new(Traced(effects.time)),
        journal: Arc::new(Traced(effects.journal)),
    }
}

struct Traced<E: ?Sized>(Arc<E>);

impl ModelEffect for Traced<dyn ModelEffect> {
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        let model = &request.model;
        let span = info_span!("request_model", effect = REQUEST_MODEL, provider = %model.provider, model = %model.id);
        Box::pin(self.0.request(request, abort).instrument(span))
    }
}

impl ToolEffect for Traced<dyn ToolEffect> {
    fn run<'a>(
        &'a self,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        let span = info_span!("run_tool", effect = RUN_TOOL, tool = %permit.tool_name(), call = %permit.call_id());
        Box::pin(self.0.run(permit, context).instrument(span))
    }
}

impl HumanEffect for Traced<dyn HumanEffect> {
    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer> {
        let span = info_span!("ask", effect = ASK, tool = %question.tool, call = %question.call_id);
        Box::pin(self.0.ask(question).instrument(span))
    }
}

impl TimeEffect for Traced<dyn TimeEffect> {
    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> BoxFuture<'a, ()> {
        let span = info_span!("sleep", effect = SLEEP, ms = duration.as_millis());
        Box::pin(self.0.sleep(duration).instrument(span))
    }
}

impl JournalEffect for Traced<dyn JournalEffect> {
    fn append<'a>(&'a self, record: Record) -> BoxFuture<'a, Result<(), AppendError>> {
        let span = info_span!("append", effect = APPEND);
        Box::pin(self.0.append(record).instrument(span))
    }
}
