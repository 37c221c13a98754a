//! Stands between a PostgreSQL store and its server and counts what the store asks for: statements,
//! and how often it waits for an answer. Only for counting; nothing is timed through it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const EXECUTE: u8 = b'E';
const QUERY: u8 = b'Q';
const HEADER_BYTES: usize = 5;
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
struct Counters {
    statements: AtomicU64,
    round_trips: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub statements: u64,
    /// How often the store spoke after the server had: statements sent in one go are one trip.
    pub round_trips: u64,
}

#[derive(Debug)]
pub struct CountingProxy {
    pub address: SocketAddr,
    counters: Arc<Counters>,
}

impl CountingProxy {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let counters = Arc::new(Counters::default());
        let shared = Arc::clone(&counters);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(server).await else { continue };
                client.set_nodelay(true).expect("a socket option");
                upstream.set_nodelay(true).expect("a socket option");
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = upstream.into_split();
                let counters = Arc::clone(&shared);
                let answered = Arc::new(AtomicBool::new(true));
                let told = Arc::clone(&answered);
                tokio::spawn(async move { carry(client_read, server_write, &counters, &answered).await });
                tokio::spawn(async move { carry_back(server_read, client_write, &told).await });
            }
        });
        Self { address, counters }
    }

    pub fn counts(&self) -> Counts {
        Counts {
            statements: self.counters.statements.load(Ordering::Relaxed),
            round_trips: self.counters.round_trips.load(Ordering::Relaxed),
        }
    }
}

async fn carry_back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, answered: &AtomicBool) -> Option<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        answered.store(true, Ordering::Relaxed);
        to.write_all(&buffer[..read]).await.ok()?;
    }
}

/// Carries a client's messages: the first has no type byte, every other has one and its length.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    counters: &Counters,
    answered: &AtomicBool,
) -> Option<()> {
    let mut buffer = Vec::new();
    let mut started = false;
    loop {
        if from.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
        if answered.swap(false, Ordering::Relaxed) {
            counters.round_trips.fetch_add(1, Ordering::Relaxed);
        }
        let mut done = 0;
        while let Some((kind, length)) = next_message(&buffer[done..], started) {
            if matches!(kind, EXECUTE | QUERY) {
                counters.statements.fetch_add(1, Ordering::Relaxed);
            }
            started = true;
            done += length;
        }
        to.write_all(&buffer[..done]).await.ok()?;
        buffer.drain(..done);
    }
}

/// Type and length of the message at the front, if all of it is there.
fn next_message(bytes: &[u8], started: bool) -> Option<(u8, usize)> {
    let header = if started { HEADER_BYTES } else { HEADER_BYTES - 1 };
    let length_at = header - 4;
    let length: [u8; 4] = bytes.get(length_at..header)?.try_into().ok()?;
    let total = length_at + usize::try_from(u32::from_be_bytes(length)).ok()?;
    if bytes.len() < total {
        return None;
    }
    Some((if started { bytes[0] } else { 0 }, total))
}
