//! A stream between the socket and hyper that limits the time for reading a response. The timer starts when a write
//! blocks because the client does not read, and stops when a write completes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

#[derive(Debug)]
pub(crate) struct ResponseDeadline<T> {
    stream: T,
    within: Duration,
    /// The timer, which runs from the first blocked write to the next complete one. A partial write does not reset it,
    /// so a client that reads one byte at a time does not extend the limit.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<T> ResponseDeadline<T> {
    pub(crate) const fn new(stream: T, within: Duration) -> Self {
        Self { stream, within, blocked: None }
    }

    fn after_write(
        &mut self,
        cx: &mut Context<'_>,
        wanted_bytes: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                if written.as_ref().is_ok_and(|bytes| *bytes >= wanted_bytes) {
                    self.blocked = None;
                }
                Poll::Ready(written)
            }
            Poll::Pending => {
                let within = self.within;
                let deadline = self.blocked.get_or_insert_with(|| Box::pin(sleep(within)));
                ready!(deadline.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the response was not read in time")))
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ResponseDeadline<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ResponseDeadline<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.after_write(cx, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        let wanted_bytes = slices.iter().map(|slice| slice.len()).sum();
        self.after_write(cx, wanted_bytes, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const SOON: Duration = Duration::from_millis(50);
    /// A time limit that no test reaches.
    const NEVER: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_response_that_is_not_read_times_out() {
        let (server, _client) = duplex(1_000);
        let written = ResponseDeadline::new(server, SOON).write_all(&[0; 1_001]).await;
        assert_eq!(written.expect_err("no room").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn reading_a_byte_at_a_time_does_not_extend_the_limit() {
        let (server, mut client) = duplex(1_000);
        let mut server = ResponseDeadline::new(server, SOON);
        let trickle = async {
            while client.read_u8().await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let response = vec![0; 1_000_000];
        tokio::select! {
            written = server.write_all(&response) => {
                assert_eq!(written.expect_err("too slow").kind(), io::ErrorKind::TimedOut);
            }
            () = trickle => panic!("the response ended"),
        }
    }

    #[tokio::test]
    async fn each_response_has_the_full_time() {
        let (server, mut client) = duplex(1_000);
        let mut server = ResponseDeadline::new(server, NEVER);
        let response = [0; 1_500];
        for _ in 0..2 {
            let first = tokio::time::timeout(SOON, server.write(&response)).await;
            assert_eq!(first.expect("at once").expect("to write"), 1_000);
            assert!(tokio::time::timeout(SOON, server.write(&response[1_000..])).await.is_err());
            assert!(server.blocked.is_some(), "the rest is blocked");
            client.read_exact(&mut [0; 1_000]).await.expect("to read");
            assert_eq!(server.write(&response[1_000..]).await.expect("to write"), 500);
            assert!(server.blocked.is_none(), "all was written");
            client.read_exact(&mut [0; 500]).await.expect("to read");
        }
    }
}
