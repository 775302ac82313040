//! Polling futures by hand, without an executor.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A waker that counts how often it was woken.
#[derive(Debug, Default)]
pub struct Wakes(AtomicUsize);

impl Wakes {
    /// How often it was woken.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once, whoever it waits for.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Wakes::default()));
    pin!(future).poll(&mut Context::from_waker(&waker))
}

/// Polls for as long as something wakes it. `Pending` means that it now waits for the test.
pub fn poll_until_stalled<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    loop {
        let before = wakes.count();
        match pin!(&mut *future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return Poll::Ready(output),
            Poll::Pending if wakes.count() == before => return Poll::Pending,
            Poll::Pending => {}
        }
    }
}

/// Polls to the end.
///
/// # Panics
///
/// When it waits for something that nothing will bring about.
#[track_caller]
pub fn poll_to_end<F: Future>(future: F) -> F::Output {
    match poll_until_stalled(&mut pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits for something that nobody will do"),
    }
}

/// Pending once, woken at once: lets everything beside it be polled.
pub async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Switch;

    #[test]
    fn a_future_is_polled_while_it_is_woken() {
        poll_to_end(async {
            pause().await;
            pause().await;
        });
        let switch = Switch::new();
        let mut waiting = Box::pin(switch.wait());
        assert!(poll_until_stalled(&mut waiting).is_pending());
        switch.flip();
        assert!(poll_once(&mut waiting).is_ready());
    }

    #[test]
    #[should_panic(expected = "nobody will do")]
    fn a_future_that_nobody_wakes_fails_the_test() {
        poll_to_end(std::future::pending::<()>());
    }
}
