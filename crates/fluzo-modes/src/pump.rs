//! Writes events on a thread of its own, so that a slow reader never holds a run.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fluzo_llm::BoxFuture;
use fluzo_protocol::{Event, EventSink, MergingQueue, PiWriter};
use tokio::task::JoinHandle;

/// Takes events and lines and writes them in order, one line each.
///
/// While the reader is behind, deltas of one block are merged; nothing else is lost.
/// When the reader is gone, the rest is dropped and [`EventPump::is_closed`] says so.
/// Dropped without [`EventPump::finish`], it waits for nobody: what the reader has not
/// taken by then may be lost.
pub struct EventPump {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    on_close: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[derive(Default)]
struct State {
    queue: MergingQueue,
    lines: std::collections::VecDeque<Line>,
    finished: bool,
    closed: bool,
}

/// What stands in the order of writing.
enum Line {
    /// The next event of the queue.
    Events,
    /// A line that is no event.
    Text(String),
}

impl EventPump {
    /// Starts writing to `out`, on a thread of the tokio runtime that this must be called
    /// in. `on_close` is called once if the reader goes away.
    pub fn start(
        out: impl Write + Send + 'static,
        on_close: impl FnOnce() + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        *lock(&shared.on_close) = Some(Box::new(on_close));
        let theirs = Arc::clone(&shared);
        let writer = tokio::task::spawn_blocking(move || theirs.write_all(out));
        Self {
            shared,
            writer: Some(writer),
        }
    }

    /// The sink for a session's events.
    pub fn sink(&self) -> Arc<dyn EventSink> {
        Arc::new(Sink(Arc::clone(&self.shared)))
    }

    /// Writes a line that is no event, after everything that came before.
    pub fn line(&self, text: String) {
        self.shared.change(|state| {
            if !state.closed {
                state.lines.push_back(Line::Text(text));
            }
        });
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }

    /// Waits until everything is written, however long the reader takes. False when the
    /// reader was gone before. Dropping the future gives the rest up.
    pub async fn finish(mut self) -> bool {
        self.stop();
        if let Some(writer) = self.writer.take()
            && writer.await.is_err()
        {
            // A panic of the writer counts as a reader that is gone.
            return false;
        }
        !self.is_closed()
    }

    fn stop(&self) {
        self.shared.change(|state| state.finished = true);
    }
}

impl Drop for EventPump {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_one();
    }

    fn push(&self, event: Event) {
        self.change(|state| {
            if state.closed {
                return;
            }
            // Lines that are no events keep their place: merging never crosses one.
            if !matches!(state.lines.back(), Some(Line::Events)) {
                state.lines.push_back(Line::Events);
            }
            state.queue.push(event);
        });
    }

    fn write_all(&self, mut out: impl Write) {
        let mut writer = PiWriter::default();
        while let Some(next) = self.next() {
            let line = match next {
                Next::Event(event) => writer.line(&event),
                Next::Text(text) => Ok(text),
            };
            // A value that has no JSON form cannot come out of JSON; the event is left out.
            let Ok(mut line) = line else { continue };
            line.push('\n');
            let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
            if written.is_err() {
                return self.close();
            }
        }
    }

    fn next(&self) -> Option<Next> {
        let mut state = lock(&self.state);
        loop {
            match state.lines.front() {
                Some(Line::Events) => match state.queue.pop() {
                    Some(event) => return Some(Next::Event(event)),
                    None => drop(state.lines.pop_front()),
                },
                Some(Line::Text(_)) => {
                    if let Some(Line::Text(text)) = state.lines.pop_front() {
                        return Some(Next::Text(text));
                    }
                }
                None if state.finished => return None,
                None => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    fn close(&self) {
        {
            let mut state = lock(&self.state);
            state.closed = true;
            state.lines.clear();
            state.queue = MergingQueue::default();
        }
        let on_close = lock(&self.on_close).take();
        if let Some(on_close) = on_close {
            on_close();
        }
    }
}

enum Next {
    Event(Event),
    Text(String),
}

struct Sink(Arc<Shared>);

impl EventSink for Sink {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        self.0.push(event.clone());
        Box::pin(std::future::ready(()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
