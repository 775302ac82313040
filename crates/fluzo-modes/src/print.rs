//! Print mode: the text of the last response on standard output, and nothing else there.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use fluzo_llm::{BoxFuture, Content, Message, StreamEvent};
use fluzo_protocol::{Endpoint, Event, EventSink, Prompt, RunReport, Submitted};
use fluzo_stdx::sanitize::terminal_text;

use crate::{FAILURE, SUCCESS, failure, tell_notices};

/// Where the text goes.
pub struct PrintOutput<W> {
    /// Standard output.
    pub out: W,
    /// It is a terminal: text appears as it arrives, and control characters do not.
    pub is_terminal: bool,
}

/// Runs `prompts` one after the other and prints the text of the last response.
///
/// Returns the exit code: 1 when a prompt could not start or its run failed.
pub async fn print<W: Write + Send + 'static>(
    endpoint: Arc<dyn Endpoint>,
    prompts: Vec<Prompt>,
    output: PrintOutput<W>,
    err: &mut (dyn Write + Send),
) -> i32 {
    let out = Arc::new(Mutex::new(output.out));
    if output.is_terminal {
        endpoint.subscribe(Arc::new(Live {
            out: Arc::clone(&out),
            abort: Arc::downgrade(&endpoint),
        }));
    }
    tell_notices(&*endpoint, err);
    let mut last = None;
    for prompt in prompts {
        match endpoint.prompt(prompt).await {
            Ok(Submitted::Run(run)) => last = Some(run.await),
            Ok(Submitted::Queued) => {}
            Err(error) => {
                let _ = writeln!(err, "Error: {error}");
                return FAILURE;
            }
        }
        tell_notices(&*endpoint, err);
    }
    let Some(report) = last else { return SUCCESS };
    finish(&report, &out, output.is_terminal, err)
}

fn finish(
    report: &RunReport,
    out: &Mutex<impl Write>,
    live: bool,
    err: &mut (dyn Write + Send),
) -> i32 {
    if let Some(text) = failure(report) {
        let _ = writeln!(err, "{}", terminal_text(&text));
        return FAILURE;
    }
    if live {
        return SUCCESS;
    }
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    let message = report.last.as_deref().and_then(Message::as_assistant);
    let texts = message
        .into_iter()
        .flat_map(|m| &m.content)
        .filter_map(Content::as_text);
    for text in texts {
        if writeln!(out, "{text}").is_err() {
            return FAILURE;
        }
    }
    if out.flush().is_err() {
        FAILURE
    } else {
        SUCCESS
    }
}

/// Shows text as it arrives.
struct Live<W> {
    out: Arc<Mutex<W>>,
    abort: std::sync::Weak<dyn Endpoint>,
}

impl<W: Write + Send> Live<W> {
    fn show(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if written.is_err()
            && let Some(endpoint) = self.abort.upgrade()
        {
            endpoint.abort();
        }
    }
}

impl<W: Write + Send + 'static> EventSink for Live<W> {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        match event {
            Event::MessageUpdate {
                delta: StreamEvent::TextDelta { delta, .. },
            } => {
                self.show(&terminal_text(delta));
            }
            Event::MessageUpdate {
                delta: StreamEvent::TextEnd { .. },
            } => self.show("\n"),
            _ => {}
        }
        Box::pin(std::future::ready(()))
    }
}
