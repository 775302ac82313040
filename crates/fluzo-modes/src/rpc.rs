//! RPC mode: commands as JSON lines on standard input, answers and events as JSON
//! lines on standard output.

use std::io::Write;
use std::sync::Arc;
use std::task::Poll;

use fluzo_llm::BoxFuture;
use fluzo_protocol::{Command, Endpoint, Prompt, Response, RunReport, Submitted};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use crate::{EventPump, FAILURE, SUCCESS, tell_halted, tell_notices};

/// Serves commands from `input` until it ends or nobody reads `out`, then aborts what
/// runs and returns the exit code: 1 when the reader went away. Lines end with LF;
/// nothing else separates them.
pub async fn rpc(
    endpoint: Arc<dyn Endpoint>,
    input: impl AsyncBufRead + Unpin,
    out: impl Write + Send + 'static,
    err: &mut (dyn Write + Send),
) -> i32 {
    let aborter = Arc::clone(&endpoint);
    let pump = EventPump::start(out, move || aborter.abort());
    endpoint.subscribe(pump.sink());
    tell_notices(&*endpoint, err);
    let mut server = Server {
        endpoint,
        pump,
        work: FuturesUnordered::new(),
    };
    server.serve(input, err).await;
    if server.pump.finish().await {
        SUCCESS
    } else {
        FAILURE
    }
}

/// Something a command has set going.
type Work = BoxFuture<'static, Done>;

/// What it came to.
enum Done {
    /// A command is carried out; a run may follow.
    Answer(Box<Response>, Option<BoxFuture<'static, RunReport>>),
    /// A run is over.
    Run(RunReport),
}

struct Server {
    endpoint: Arc<dyn Endpoint>,
    pump: EventPump,
    work: FuturesUnordered<Work>,
}

impl Server {
    async fn serve(&mut self, mut input: impl AsyncBufRead + Unpin, err: &mut (dyn Write + Send)) {
        let mut line = Vec::new();
        loop {
            tokio::select! {
                // Nobody would see what a further command does.
                () = self.pump.closed() => break,
                read = input.read_until(b'\n', &mut line) => {
                    let ended = !matches!(read, Ok(n) if n > 0);
                    // `read_until` continues a line after a cancelled read, so it is only whole here;
                    // the last line may have been read before its end was known.
                    let text = std::mem::take(&mut line);
                    self.take_line(&text, err).await;
                    if ended {
                        break;
                    }
                }
                Some(done) = self.work.next(), if !self.work.is_empty() => self.settle(done, err),
            }
            tell_notices(&*self.endpoint, err);
        }
        self.endpoint.end();
        while let Some(done) = self.work.next().await {
            self.settle(done, err);
        }
    }

    fn settle(&mut self, done: Done, err: &mut (dyn Write + Send)) {
        match done {
            Done::Answer(response, run) => {
                self.answer(&response);
                if let Some(run) = run {
                    self.attend(run);
                }
            }
            Done::Run(report) => tell_halted(&report, err),
        }
    }

    fn attend(&mut self, run: BoxFuture<'static, RunReport>) {
        self.work
            .push(Box::pin(async move { Done::Run(run.await) }));
    }

    fn answer(&self, response: &Response) {
        // What was read from JSON can be written as JSON.
        if let Ok(line) = response.line() {
            self.pump.line(line);
        }
    }

    async fn take_line(&mut self, line: &[u8], err: &mut (dyn Write + Send)) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() {
            return;
        }
        match parse(text) {
            Ok((id, command)) => self.start(id, command, err).await,
            Err(response) => self.answer(&response),
        }
    }

    async fn start(&mut self, id: Option<Value>, command: Command, err: &mut (dyn Write + Send)) {
        let name = command.name().to_owned();
        if let Command::Prompt {
            message,
            images,
            streaming_behavior,
        } = command
        {
            let prompt = Prompt {
                text: message,
                images,
                queue: streaming_behavior,
                literal: false,
            };
            let result = match self.endpoint.prompt(prompt).await {
                Ok(Submitted::Run(run)) => {
                    self.attend(run);
                    Ok(None)
                }
                Ok(Submitted::Queued | Submitted::Handled) => Ok(None),
                Err(error) => Err(error),
            };
            return self.answer(&Response {
                id,
                command: name,
                result,
            });
        }
        let endpoint = Arc::clone(&self.endpoint);
        let mut work: Work = Box::pin(async move {
            let (result, run) = match endpoint.execute(command).await {
                Ok(executed) => {
                    let result = executed.error.map_or(Ok(executed.data), Err);
                    (result, executed.run)
                }
                Err(error) => (Err(error), None),
            };
            let response = Response {
                id,
                command: name,
                result,
            };
            Done::Answer(Box::new(response), run)
        });
        // What needs no time is done before the next command is read.
        match futures_util::poll!(&mut work) {
            Poll::Ready(done) => self.settle(done, err),
            Poll::Pending => self.work.push(work),
        }
    }
}

/// Reads a command; `Err` is the answer to a line that is none.
fn parse(text: &str) -> Result<(Option<Value>, Command), Box<Response>> {
    let refused = |id, command: &str, error: String| {
        Box::new(Response {
            id,
            command: command.to_owned(),
            result: Err(error),
        })
    };
    let value: Value = serde_json::from_str(text)
        .map_err(|error| refused(None, "parse", format!("Failed to parse command: {error}")))?;
    let id = value.get("id").cloned();
    let name = value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !Command::NAMES.contains(&name.as_str()) {
        return Err(refused(id, &name, format!("Unknown command: {name}")));
    }
    match serde_json::from_value(value) {
        Ok(command) => Ok((id, command)),
        Err(error) => Err(refused(id, &name, error.to_string())),
    }
}
