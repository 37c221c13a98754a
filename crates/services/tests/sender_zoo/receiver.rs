//! Receivers over real sockets that do byte by byte what a test tells them, and senders to set on them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use posthaste_core::Timestamp;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::sender::{
    Exchange, KeepAlive, Post, Resolve, Resolving, Sender, SystemResolver, Trust, Wanted,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Long enough that no healthy exchange meets it, however busy the machine is.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);
/// Short, for what must run into it.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A listener that counts who comes.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Receiver {
    /// Serves every connection with `serve`, until the test's runtime ends.
    pub(crate) async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::start_at(Ipv4Addr::LOCALHOST, serve).await
    }

    pub(crate) async fn start_at<F>(ip: Ipv4Addr, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream));
            }
        });
        Self { address, accepted }
    }

    /// Answers every request with the same bytes, and keeps the connection.
    pub(crate) async fn answering(answer: &'static [u8]) -> Self {
        Self::start(move |mut stream| async move {
            while read_request(&mut stream).await?.is_some() {
                stream.write_all(answer).await?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

/// Reads one request to its end, and answers its body; nothing at the end of the connection.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut read = Vec::new();
    let head_len = loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&read[..head_len]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
    while read.len() < head_len + length {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(read.split_off(head_len)))
}

/// Makes the end of a connection a reset instead of an orderly close.
pub(crate) fn reset_at_end(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket");
}

/// The loopback network and http are allowed, as a test needs it.
pub(crate) fn policy() -> EgressPolicy {
    EgressPolicy { allow_http: true, allow_cidrs: vec!["127.0.0.0/8".parse().expect("a network")] }
}

/// A sender for tests that count connections: it uses a kept one from the first moment on.
pub(crate) fn sender() -> Sender {
    sender_with(SystemResolver::default(), Trust::nobody())
}

pub(crate) fn sender_with(resolver: impl Resolve, trust: Trust) -> Sender {
    let keep_alive = KeepAlive { rest_at_new_hosts: false, ..KeepAlive::default() };
    Sender::with_resolver(policy(), trust, keep_alive, resolver).expect("a sender")
}

pub(crate) async fn send(sender: &Sender, url: &str, answer: Wanted, deadline: Duration) -> Exchange {
    send_body(sender, url, Bytes::from_static(b"{}"), answer, deadline).await
}

pub(crate) async fn send_body(
    sender: &Sender,
    url: &str,
    body: Bytes,
    answer: Wanted,
    deadline: Duration,
) -> Exchange {
    let post = Post { headers: HeaderMap::new(), body, answer, deadline };
    sender.send_to_url(url, post, Timestamp::from_micros(0)).await
}

/// A delivery as the worker makes it: only the status counts.
pub(crate) async fn deliver(sender: &Sender, url: &str) -> Exchange {
    send(sender, url, Wanted::Status, PATIENT).await
}

/// The status of a delivery, or the code of a failure.
pub(crate) fn code(exchange: &Exchange) -> String {
    match exchange.outcome.code() {
        Some(code) => code.to_string(),
        None => format!("{}", exchange.status().expect("a status")),
    }
}

/// A resolver that gives one scripted answer after the other, the last one for ever.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    answers: Arc<Vec<Vec<IpAddr>>>,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// An empty answer stands for a name that does not exist.
    pub(crate) fn new(answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().expect("an address")).collect();
        Self { answers: Arc::new(answers.iter().map(parse).collect()), asked: Arc::default() }
    }
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let mut asked = self.asked.lock().expect("the list");
        let answer = self.answers[asked.len().min(self.answers.len() - 1)].clone();
        asked.push(name.to_owned());
        Box::pin(
            async move { if answer.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(answer) } },
        )
    }
}
