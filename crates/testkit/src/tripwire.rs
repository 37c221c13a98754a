//! A wire to PostgreSQL that is whole until it is tripped: then it carries the next commit to the server
//! and breaks before the answer comes back, so that something was done and nobody was told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

const BUFFER_BYTES: usize = 64 * 1024;

/// An Execute of the unnamed portal without a bound on its rows, as a client sends it: behind it comes the
/// Sync that commits a statement which is its own transaction.
const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";

#[derive(Debug)]
pub struct Tripwire {
    pub address: SocketAddr,
    state: Arc<State>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Breaks that were asked for and have not come yet.
    wanted: AtomicU64,
    made: Mutex<Vec<Instant>>,
}

impl Tripwire {
    pub async fn start(server: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server.clone(), Arc::clone(&shared)));
            }
        });
        Self { address, state, accepting }
    }

    /// Breaks the connection that commits next, just after the commit was sent.
    pub fn trip(&self) {
        self.state.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// When connections were broken.
    pub fn breaks(&self) -> Vec<Instant> {
        self.state.made.lock().expect("the list").clone()
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(client: TcpStream, server: PathBuf, state: Arc<State>) {
    // A server that is away: the client sees its connection closed.
    let Ok(server) = UnixStream::connect(server).await else { return };
    let _ = client.set_nodelay(true);
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    // Whichever way ends first takes the other with it, while an answer may still be on its way.
    tokio::select! {
        () = carry_until_tripped(client_read, server_write, &state) => {}
        () = carry_all(server_read, client_write) => {}
    }
}

async fn carry_until_tripped(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: &State,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let message = &buffer[..read];
        let breaks = commits(message) && state.take_wanted();
        if to.write_all(message).await.is_err() || breaks {
            return;
        }
    }
}

impl State {
    fn take_wanted(&self) -> bool {
        let less = |wanted: u64| wanted.checked_sub(1);
        let taken = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if taken {
            self.made.lock().expect("the list").push(Instant::now());
        }
        taken
    }
}

async fn carry_all(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

fn commits(message: &[u8]) -> bool {
    let contains = |part: &[u8]| message.windows(part.len()).any(|window| window == part);
    contains(b"COMMIT") || (contains(EXECUTE) && !contains(b"BEGIN"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commits() {
        let execute = [EXECUTE, b"S\0\0\0\x04"].concat();
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
