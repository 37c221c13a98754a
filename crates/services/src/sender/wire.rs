//! The stream below an HTTP connection, which records the number of bytes sent, whether data arrived before
//! the first byte was sent, and the received status line. [`Socket`] counts the bytes sent below TLS;
//! [`Stream`] reads the decrypted bytes above it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::status_line::StatusLine;

/// The maximum number of bytes read before the head of the final response is complete. Allows for a head of
/// the maximum length that the parser accepts, and for interim responses before it.
const UNTIL_HEAD_BYTES_MAX: usize = 64 * 1024;

/// The state recorded for a connection since the current exchange began.
#[derive(Debug)]
pub(super) struct Seen {
    /// The number of bytes accepted by the kernel.
    pub(super) bytes_written: u64,
    /// Whether data was received before any byte was sent.
    pub(super) unsolicited: bool,
    /// Whether [`UNTIL_HEAD_BYTES_MAX`] was reached before the head of the final response was complete.
    pub(super) flooded: bool,
    pub(super) status_line: StatusLine,
    until_head_left: usize,
    /// Whether the connection was idle before. If so, the peer is checked before the first byte is sent.
    was_idle: bool,
}

/// A handle to the recorded state, shared by the stream, which the HTTP connection owns, and the current
/// exchange.
#[derive(Debug, Clone)]
pub(super) struct Track(Arc<Mutex<Seen>>);

impl Track {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Seen::at_start(false))))
    }

    pub(super) fn begin(&self, was_idle: bool) {
        *self.lock() = Seen::at_start(was_idle);
    }

    /// Records that the head is complete. The reader of the body enforces its own size limit.
    pub(super) fn head_is_complete(&self) {
        let mut seen = self.lock();
        (seen.until_head_left, seen.flooded) = (usize::MAX, false);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    const fn at_start(was_idle: bool) -> Self {
        Self {
            bytes_written: 0,
            unsolicited: false,
            flooded: false,
            status_line: StatusLine::START,
            until_head_left: UNTIL_HEAD_BYTES_MAX,
            was_idle,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.unsolicited |= self.bytes_written == 0;
        self.status_line.read(bytes);
        if self.until_head_left != usize::MAX {
            self.until_head_left = self.until_head_left.saturating_sub(bytes.len());
            self.flooded = self.until_head_left == 0;
        }
    }
}

/// A TCP connection that counts the bytes sent.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: TcpStream,
    track: Track,
}

impl Socket {
    pub(super) const fn new(tcp: TcpStream, track: Track) -> Self {
        Self { tcp, track }
    }

    /// Returns an error if the peer has closed an idle connection or sent data on it. Queries the kernel
    /// directly, because the runtime may not have been notified yet.
    fn check_peer(&self) -> io::Result<()> {
        let seen = self.track.lock();
        if !seen.was_idle || seen.bytes_written > 0 {
            return Ok(());
        }
        match SockRef::from(&self.tcp).peek(&mut [MaybeUninit::uninit()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Ok(_) | Err(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn count(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(bytes) = written {
            self.track.lock().bytes_written += bytes as u64;
        }
        Poll::Ready(written)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check_peer()?;
        let written = ready!(Pin::new(&mut self.tcp).poll_write(cx, buf));
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_peer()?;
        let written = ready!(Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs));
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// The transport below an HTTP connection.
#[derive(Debug)]
pub(super) enum Channel {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// A channel that records the data read from it.
#[derive(Debug)]
pub(super) struct Stream {
    channel: Channel,
    track: Track,
}

impl Stream {
    pub(super) const fn new(channel: Channel, track: Track) -> Self {
        Self { channel, track }
    }
}

/// Calls a method on the socket or the TLS session of a channel.
macro_rules! on_channel {
    ($stream:expr, $method:ident $(, $argument:expr)*) => {
        match &mut $stream.get_mut().channel {
            Channel::Plain(socket) => Pin::new(socket).$method($($argument),*),
            Channel::Tls(session) => Pin::new(session.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.track.lock().flooded {
            return Poll::Ready(Err(io::Error::other("the response head is too long")));
        }
        let before = buf.filled().len();
        ready!(on_channel!(self.as_mut(), poll_read, cx, buf))?;
        self.track.lock().read(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_channel!(self, poll_write, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_channel!(self, poll_write_vectored, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.channel {
            Channel::Plain(socket) => socket.is_write_vectored(),
            Channel::Tls(session) => session.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_channel!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_channel!(self, poll_shutdown, cx)
    }
}
