//! JSON mode: the header, then every event, one object a line.

use std::io::Write;
use std::sync::Arc;

use fluzo_protocol::{Endpoint, Prompt, Submitted};

use crate::{EventPump, FAILURE, SUCCESS, failure, tell_halted, tell_notices};

/// Runs `prompts` one after the other and writes header and events to `out`.
///
/// Returns the exit code: 1 when a prompt could not start or the last run failed.
/// When the reader of `out` goes away, the run is aborted.
pub async fn json(
    endpoint: Arc<dyn Endpoint>,
    prompts: Vec<Prompt>,
    out: impl Write + Send + 'static,
    err: &mut (dyn Write + Send),
) -> i32 {
    let aborter = Arc::clone(&endpoint);
    let pump = EventPump::start(out, move || aborter.abort());
    pump.line(endpoint.header().to_string());
    endpoint.subscribe(pump.sink());
    tell_notices(&*endpoint, err);
    let code = run_all(&*endpoint, prompts, err, &pump).await;
    if pump.finish().await { code } else { FAILURE }
}

async fn run_all(
    endpoint: &dyn Endpoint,
    prompts: Vec<Prompt>,
    err: &mut (dyn Write + Send),
    pump: &EventPump,
) -> i32 {
    let mut code = SUCCESS;
    for prompt in prompts {
        if pump.is_closed() {
            return FAILURE;
        }
        match endpoint.prompt(prompt).await {
            Ok(Submitted::Run(run)) => {
                let report = run.await;
                code = if failure(&report).is_some() {
                    FAILURE
                } else {
                    SUCCESS
                };
                tell_halted(&report, err);
            }
            Ok(Submitted::Queued | Submitted::Handled) => {}
            Err(error) => {
                let _ = writeln!(err, "Error: {error}");
                return FAILURE;
            }
        }
        tell_notices(endpoint, err);
    }
    code
}
