//! The handle to a running simulator, for callers that know nothing of async.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::judge::Record;
use crate::scenario::Scenario;
use crate::server::{Shared, serve};
use crate::verdict::{Outcome, RecordedRequest, Verdict};

/// A server that plays one scenario on a loopback port of its own, on a thread of its own.
///
/// Dropping it stops the server; open connections are closed.
#[derive(Debug)]
pub struct Simulator {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Something that a caller can wait for, see [`Simulator::wait_for`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// This many requests have arrived.
    Requests(usize),
    /// This many replies are held back at this moment.
    Stalled(usize),
    /// The exchange of the request with this number has ended.
    Settled(usize),
    /// No connection is open.
    NoConnection,
}

impl Simulator {
    /// Starts playing.
    ///
    /// # Errors
    /// When the scenario makes no sense (kind `InvalidInput`), or no port or thread is to be had.
    pub fn start(scenario: Scenario) -> io::Result<Self> {
        scenario
            .validate()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(Record::new(scenario)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new()
            .name("fluzo-sim".to_owned())
            .spawn(move || runtime.block_on(serve(listener, for_thread, stopped)))?;
        Ok(Self {
            shared,
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The base URL to configure, ending in the scenario's base path (`/v1` by default).
    #[must_use]
    pub fn base_url(&self) -> String {
        let base_path = self.shared.lock().scenario.base_path.clone();
        format!("{}{base_path}", self.origin())
    }

    /// Scheme and authority alone, for dialects whose base URL has no path.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address that is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The judgement over what has happened so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.shared.lock().verdict()
    }

    /// The requests so far, refused ones included.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().requests.clone()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// Lets one held reply go on: the one that waits longest, or else the next that stalls.
    pub fn release_stall(&self) {
        self.shared.releases.add_permits(1);
    }

    /// Blocks until the milestone is reached, and says whether it was within `limit`. The limit is only there so that a
    /// broken test ends.
    #[must_use]
    pub fn wait_for(&self, milestone: Milestone, limit: Duration) -> bool {
        let missing = |record: &mut Record| !milestone.reached(record);
        let (record, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), limit, missing)
            .unwrap_or_else(PoisonError::into_inner);
        milestone.reached(&record)
    }

    /// Stops the server and gives the final judgement. Replies that are not complete are given up.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        self.shut_down();
        self.shared.lock().final_verdict()
    }

    fn shut_down(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server thread has been printed already; the record is still good.
            let _ = thread.join();
        }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Milestone {
    fn reached(self, record: &Record) -> bool {
        let outcomes = || record.requests.iter().map(|request| request.outcome);
        match self {
            Self::Requests(count) => record.requests.len() >= count,
            Self::Stalled(count) => {
                outcomes()
                    .filter(|outcome| *outcome == Outcome::Stalled)
                    .count()
                    >= count
            }
            Self::Settled(index) => outcomes()
                .nth(index)
                .is_some_and(|outcome| !matches!(outcome, Outcome::Pending | Outcome::Stalled)),
            Self::NoConnection => record.open_connections == 0,
        }
    }
}
