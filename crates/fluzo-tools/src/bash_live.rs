//! A running command: its output is shown while it comes, but not too often.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluzo_agent::TimeEffect;
use fluzo_exec::{CommandSpec, OutputSink, ProcessError, ProcessReport};
use fluzo_llm::{AbortSignal, Content, ToolOutput};
use futures_util::future::{Either, select};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::ToolEnv;
use crate::bash_output::{Output, Saved, Snapshot};

/// Least time between two partial results, in milliseconds.
const PACE_MS: i64 = 100;

/// Takes partial results.
pub(crate) type Show<'a> = &'a (dyn Fn(ToolOutput) + Send + Sync);

/// Runs a command to its end and shows its output on the way: one empty result at once, then
/// the output so far whenever it has changed, at most every 100 ms. A change that comes too
/// early is shown when its time has come, even if nothing follows it, and what is left at
/// the end is shown then.
pub(crate) async fn run(
    env: &ToolEnv,
    spec: CommandSpec,
    abort: AbortSignal,
    show: Show<'_>,
) -> Result<(ProcessReport, Snapshot), ProcessError> {
    show(ToolOutput::default());
    let live = Live {
        time: &*env.bash.time,
        show,
        too_early: Notify::new(),
        state: Mutex::new(State {
            output: Output::new(env.limits.text, &env.bash.spill, &env.fs),
            changed: false,
            shown_ms: None,
            waiting: false,
        }),
    };
    let report = {
        let mut sink = &live;
        let command = env.processes.run(spec, &mut sink, abort);
        match select(command, pin!(live.show_late())).await {
            Either::Left((report, _)) => report?,
            Either::Right((never, _)) => match never {},
        }
    };
    Ok((report, live.finish()))
}

/// The facts about `snapshot` that front ends get.
pub(crate) fn details(snapshot: &Snapshot) -> Map<String, Value> {
    let mut details = Map::new();
    if snapshot.truncation.truncated {
        let truncation = serde_json::to_value(&snapshot.truncation).unwrap_or_default();
        details.insert("truncation".into(), truncation);
    }
    if let Saved::Whole(path) | Saved::First(path, _) = &snapshot.saved {
        let path = path.to_string_lossy().into_owned();
        details.insert("fullOutputPath".into(), path.into());
    }
    details
}

struct Live<'a> {
    time: &'a dyn TimeEffect,
    show: Show<'a>,
    too_early: Notify,
    state: Mutex<State>,
}

struct State {
    output: Output,
    /// Since the last partial result.
    changed: bool,
    shown_ms: Option<i64>,
    /// Whether [`Live::show_late`] has taken over.
    waiting: bool,
}

impl Live<'_> {
    fn push(&self, chunk: &[u8]) {
        let mut state = self.state();
        state.output.push(chunk);
        state.changed = true;
        if self.due(&state).is_none() {
            self.show(&mut state);
        } else if !state.waiting {
            state.waiting = true;
            self.too_early.notify_one();
        }
    }

    /// Shows changes that came too early. A timer runs only while there is one.
    async fn show_late(&self) -> Infallible {
        loop {
            self.too_early.notified().await;
            while let Some(wait) = self.show_when_due() {
                self.time.sleep(wait).await;
            }
        }
    }

    /// Shows a change whose time has come; else says how long to wait.
    fn show_when_due(&self) -> Option<Duration> {
        let mut state = self.state();
        if state.changed {
            let wait = self.due(&state);
            if wait.is_some() {
                return wait;
            }
            self.show(&mut state);
        }
        state.waiting = false;
        None
    }

    /// How long to wait before the next result; `None` when it may be shown.
    fn due(&self, state: &State) -> Option<Duration> {
        let passed = self.time.now_ms().saturating_sub(state.shown_ms?);
        // A clock that was set back must not hold results up.
        if !(0..PACE_MS).contains(&passed) {
            return None;
        }
        u64::try_from(PACE_MS - passed)
            .ok()
            .map(Duration::from_millis)
    }

    fn show(&self, state: &mut State) {
        state.changed = false;
        state.shown_ms = Some(self.time.now_ms());
        let snapshot = state.output.snapshot();
        (self.show)(ToolOutput {
            details: Some(details(&snapshot).into()),
            content: vec![Content::text(snapshot.truncation.content)],
            terminate: false,
        });
    }

    fn finish(self) -> Snapshot {
        let mut state = self.state();
        state.output.finish();
        if state.changed {
            self.show(&mut state);
        }
        state.output.snapshot()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputSink for &Live<'_> {
    fn write(&mut self, chunk: &[u8]) {
        self.push(chunk);
    }
}

#[cfg(test)]
mod tests;
