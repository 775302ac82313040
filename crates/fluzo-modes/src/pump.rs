//! Writes events on a thread of its own, so that a slow reader never holds a run.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fluzo_llm::BoxFuture;
use fluzo_protocol::{Event, EventSink, MergingQueue, PiWriter, Waiting};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Takes events and lines and writes them in order, one line each.
///
/// While the reader is behind, events that say more of the same thing are merged;
/// nothing else is lost.
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
    closing: Notify,
    on_close: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[derive(Default)]
struct State {
    queue: MergingQueue,
    finished: bool,
    closed: bool,
}

impl EventPump {
    /// Starts writing to `out` in pi's JSON form, on a thread of the tokio runtime that
    /// this must be called in. `on_close` is called once if the reader goes away.
    pub fn start(
        out: impl Write + Send + 'static,
        on_close: impl FnOnce() + Send + 'static,
    ) -> Self {
        let mut writer = PiWriter::default();
        // A value that has no JSON form cannot come out of JSON; the event is left out.
        let form = move |event: &Event| writer.line(event).ok().map(|line| line + "\n");
        Self::with_form(out, form, on_close)
    }

    /// Like [`EventPump::start`], with another form: the text that shows an event, line
    /// end included, or nothing.
    pub fn with_form(
        out: impl Write + Send + 'static,
        form: impl FnMut(&Event) -> Option<String> + Send + 'static,
        on_close: impl FnOnce() + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        *lock(&shared.on_close) = Some(Box::new(on_close));
        let theirs = Arc::clone(&shared);
        let writer = tokio::task::spawn_blocking(move || theirs.write_all(out, form));
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
                state.queue.push_line(text);
            }
        });
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }

    /// Waits until the reader is gone.
    pub async fn closed(&self) {
        let gone = self.shared.closing.notified();
        if !self.is_closed() {
            gone.await;
        }
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
            if !state.closed {
                state.queue.push(event);
            }
        });
    }

    fn write_all(&self, mut out: impl Write, mut form: impl FnMut(&Event) -> Option<String>) {
        while let Some(next) = self.next() {
            let text = match next {
                Waiting::Event(event) => form(&event),
                Waiting::Line(line) => Some(line + "\n"),
            };
            let Some(text) = text else { continue };
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            if written.is_err() {
                return self.close();
            }
        }
    }

    fn next(&self) -> Option<Waiting> {
        let mut state = lock(&self.state);
        loop {
            match state.queue.pop() {
                Some(next) => return Some(next),
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
            state.queue = MergingQueue::default();
        }
        let on_close = lock(&self.on_close).take();
        if let Some(on_close) = on_close {
            on_close();
        }
        self.closing.notify_waiters();
    }
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
