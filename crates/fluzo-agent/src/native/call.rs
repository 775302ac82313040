//! One tool call: prepared, validated, judged, run, finished.

use std::sync::Arc;

use fluzo_llm::{AbortSignal, BoxFuture, Content, ToolCall, ToolOutput, ToolResultMessage};
use futures_util::future::{Either, select};
use serde_json::Value;

use super::Shared;
use super::run::Running;
use crate::{
    AfterToolCall, BeforeToolCall, Halt, Judgement, Looping, Permit, Tool, ToolCallInfo,
    ToolContext, ToolFailure, UpdateSink, schema,
};

/// Most bytes of an error text that the model gets. Tools bound what they say; texts that
/// repeat what the model sent are bounded here.
const ERROR_BYTES: usize = 16 * 1024;

const ABORTED: &str = "Operation aborted";
const BLOCKED: &str = "Tool execution was blocked";

/// What a call came to.
pub(super) struct Finished {
    pub(super) output: ToolOutput,
    pub(super) is_error: bool,
}

/// A call that may run.
pub(super) struct Ready {
    permit: Permit,
    arguments: Value,
}

impl Finished {
    pub(super) fn error(text: impl Into<String>) -> Self {
        Self::failed(bounded(text.into()), None)
    }

    /// The result of a tool that failed; its text keeps the tool's own limits.
    fn failed(text: String, details: Option<Value>) -> Self {
        let details = details.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        Self {
            output: ToolOutput::text(text).with_details(details),
            is_error: true,
        }
    }

    /// The result message for `call`.
    pub(super) fn message(&self, call: &ToolCall, timestamp: i64) -> ToolResultMessage {
        ToolResultMessage {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: self.output.content.clone(),
            details: self.output.details.clone(),
            is_error: self.is_error,
            timestamp,
            extra: serde_json::Map::new(),
        }
    }
}

/// Everything up to the permit. `Err` is the result of a call that does not run.
pub(super) async fn preflight(running: &Running, call: &ToolCall) -> Result<Ready, Finished> {
    if running.abort.is_cancelled() {
        return Err(Finished::error(ABORTED));
    }
    let tool = running.context.tools.find(&call.name);
    let tool = tool.ok_or_else(|| Finished::error(format!("Tool {} not found", call.name)))?;
    let arguments = hooked(running, call, &*tool, arguments(call, &*tool)?).await?;
    if running.abort.is_cancelled() {
        return Err(Finished::error(ABORTED));
    }
    let permit = permit(running, tool, call, arguments.clone()).await?;
    Ok(Ready { permit, arguments })
}

/// The result of a call whose id an earlier one of its response has.
pub(super) fn repeated(call: &ToolCall) -> Finished {
    Finished::error(format!(
        "The call id \"{}\" was used twice in one response, so this call was not executed.",
        call.id
    ))
}

/// The result of a call that stands behind one with which the run is stopped.
pub(super) fn left_out(looping: &Looping) -> Finished {
    Finished::error(format!(
        "Not executed: the call of \"{}\" before it was only a repetition.",
        looping.tool
    ))
}

fn arguments(call: &ToolCall, tool: &dyn Tool) -> Result<Value, Finished> {
    if let Some(raw) = &call.raw_arguments {
        return Err(Finished::error(unusable(&call.name, raw)));
    }
    let prepared = tool.prepare_arguments(Value::Object(call.arguments.clone()));
    let prepared = prepared.map_err(|e| Finished::error(e.message))?;
    validated(tool, prepared)
}

fn validated(tool: &dyn Tool, arguments: Value) -> Result<Value, Finished> {
    let spec = tool.spec();
    schema::validate(&spec.name, &spec.parameters, arguments).map_err(Finished::error)
}

fn bounded(mut text: String) -> String {
    if text.len() > ERROR_BYTES {
        let end = text.floor_char_boundary(ERROR_BYTES);
        let more = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[{more} more bytes left out]"));
    }
    text
}

/// The model cannot see what it sent, so the message shows the beginning of it.
fn unusable(tool: &str, raw: &str) -> String {
    let shown: String = raw.chars().take(200).collect();
    let more = if shown.len() < raw.len() { "…" } else { "" };
    format!(
        "The arguments of this call of \"{tool}\" are not a complete JSON object, so it was not executed. Send the call again with complete arguments.\n\nReceived:\n{shown}{more}"
    )
}

/// The before hook; arguments it replaces are validated again.
async fn hooked(
    running: &Running,
    call: &ToolCall,
    tool: &dyn Tool,
    arguments: Value,
) -> Result<Value, Finished> {
    let info = ToolCallInfo {
        call_id: &call.id,
        tool: &call.name,
        arguments: &arguments,
    };
    let hook = running.shared.hooks.before_tool_call(info);
    match unless_aborted(running, hook).await? {
        BeforeToolCall::Proceed => Ok(arguments),
        BeforeToolCall::Replace(other) => validated(tool, other),
        BeforeToolCall::Block { reason } => Err(Finished::error(
            reason.unwrap_or_else(|| BLOCKED.to_owned()),
        )),
    }
}

async fn permit(
    running: &Running,
    tool: Arc<dyn Tool>,
    call: &ToolCall,
    arguments: Value,
) -> Result<Permit, Finished> {
    match running.shared.gate.judge(tool, call.id.clone(), arguments) {
        Judgement::Allowed(permit) => Ok(permit),
        Judgement::Denied { reason } => Err(Finished::error(reason)),
        Judgement::Ask(pending) => {
            let asked = running.shared.effects.human.ask(pending.question());
            let answer = unless_aborted(running, asked).await?;
            pending.answer(answer).map_err(Finished::error)
        }
    }
}

/// What `work` comes to. An abort drops it and ends the call: nothing has run yet.
async fn unless_aborted<T>(running: &Running, work: BoxFuture<'_, T>) -> Result<T, Finished> {
    let aborted = Box::pin(running.abort.cancelled());
    match select(work, aborted).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(_) => Err(Finished::error(ABORTED)),
    }
}

/// Runs a permitted call and finishes its result. A call whose turn comes after an
/// abort does not run.
pub(super) async fn execute(
    shared: Arc<Shared>,
    call: ToolCall,
    ready: Ready,
    abort: AbortSignal,
    updates: UpdateSink,
) -> Result<Finished, Halt> {
    if abort.is_cancelled() {
        return Ok(Finished::error(ABORTED));
    }
    let context = ToolContext { abort, updates };
    let finished = match shared.effects.tools.run(ready.permit, context).await {
        Ok(output) => Finished {
            output,
            is_error: false,
        },
        Err(ToolFailure::Halt(halt)) => return Err(halt),
        Err(ToolFailure::Tool(error)) => Finished::failed(error.message, error.details),
    };
    let info = ToolCallInfo {
        call_id: &call.id,
        tool: &call.name,
        arguments: &ready.arguments,
    };
    let change = shared
        .hooks
        .after_tool_call(info, &finished.output, finished.is_error)
        .await;
    Ok(changed(finished, change))
}

fn changed(mut finished: Finished, change: AfterToolCall) -> Finished {
    let set = |content: Option<Vec<Content>>, to: &mut Vec<Content>| {
        if let Some(content) = content {
            *to = content;
        }
    };
    set(change.content, &mut finished.output.content);
    finished.output.details = change.details.or(finished.output.details);
    finished.output.terminate = change.terminate.unwrap_or(finished.output.terminate);
    finished.is_error = change.is_error.unwrap_or(finished.is_error);
    finished
}
