//! A proxy in front of PostgreSQL. Depending on its [`Mode`], it cuts connections at times drawn from a seed, breaks
//! a connection when a test requests that, or only counts statements and round trips.

use crate::random::Random;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// The minimum number of messages before a connection is cut, enough for the login and startup.
const MESSAGES_MIN: u64 = 6;
const MESSAGES_SPREAD: u64 = 40;
const BUFFER_BYTES: usize = 64 * 1024;
/// The size of the message that requests TLS.
const TLS_REQUEST_BYTES: usize = 8;
/// The size of a message's length field in bytes. All messages except the request for TLS and the startup message have
/// a type byte before it.
const LENGTH_BYTES: usize = 4;
const EXECUTE: u8 = b'E';
const QUERY: u8 = b'Q';
/// An Execute message for the unnamed portal without a row limit. For a statement that is its own transaction, the
/// Sync message that follows is the commit.
const EXECUTE_UNNAMED: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";

/// The behaviour of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Cuts every connection after a seeded number of messages: before the last one reaches the server, in the
    /// middle of it, or after it, in which case a COMMIT is executed but its response is lost.
    Cut { seed: u64 },
    /// Forwards everything until [`Proxy::trip`] is called. The next commit then reaches the server, but its
    /// response is lost.
    Trip,
    /// Counts statements and round trips. Not suitable for measuring times.
    Count,
}

/// The address of the server.
#[derive(Debug, Clone)]
pub enum Upstream {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<PathBuf> for Upstream {
    fn from(socket: PathBuf) -> Self {
        Self::Unix(socket)
    }
}

#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

/// State shared by all connections of a proxy.
#[derive(Debug, Default)]
struct Shared {
    cuts: AtomicU64,
    /// The number of breaks requested by [`Proxy::trip`] that have not happened yet.
    wanted: AtomicU64,
    broken: Mutex<Vec<Instant>>,
    statements: AtomicU64,
    round_trips: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub statements: u64,
    /// The number of times that the client sent data after a response. Statements sent together are one round trip.
    pub round_trips: u64,
}

impl Proxy {
    pub async fn start(server: impl Into<Upstream>, mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (address, server) = (listener.local_addr().expect("an address"), server.into());
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            let mut random = Random::new(if let Mode::Cut { seed } = mode { seed } else { 0 });
            while let Ok((client, _)) = listener.accept().await {
                let wire = Wire::new(mode, &mut random);
                tokio::spawn(carry(client, server.clone(), wire, Arc::clone(&state)));
            }
        });
        Self { address, shared, accepting }
    }

    /// Returns the number of connections cut so far.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }

    /// Breaks the next connection that commits, just after the commit was sent.
    pub fn trip(&self) {
        self.shared.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the times at which connections were broken by [`Self::trip`].
    pub fn breaks(&self) -> Vec<Instant> {
        self.shared.broken.lock().expect("the list").clone()
    }

    pub fn counts(&self) -> Counts {
        Counts {
            statements: self.shared.statements.load(Ordering::Relaxed),
            round_trips: self.shared.round_trips.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn take_wanted(&self) -> bool {
        let less = |wanted: u64| wanted.checked_sub(1);
        let taken = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if taken {
            self.broken.lock().expect("the list").push(Instant::now());
        }
        taken
    }
}

/// The state of one client connection.
#[derive(Debug)]
enum Wire {
    Cut { messages_left: u64, at: Cut },
    Trip,
    Count { started: bool, unread: Vec<u8> },
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    BeforeSending,
    HalfSent,
    AfterSending,
}

impl Wire {
    fn new(mode: Mode, random: &mut Random) -> Self {
        match mode {
            Mode::Cut { .. } => {
                let messages_left = MESSAGES_MIN + random.below(MESSAGES_SPREAD);
                let at = match random.below(4) {
                    0 => Cut::BeforeSending,
                    1 => Cut::HalfSent,
                    _ => Cut::AfterSending,
                };
                Self::Cut { messages_left, at }
            }
            Mode::Trip => Self::Trip,
            Mode::Count => Self::Count { started: false, unread: Vec::new() },
        }
    }

    /// Returns the number of bytes to forward to the server, and whether the connection breaks after them.
    fn pass(&mut self, bytes: &[u8], shared: &Shared) -> (usize, bool) {
        match self {
            Self::Cut { messages_left, at } => {
                *messages_left -= 1;
                if *messages_left > 0 {
                    return (bytes.len(), false);
                }
                shared.cuts.fetch_add(1, Ordering::Relaxed);
                let sent = match at {
                    Cut::BeforeSending => 0,
                    Cut::HalfSent => bytes.len() / 2,
                    Cut::AfterSending => bytes.len(),
                };
                (sent, true)
            }
            Self::Trip => (bytes.len(), commits(bytes) && shared.take_wanted()),
            Self::Count { started, unread } => {
                unread.extend_from_slice(bytes);
                while let Some((kind, length)) = next_message(unread, *started) {
                    shared
                        .statements
                        .fetch_add(u64::from(matches!(kind, EXECUTE | QUERY)), Ordering::Relaxed);
                    // The startup message follows the request for TLS.
                    *started = *started || length > TLS_REQUEST_BYTES;
                    unread.drain(..length);
                }
                (bytes.len(), false)
            }
        }
    }
}

async fn carry(client: TcpStream, server: Upstream, wire: Wire, shared: Arc<Shared>) {
    let _ = client.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    // If the server is unavailable, close the client's connection.
    match server {
        Upstream::Tcp(address) => {
            let Ok(server) = TcpStream::connect(address).await else { return };
            let _ = server.set_nodelay(true);
            let (from_server, to_server) = server.into_split();
            both_ways((from_client, to_server), (from_server, to_client), wire, &shared).await;
        }
        Upstream::Unix(socket) => {
            let Ok(server) = UnixStream::connect(socket).await else { return };
            let (from_server, to_server) = server.into_split();
            both_ways((from_client, to_server), (from_server, to_client), wire, &shared).await;
        }
    }
}

/// Forwards data in both directions until one of them ends, even if a response is in transit. The client's
/// connection is closed only after the server has ended its session: until then, the session may hold locks, and
/// a retried call would skip the locked rows.
async fn both_ways(
    forward: (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    (mut from_server, mut to_client): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    wire: Wire,
    shared: &Shared,
) {
    let answered = AtomicBool::new(true);
    let is_broken = tokio::select! {
        is_broken = carry_forward(forward, wire, &answered, shared) => is_broken,
        () = carry_back((&mut from_server, &mut to_client), &answered) => false,
    };
    if is_broken {
        let mut lost = vec![0; BUFFER_BYTES];
        while let Ok(1..) = from_server.read(&mut lost).await {}
    }
}

/// Forwards bytes to the server. Returns whether the connection was broken intentionally.
async fn carry_forward(
    (mut from, mut to): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    mut wire: Wire,
    answered: &AtomicBool,
    shared: &Shared,
) -> bool {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        shared.round_trips.fetch_add(answered.swap(false, Ordering::Relaxed).into(), Ordering::Relaxed);
        let (sent, breaks) = wire.pass(&buffer[..read], shared);
        if to.write_all(&buffer[..sent]).await.is_err() || breaks {
            return breaks;
        }
    }
    false
}

async fn carry_back(
    (mut from, mut to): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    answered: &AtomicBool,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        answered.store(true, Ordering::Relaxed);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

fn commits(message: &[u8]) -> bool {
    let contains = |part: &[u8]| message.windows(part.len()).any(|window| window == part);
    contains(b"COMMIT") || (contains(EXECUTE_UNNAMED) && !contains(b"BEGIN"))
}

/// Returns the type and length of the first message, or `None` if it is incomplete.
fn next_message(bytes: &[u8], started: bool) -> Option<(u8, usize)> {
    let length_at = usize::from(started);
    let length: [u8; LENGTH_BYTES] = bytes.get(length_at..length_at + LENGTH_BYTES)?.try_into().ok()?;
    let total = length_at + usize::try_from(u32::from_be_bytes(length)).ok()?;
    (bytes.len() >= total).then_some((if started { bytes[0] } else { 0 }, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_recognized() {
        let execute = [EXECUTE_UNNAMED, b"S\0\0\0\x04"].concat();
        for (message, does) in [
            (&b"Q\0\0\0\x0bCOMMIT\0"[..], true),
            (&execute, true),
            (&[b"Q\0\0\0\x0aBEGIN\0", &execute[..]].concat(), false),
            (&b"P\0\0\0\x10\0SELECT 1\0\0\0"[..], false),
        ] {
            assert_eq!(commits(message), does, "{message:?}");
        }
    }
}
