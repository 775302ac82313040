//! Standard input of the RPC mode, which a signal ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};
use tokio::sync::oneshot::Receiver;

/// Input that is at its end as soon as it is stopped.
pub(crate) struct Commands<R> {
    pub(crate) input: R,
    /// Resolves to stop; `None` after that.
    pub(crate) stopped: Option<Receiver<()>>,
}

impl<R> Commands<R> {
    fn is_stopped(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(stopped) = &mut self.stopped
            && Pin::new(stopped).poll(cx).is_ready()
        {
            self.stopped = None;
        }
        self.stopped.is_none()
    }
}

impl<R: AsyncBufRead + Unpin> AsyncBufRead for Commands<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.is_stopped(cx) {
            return Poll::Ready(Ok(&[]));
        }
        Pin::new(&mut this.input).poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        Pin::new(&mut self.input).consume(amount);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Commands<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_stopped(cx) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.input).poll_read(cx, buffer)
    }
}
