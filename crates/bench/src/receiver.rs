//! The HTTP server that receives the requests of a benchmark. It runs on a separate thread, counts the requests
//! and responds according to their path.

use crate::message;
use crate::tally::Tally;
use crate::wire::Messages;
use anyhow::Context as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// The path prefix for receivers that respond with status 200.
pub const TAKES: &str = "/take";
/// The path prefix for receivers that respond with status 500.
pub const FAILS: &str = "/fail";
/// The path prefix for receivers that never respond.
pub const HANGS: &str = "/hang";
/// The path prefix for brokers that accept every order.
pub const EXECUTES: &str = "/orders";

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
/// The length of the listen queue. It is large because a worker opens many connections at once.
const BACKLOG: u32 = 4_096;

/// The replaceable [`Tally`] of the current run. One receiver is used for many runs.
pub type Board = Arc<RwLock<Arc<Tally>>>;

#[derive(Debug)]
pub struct Receiver {
    pub address: SocketAddr,
    board: Board,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    pub fn start(tls: Option<TlsAcceptor>) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting the receiver")?;
        let listener = {
            let _inside = runtime.enter();
            let socket = tokio::net::TcpSocket::new_v4().context("creating a socket")?;
            socket.bind((Ipv4Addr::LOCALHOST, 0).into()).context("binding a port")?;
            socket.listen(BACKLOG).context("listening")?
        };
        let address = listener.local_addr().context("getting the local address")?;
        let board = Board::new(RwLock::new(Arc::new(Tally::new(0))));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&board);
        let thread = std::thread::Builder::new().name("receiver".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, shared, tls) => {}
                    _ = stopped => {}
                }
            });
        });
        let thread = Some(thread.context("starting the receiver's thread")?);
        Ok(Self { address, board, stop: Some(stop), thread })
    }

    /// Replaces the tally in which arrivals are counted.
    pub fn count_on(&self, tally: &Arc<Tally>) {
        *self.board.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(tally);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the receiver's thread is ignored.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, board: Board, tls: Option<TlsAcceptor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (board, tls) = (Arc::clone(&board), tls.clone());
        tokio::spawn(async move {
            // Errors are ignored, because the sender detects a broken connection itself.
            let _ = match tls {
                Some(tls) => match tls.accept(plain(stream)).await {
                    Ok(stream) => converse(stream, &board).await,
                    Err(_) => Ok(()),
                },
                None => converse(plain(stream), &board).await,
            };
        });
    }
}

fn plain(stream: TcpStream) -> TcpStream {
    // Nagle's algorithm would delay responses.
    let _ = stream.set_nodelay(true);
    stream
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, board: &Board) -> anyhow::Result<()> {
    let mut messages = Messages::new(stream);
    loop {
        let Some(message) = messages.next().await? else { return Ok(()) };
        let path = message.first_line.split(' ').nth(1).unwrap_or_default();
        let answer = match (message::number(message.body), path) {
            (None, _) => echo(message.body),
            (Some(_), path) if path.starts_with(HANGS) => std::future::pending().await,
            (Some(_), path) if path.starts_with(FAILS) => FAILED.to_vec(),
            (Some(number), path) => {
                let tally = Arc::clone(&board.read().unwrap_or_else(PoisonError::into_inner));
                tally.arrived(number);
                if path.starts_with(EXECUTES) { ok(&message::order_answer(number)) } else { TAKEN.to_vec() }
            }
        };
        messages.stream().write_all(&answer).await?;
        messages.stream().flush().await?;
    }
}

/// Returns the response to a verification request: its challenge. All paths return it, because receivers that fail
/// or hang must be verified too.
fn echo(body: &[u8]) -> Vec<u8> {
    let challenge: Option<String> = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|body| body["challenge"].as_str().map(str::to_owned));
    ok(&challenge.unwrap_or_default())
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
