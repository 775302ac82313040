//! Print mode: the text of the last response on standard output, and nothing else there.

use std::io::Write;
use std::sync::Arc;

use fluzo_llm::{BoxFuture, Content, Message, StreamEvent};
use fluzo_protocol::{Endpoint, Event, EventSink, Prompt, RunReport, Submitted};
use fluzo_stdx::sanitize::terminal_text;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::{EventPump, FAILURE, SUCCESS, failure, tell_notices};

/// Where the text goes.
pub struct PrintOutput<W> {
    /// Standard output.
    pub out: W,
    /// It is a terminal: text appears as it arrives, and control characters do not.
    pub is_terminal: bool,
}

/// Runs `prompts` one after the other and prints the text of the last response.
///
/// Returns the exit code: 1 when a prompt could not start, its run failed, or the reader
/// went away. Waits for a slow reader at the end; dropping the future gives the rest up.
pub async fn print<W: Write + Send + 'static>(
    endpoint: Arc<dyn Endpoint>,
    prompts: Vec<Prompt>,
    output: PrintOutput<W>,
    err: &mut (dyn Write + Send),
) -> i32 {
    let aborter = Arc::clone(&endpoint);
    let pump = EventPump::with_form(output.out, live_text, move || aborter.abort());
    if output.is_terminal {
        endpoint.subscribe(pump.sink());
    }
    let (notes, mut waits) = mpsc::unbounded_channel();
    endpoint.subscribe(Arc::new(Waits(notes)));
    tell_notices(&*endpoint, err);
    let code = match run_all(&*endpoint, prompts, err, &pump, &mut waits).await {
        Ok(last) => finish(last.as_ref(), &pump, output.is_terminal, err),
        Err(code) => code,
    };
    if pump.finish().await { code } else { FAILURE }
}

/// The last report; `Err` is the exit code when a prompt could not start.
async fn run_all(
    endpoint: &dyn Endpoint,
    prompts: Vec<Prompt>,
    err: &mut (dyn Write + Send),
    pump: &EventPump,
    waits: &mut UnboundedReceiver<String>,
) -> Result<Option<RunReport>, i32> {
    let mut last = None;
    for prompt in prompts {
        if pump.is_closed() {
            return Err(FAILURE);
        }
        match endpoint.prompt(prompt).await {
            Ok(Submitted::Run(run)) => last = Some(attend(run, waits, err).await),
            Ok(Submitted::Queued | Submitted::Handled) => {}
            Err(error) => {
                let _ = writeln!(err, "Error: {error}");
                return Err(FAILURE);
            }
        }
        tell_notices(endpoint, err);
    }
    Ok(last)
}

/// Polls a run to its end and says meanwhile when a failed response will be tried again.
async fn attend(
    mut run: BoxFuture<'static, RunReport>,
    waits: &mut UnboundedReceiver<String>,
    err: &mut (dyn Write + Send),
) -> RunReport {
    loop {
        tokio::select! {
            biased;
            Some(wait) = waits.recv() => drop(writeln!(err, "{wait}")),
            report = &mut run => {
                while let Ok(wait) = waits.try_recv() {
                    let _ = writeln!(err, "{wait}");
                }
                return report;
            }
        }
    }
}

/// Passes on what is tried after a failure, and that nothing more is.
struct Waits(UnboundedSender<String>);

impl EventSink for Waits {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        if let Some(text) = told(event) {
            // Nobody listens any more when the mode has ended.
            let _ = self.0.send(text);
        }
        Box::pin(std::future::ready(()))
    }
}

fn told(event: &Event) -> Option<String> {
    match event {
        Event::AutoRetryStart {
            attempt,
            max_attempts,
            delay_ms,
            error_message,
        } => {
            let seconds = delay_ms.div_ceil(1000);
            Some(format!(
                "{}; trying again in {seconds} s ({attempt} of {max_attempts})",
                terminal_text(error_message)
            ))
        }
        Event::AutoRetryEnd {
            given_up: Some(given_up),
            ..
        } => Some(terminal_text(&given_up.to_string())),
        Event::FormSwitched {
            switch,
            error_message,
        } => Some(format!(
            "{}; sending it again with {} (set this in the model's `compat` to send it so at once)",
            terminal_text(error_message),
            switch.setting()
        )),
        _ => None,
    }
}

fn finish(
    report: Option<&RunReport>,
    pump: &EventPump,
    live: bool,
    err: &mut (dyn Write + Send),
) -> i32 {
    let Some(report) = report else { return SUCCESS };
    if let Some(text) = failure(report) {
        let _ = writeln!(err, "{}", terminal_text(&text));
        return FAILURE;
    }
    if !live {
        let message = report.last.as_deref().and_then(Message::as_assistant);
        let blocks = message.into_iter().flat_map(|message| &message.content);
        for text in blocks.filter_map(Content::as_text) {
            pump.line(text.to_owned());
        }
    }
    SUCCESS
}

/// What of an event a terminal shows.
fn live_text(event: &Event) -> Option<String> {
    match event {
        Event::MessageUpdate {
            delta: StreamEvent::TextDelta { delta, .. },
        } => Some(terminal_text(delta)),
        Event::MessageUpdate {
            delta: StreamEvent::TextEnd { .. },
        } => Some("\n".to_owned()),
        _ => None,
    }
}
