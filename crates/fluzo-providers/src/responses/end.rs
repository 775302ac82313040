//! Judges whether a response is whole, and what its end means.

use fluzo_llm::{StopReason, StreamError, StreamErrorKind};
use serde_json::Value;

use super::wire::text;
use crate::failure::Context;
use crate::reader::{incomplete, says_something};

/// How the server says that a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It is whole.
    Completed,
    /// A limit cut it off.
    Incomplete,
    /// It failed.
    Failed,
    /// Somebody stopped it at the server.
    Cancelled,
}

impl Status {
    /// The status of that name; `None` for those that are no end.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "completed" => Self::Completed,
            "incomplete" => Self::Incomplete,
            "failed" => Self::Failed,
            "cancelled" | "canceled" => Self::Cancelled,
            _ => return None,
        })
    }

    /// The end that an event of this kind with this response means: some servers call every
    /// end completed and say in the response what it was.
    pub(crate) fn of(event: Self, response: &Value) -> Self {
        match event {
            Self::Completed => Self::named(text(response, "status")).unwrap_or(event),
            event => event,
        }
    }
}

/// What was seen of a response by the time no more of it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// There is text, thinking or a call.
    pub content: bool,
    /// There are calls.
    pub calls: bool,
    /// The arguments of all of them are closed.
    pub calls_closed: bool,
    /// Something other than a status says that nothing more was to come: the end marker that
    /// other dialects have, or a report of the tokens and then a proper end of the body.
    pub ended: bool,
}

/// Why the response ended, when it is whole.
///
/// A call that is open in its arguments is never whole unless a limit cut it off. Without a
/// status the response is whole when it has content and something else says that it ended.
///
/// # Errors
///
/// When the response is not whole, or says that it failed; `response` is its last state.
pub(crate) fn judge(
    status: Option<Status>,
    response: &Value,
    seen: Seen,
    context: &Context,
) -> Result<StopReason, StreamError> {
    match status {
        Some(Status::Completed) => {}
        Some(Status::Incomplete) => return limited(reason(response)),
        Some(Status::Failed) => return Err(failed(response, context)),
        Some(Status::Cancelled) => {
            return Err(StreamError::new(
                StreamErrorKind::Transient,
                "the server cancelled the response",
            ));
        }
        None if seen.content && seen.ended => {}
        None => return Err(incomplete("Stream ended without response.completed")),
    }
    if !seen.calls_closed {
        return Err(incomplete(
            "the response ended inside the arguments of a tool call",
        ));
    }
    Ok(match seen.calls {
        true => StopReason::ToolUse,
        false => StopReason::Stop,
    })
}

fn limited(reason: &str) -> Result<StopReason, StreamError> {
    match reason {
        "content_filter" => Err(StreamError::new(
            StreamErrorKind::Refused,
            format!("incomplete: {reason}"),
        )),
        _ => Ok(StopReason::Length),
    }
}

fn reason(response: &Value) -> &str {
    let reason = response.pointer("/incomplete_details/reason");
    reason.and_then(Value::as_str).unwrap_or_default()
}

/// The error of a response that says that it failed: `CODE: MESSAGE`.
fn failed(response: &Value, context: &Context) -> StreamError {
    match response.get("error").filter(|error| says_something(error)) {
        Some(error) => coded(error, "", context),
        None if !reason(response).is_empty() => StreamError::new(
            StreamErrorKind::Transient,
            format!("incomplete: {}", reason(response)),
        ),
        None => StreamError::new(
            StreamErrorKind::Transient,
            "the server says that the response failed and not why",
        ),
    }
}

/// The error of an event that reports one: `Error Code CODE: MESSAGE`.
pub(crate) fn reported(error: &Value, context: &Context) -> StreamError {
    coded(error, "Error Code ", context)
}

fn coded(error: &Value, prefix: &str, context: &Context) -> StreamError {
    let told = context.in_stream(error);
    match text(error, "code") {
        "" => told,
        code => StreamError {
            message: context.clean(format!("{prefix}{code}: {}", told.message)),
            ..told
        },
    }
}
