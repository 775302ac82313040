//! Commands that the user runs beside the agent: the shell of the `bash` tool, with output
//! cleaned for the screen and the session.

use encoding_rs::{CoderResult, Decoder, UTF_8};
use fluzo_exec::{EndedBy, ExitStatus, OutputSink, ProcessReport};
use fluzo_llm::AbortSignal;
use fluzo_llm::message::BashExecutionMessage;
use fluzo_stdx::truncate::TextLimits;

use crate::ToolEnv;
use crate::bash::{add_background_lines, not_run};
use crate::bash_output::{Output, Saved};
use crate::clean_text::Cleaner;

/// What is kept of the output; the whole goes to a file once more has come.
const LIMITS: TextLimits = TextLimits {
    max_lines: 2000,
    max_bytes: 50 * 1024,
};

/// Why a command could not be run, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRun(String);

/// Runs `command` to its end, without a limit in time. Escape sequences, control characters
/// and carriage returns are taken out of its output, of which the last 2000 lines or 50 KiB
/// are kept. More than that is also written, as cleaned, to the file that the message names.
///
/// When `abort` fires the whole process tree is ended and what came so far is returned, as
/// cancelled. Dropping the future ends the tree as well. What the command leaves running by
/// itself is named at the end of the output.
///
/// # Errors
///
/// When the command cannot be started, or contact with it is lost.
pub async fn run(
    env: &ToolEnv,
    command: &str,
    abort: &AbortSignal,
) -> Result<BashExecutionMessage, NotRun> {
    let mut sink = CleanOutput::new(env);
    let report = if abort.is_cancelled() {
        NEVER_STARTED
    } else {
        let spec = env.shell_command(command);
        let run = env.processes.run(spec, &mut sink, abort.clone());
        run.await.map_err(|error| NotRun(not_run(&error)))?
    };
    let mut message = sink.message(&report);
    command.clone_into(&mut message.command);
    message.timestamp = env.bash.time.now_ms();
    Ok(message)
}

/// The report on a command that was aborted before it began.
const NEVER_STARTED: ProcessReport = ProcessReport {
    status: None,
    ended_by: EndedBy::Abort,
    background: Vec::new(),
};

/// Output that is cleaned as it comes. Memory is bounded.
struct CleanOutput {
    decoder: Decoder,
    cleaner: Cleaner,
    output: Output,
    /// Bytes that came, before cleaning.
    arrived: usize,
    decoded: String,
    clean: String,
}

impl CleanOutput {
    fn new(env: &ToolEnv) -> Self {
        Self {
            decoder: UTF_8.new_decoder_without_bom_handling(),
            cleaner: Cleaner::default(),
            output: Output::new(LIMITS, &env.bash.spill, &env.fs),
            arrived: 0,
            decoded: String::new(),
            clean: String::new(),
        }
    }

    fn push(&mut self, mut bytes: &[u8], last: bool) {
        self.arrived = self.arrived.saturating_add(bytes.len());
        self.decoded.clear();
        self.clean.clear();
        loop {
            let room = self.decoder.max_utf8_buffer_length(bytes.len());
            self.decoded.reserve(room.unwrap_or(bytes.len()));
            let decoded = &mut self.decoded;
            let (result, read, _) = self.decoder.decode_to_string(bytes, decoded, last);
            bytes = &bytes[read..];
            if matches!(result, CoderResult::InputEmpty) {
                break;
            }
        }
        self.cleaner.push(&self.decoded, &mut self.clean);
        if last {
            self.cleaner.finish(&mut self.clean);
        }
        self.output.push(self.clean.as_bytes());
        if self.arrived > LIMITS.max_bytes {
            self.output.save_whole();
        }
    }

    /// What came of the command, its name and time left out.
    fn message(mut self, report: &ProcessReport) -> BashExecutionMessage {
        self.push(&[], true);
        self.output.finish();
        let snapshot = self.output.snapshot();
        let mut output = snapshot.truncation.content;
        add_background_lines(&report.background, &mut output);
        let exit_code = match (report.ended_by, report.status) {
            (EndedBy::Itself, Some(ExitStatus::Code(code))) => Some(i64::from(code)),
            _ => None,
        };
        let full_output_path = match snapshot.saved {
            Saved::Whole(path) | Saved::First(path, _) => Some(path.to_string_lossy().into_owned()),
            Saved::Nowhere | Saved::Failed(_) => None,
        };
        BashExecutionMessage {
            output,
            exit_code,
            cancelled: report.ended_by == EndedBy::Abort,
            truncated: snapshot.truncation.truncated,
            full_output_path,
            ..BashExecutionMessage::default()
        }
    }
}

impl OutputSink for CleanOutput {
    fn write(&mut self, chunk: &[u8]) {
        self.push(chunk, false);
    }
}
