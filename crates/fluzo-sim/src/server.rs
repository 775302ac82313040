//! The sockets: accepting, reading requests, playing answers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::answer::{Act, Answer};
use crate::http::{ReadError, Wire};
use crate::judge::Record;
use crate::verdict::Outcome;

const FILLER: usize = 64 * 1024;

/// What the server's tasks and the handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    record: Mutex<Record>,
    /// Signalled at each change of the record.
    pub changed: Condvar,
    /// Each permit lets one held reply go on.
    pub releases: Semaphore,
}

impl Shared {
    pub(crate) fn new(record: Record) -> Self {
        Self {
            record: Mutex::new(record),
            changed: Condvar::new(),
            releases: Semaphore::new(0),
        }
    }

    /// A panic while the lock was held is no reason to lose the record.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        let value = change(&mut self.lock());
        self.changed.notify_all();
        value
    }
}

/// Serves until `stop` fires or its sender is dropped, then takes in the connections that already wait.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: oneshot::Receiver<()>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stop => break,
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let number = shared.update(Record::connected);
                    tasks.spawn(connection(stream, number, Arc::clone(&shared)));
                }
            }
            Some(_) = tasks.join_next() => {}
        }
    }
    if let Ok(listener) = listener.into_std() {
        while listener.accept().is_ok() {
            shared.update(Record::connected);
        }
    }
}

async fn connection(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    // Without it small writes would be merged; a failure to set it only makes splits less exact.
    let _ = stream.set_nodelay(true);
    let mut wire = Wire::new(stream);
    loop {
        let (index, answer, last) = match wire.next().await {
            Ok(None) | Err(ReadError::Lost) => break,
            Ok(Some(request)) => {
                let last = request.wants_close();
                let (index, answer) = shared.update(|record| record.decide(number, request));
                (index, answer, last)
            }
            Err(ReadError::Bad(violation, request)) => {
                let (index, answer) = shared.update(|record| {
                    record.unreadable(number, request.map(|request| *request), violation)
                });
                play(&mut wire, index, &answer, &shared, true).await;
                wire.linger().await;
                break;
            }
        };
        let there = play(&mut wire, index, &answer, &shared, last).await;
        let ends = !there || answer.close || last;
        if ends {
            break;
        }
    }
    shared.update(|record| record.open_connections -= 1);
}

/// Does what the answer says; false when the client left before it was done.
async fn play(
    wire: &mut Wire,
    index: usize,
    answer: &Answer,
    shared: &Shared,
    client_closes: bool,
) -> bool {
    let end = |outcome| shared.update(|record| record.ended(index, outcome, answer, client_closes));
    let count = answer.acts.len();
    for (number, act) in answer.acts.iter().enumerate() {
        if number + 1 == count && matches!(act, Act::Write(_)) {
            // Before the last bytes: a client that has them all must find the request ended.
            end(answer.outcome());
        }
        let there = match act {
            Act::Write(bytes) => wire.write(bytes).await.is_ok(),
            Act::Fill { bytes, chunked } => fill(wire, *bytes, *chunked).await,
            Act::Hold => hold(wire, index, shared).await,
        };
        if !there {
            end(Outcome::ClientGone);
            return false;
        }
        tokio::task::yield_now().await;
    }
    end(answer.outcome());
    true
}

/// Waits for a release; false when the client left first.
async fn hold(wire: &mut Wire, index: usize, shared: &Shared) -> bool {
    shared.update(|record| record.settle(index, Outcome::Stalled));
    tokio::select! {
        permit = shared.releases.acquire() => {
            if let Ok(permit) = permit {
                permit.forget();
            }
            shared.update(|record| record.settle(index, Outcome::Pending));
            true
        }
        () = wire.gone() => false,
    }
}

async fn fill(wire: &mut Wire, bytes: u64, chunked: bool) -> bool {
    let mut left = bytes;
    while left > 0 {
        let size = usize::try_from(left).map_or(FILLER, |left| left.min(FILLER));
        let mut block = vec![b'x'; size];
        if chunked {
            block.splice(0..0, format!("{size:x}\r\n").into_bytes());
            block.extend_from_slice(b"\r\n");
        }
        if wire.write(&block).await.is_err() {
            return false;
        }
        left -= size as u64;
    }
    true
}
