//! A wire that breaks: a proxy before PostgreSQL that cuts every connection after a seeded number of
//! messages; before the last one reached the server, in the middle of it, or after, so that a COMMIT
//! was carried out and nobody was told.

use crate::random::Random;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// A connection lives at least this many messages: enough to log in and begin.
const MESSAGES_MIN: u64 = 6;
const MESSAGES_SPREAD: u64 = 40;
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct CuttingProxy {
    pub address: SocketAddr,
    cuts: Arc<AtomicU64>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    BeforeSending,
    HalfSent,
    AfterSending,
}

impl CuttingProxy {
    pub async fn start(server: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let cuts = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&cuts);
        let accepting = tokio::spawn(async move {
            let mut random = Random::new(seed);
            while let Ok((client, _)) = listener.accept().await {
                let messages_max = MESSAGES_MIN + random.below(MESSAGES_SPREAD);
                let cut = match random.below(4) {
                    0 => Cut::BeforeSending,
                    1 => Cut::HalfSent,
                    _ => Cut::AfterSending,
                };
                tokio::spawn(carry(client, server, messages_max, cut, Arc::clone(&counter)));
            }
        });
        Self { address, cuts, accepting }
    }

    /// How many connections were cut so far.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(client: TcpStream, server: SocketAddr, messages_max: u64, cut: Cut, cuts: Arc<AtomicU64>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let back = tokio::spawn(carry_back(server_read, client_write));
    let was_cut = carry_messages(client_read, server_write, messages_max, cut).await;
    // Dropping the way back too closes both sockets while an answer is still on its way.
    back.abort();
    if was_cut {
        cuts.fetch_add(1, Ordering::Relaxed);
    }
}

async fn carry_messages(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    messages_max: u64,
    cut: Cut,
) -> bool {
    let mut buffer = vec![0; BUFFER_BYTES];
    for message in 1.. {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return false };
        let last = message == messages_max;
        let sent = match (last, cut) {
            (true, Cut::BeforeSending) => 0,
            (true, Cut::HalfSent) => read / 2,
            (true, Cut::AfterSending) | (false, _) => read,
        };
        if to.write_all(&buffer[..sent]).await.is_err() {
            return false;
        }
        if last {
            return true;
        }
    }
    false
}

async fn carry_back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
