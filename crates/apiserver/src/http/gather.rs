//! Write coalescing: what a connection writes, gathered into few writes.
//!
//! HTTP/2 flushes after each frame of data, so a watch with ten streams on a connection would cost ten records of TLS and ten writes for one
//! event. Here a flush does nothing: bytes are collected while the connection is polled, and written when it has no more to do. With
//! several answers under way they are written a turn later, so that the tasks that wait behind the connection's, among them those of its
//! other streams, add theirs.

use std::future::{Future, poll_fn};
use std::io;
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is collected before it is written anyway.
const LIMIT: usize = 64 * 1024;

/// A stream whose writes are gathered. Copies are the same one.
pub(crate) struct Gather<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    stream: S,
    bytes: Vec<u8>,
    /// How many of the bytes are written.
    written: usize,
    /// The stream has bytes that it has not passed on.
    unflushed: bool,
    /// A turn was waited for.
    waited: bool,
    /// What went wrong between two turns; the connection gets it with its next read.
    error: Option<io::Error>,
}

impl<S> Clone for Gather<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Gathered {
            stream,
            bytes: Vec::new(),
            written: 0,
            unflushed: false,
            waited: false,
            error: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Gathered<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work of the connection on this stream, and writes what it leaves. `busy`: more than one answer is under way.
    pub(crate) async fn run<F: Future>(&self, connection: F, busy: impl Fn() -> bool) -> F::Output {
        let mut connection = pin!(connection);
        poll_fn(|context| {
            // At its end, it has shut the stream down, and that has written everything.
            let done = connection.as_mut().poll(context);
            if done.is_pending() {
                self.lock().settle(context, &busy);
            }
            done
        })
        .await
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    fn settle(&mut self, context: &mut Context<'_>, busy: impl Fn() -> bool) {
        if self.bytes.is_empty() && !self.unflushed {
            return;
        }
        if !self.waited && !self.bytes.is_empty() && busy() {
            self.waited = true;
            context.waker().wake_by_ref();
            return;
        }
        self.waited = false;
        // Pending: the stream wakes the connection.
        if let Poll::Ready(Err(error)) = self.flush(context) {
            self.bytes.clear();
            (self.written, self.unflushed, self.error) = (0, false, Some(error));
            context.waker().wake_by_ref();
        }
    }

    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() {
            let rest = self.bytes.get(self.written..).unwrap_or_default();
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
            self.unflushed = true;
        }
        self.written = 0;
        self.bytes.clear();
        Poll::Ready(Ok(()))
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(context))?;
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.unflushed = false;
        // Thousands of idle connections keep nothing.
        self.bytes = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// How many bytes there is room for.
    fn room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.bytes.len() >= LIMIT {
            ready!(self.drain(context))?;
        }
        Poll::Ready(Ok(LIMIT - self.bytes.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = gathered.error.take() {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut gathered.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = self.lock();
        let room = ready!(gathered.room(context))?;
        let mut left = room;
        for slice in slices {
            let part = slice.get(..left.min(slice.len())).unwrap_or_default();
            gathered.bytes.extend_from_slice(part);
            left -= part.len();
        }
        Poll::Ready(Ok(room - left))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.lock();
        if let Some(error) = gathered.error.take() {
            return Poll::Ready(Err(error));
        }
        ready!(gathered.flush(context))?;
        Pin::new(&mut gathered.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Writes, flushes and waits for more, again and again, then shuts down.
    async fn connection(mut io: impl AsyncWrite + Unpin, turns: usize) -> io::Result<()> {
        for turn in 0..turns {
            for byte in 0..3_u8 {
                io.write_all(&[turn as u8, byte]).await?;
                io.flush().await?;
            }
            tokio::task::yield_now().await;
        }
        io.shutdown().await
    }

    #[tokio::test]
    async fn what_is_written_in_a_turn_comes_at_once() {
        for (busy, turns) in [(false, 1), (true, 2)] {
            let (near, mut far) = tokio::io::duplex(1024);
            let gather = Gather::new(near);
            let side = gather.clone();
            let mut work = pin!(gather.run(
                async {
                    connection(side, 5).await?;
                    std::future::pending::<io::Result<()>>().await
                },
                || busy
            ));
            let mut got = [0; 1024];
            poll_fn(|context| {
                assert!(work.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            if !busy {
                assert_eq!(far.read(&mut got).await.unwrap(), 6, "three writes");
                continue;
            }
            poll_fn(|context| {
                let mut buffer = ReadBuf::new(&mut got);
                assert!(Pin::new(&mut far).poll_read(context, &mut buffer).is_pending(), "a turn later");
                assert!(work.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            assert_eq!(far.read(&mut got).await.unwrap(), 6 * turns, "what both turns wrote");
        }
    }

    #[tokio::test]
    async fn everything_comes_in_order_however_slow_the_reader_is() {
        for busy in [false, true] {
            let (near, mut far) = tokio::io::duplex(100);
            let gather = Gather::new(near);
            let mut io = gather.clone();
            let sent: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
            let wanted = sent.clone();
            let done = Arc::new(AtomicBool::new(false));
            let seen = done.clone();
            let work = tokio::spawn(async move {
                let writing = async {
                    for part in sent.chunks(7001) {
                        io.write_all(part).await?;
                        io.flush().await?;
                    }
                    io.shutdown().await
                };
                let result = gather.run(writing, || busy).await;
                seen.store(true, Ordering::Release);
                result
            });
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.unwrap();
            assert!(got == wanted);
            work.await.unwrap().unwrap();
            assert!(done.load(Ordering::Acquire));
        }
    }
}
