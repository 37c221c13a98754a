//! The hostile clients. Each client closes its connection before a server timeout and reopens it, so that the number
//! of connections stays constant.

use super::SiegeOptions;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// The time for which a connection is held. The server's timeout is 30 s.
const HELD_FOR: Duration = Duration::from_secs(25);
/// The maximum time for opening all connections.
const OPEN_WITHIN: Duration = Duration::from_secs(60);
/// The number of pipelined requests on a connection that does not read. Their responses exceed all buffers.
const PIPELINED: usize = 16;
const RECEIVE_BUFFER_BYTES: u32 = 16 * 1024;
/// The number of bytes that a slow upload sends immediately, before it sends one byte per second.
const UPLOAD_BYTES: usize = 16 * 1024;
const PARAMETERS: usize = 15_000;

#[derive(Debug, Default)]
struct Seen {
    open: AtomicUsize,
    queries: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Attack {
    seen: Arc<Seen>,
    /// The client tasks, which are aborted on drop.
    _clients: JoinSet<()>,
}

impl Attack {
    /// Starts the attack. Returns when all connections are open, or after [`OPEN_WITHIN`].
    pub(super) async fn begin(address: SocketAddr, key: &str, options: SiegeOptions) -> Self {
        let seen = Arc::new(Seen::default());
        let mut clients = JoinSet::new();
        for _ in 0..options.connections {
            clients.spawn(repeat(Arc::clone(&seen), Holds::Silently, async move || {
                does_not_read(address).await
            }));
        }
        for _ in 0..options.uploads {
            let key = key.to_owned();
            clients.spawn(repeat(Arc::clone(&seen), Holds::Trickling, async move || {
                uploads_slowly(address, &key).await
            }));
        }
        clients.spawn(queries(address, options.queries_per_second, Arc::clone(&seen)));
        let until = Instant::now() + OPEN_WITHIN;
        while seen.open.load(Ordering::Relaxed) < options.connections + options.uploads
            && Instant::now() < until
        {
            sleep(Duration::from_millis(20)).await;
        }
        Self { seen, _clients: clients }
    }

    /// Returns the number of open connections.
    pub(super) fn connected(&self) -> usize {
        self.seen.open.load(Ordering::Relaxed)
    }

    /// Ends the attack and returns the number of queries that got a response.
    pub(super) fn end(self) -> u64 {
        self.seen.queries.load(Ordering::Relaxed)
    }
}

/// The behaviour of a client while it holds a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Silently,
    /// Sends one byte per second.
    Trickling,
}

/// Repeatedly opens a connection and holds it.
async fn repeat(seen: Arc<Seen>, holds: Holds, open: impl AsyncFn() -> io::Result<TcpStream>) {
    loop {
        let Ok(mut stream) = open().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        seen.open.fetch_add(1, Ordering::Relaxed);
        match holds {
            Holds::Silently => sleep(HELD_FOR).await,
            Holds::Trickling => {
                let _ = timeout(HELD_FOR, trickle(&mut stream)).await;
            }
        }
        seen.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn trickle(stream: &mut TcpStream) {
    let mut ticks = interval(Duration::from_secs(1));
    while stream.write_all(b" ").await.is_ok() {
        ticks.tick().await;
    }
}

async fn does_not_read(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    let mut stream = socket.connect(address).await?;
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.repeat(PIPELINED).as_bytes()).await?;
    Ok(stream)
}

async fn uploads_slowly(address: SocketAddr, key: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        2 * UPLOAD_BYTES
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b' '; UPLOAD_BYTES]).await?;
    Ok(stream)
}

/// Sends `per_second` queries per second without an API key, each on a new connection.
async fn queries(address: SocketAddr, per_second: u32, seen: Arc<Seen>) {
    if per_second == 0 {
        return;
    }
    let query: String = (0..PARAMETERS).map(|number| format!("{number:x}&")).collect();
    let request: Arc<str> =
        format!("GET /sign-in?{query} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").into();
    let mut ticks = interval(Duration::from_secs(1) / per_second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = JoinSet::new();
    loop {
        ticks.tick().await;
        let (request, seen) = (Arc::clone(&request), Arc::clone(&seen));
        sent.spawn(async move {
            let exchange = async {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(request.as_bytes()).await?;
                stream.read_to_end(&mut Vec::new()).await
            };
            if timeout(HELD_FOR, exchange).await.is_ok_and(|read| read.is_ok_and(|bytes| bytes > 0)) {
                seen.queries.fetch_add(1, Ordering::Relaxed);
            }
        });
        while sent.try_join_next().is_some() {}
    }
}
