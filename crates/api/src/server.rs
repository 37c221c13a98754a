//! Accepts connections and serves their requests with the router. Limits the number of connections, in total and per
//! peer, and the time to send a request head and to read a response. Shuts down gracefully.

mod peer_connections;
mod response_deadline;

use crate::peer::{PeerAddress, TrustedProxies};
use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use peer_connections::{Counted, PeerConnections};
use prometheus_client::metrics::counter::Counter;
use response_deadline::ResponseDeadline;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

/// The maximum number of open connections. Additional connections wait in the backlog of the socket.
const CONNECTIONS_MAX: usize = 10_000;
/// The maximum number of open connections per peer, a tenth of the total. Additional connections are closed
/// immediately. Proxies in `POSTHASTE_TRUSTED_PROXIES`, which may need more, are exempt.
const CONNECTIONS_PER_PEER_MAX: usize = 1_000;
/// The time limit for a client to read a response, the same as for sending a body. Starts when the send buffer of the
/// socket is full.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// The minimum interval between log messages about refused connections.
const REFUSAL_REPORT_PAUSE: Duration = Duration::from_secs(60);
/// The time limit for receiving a request head. Also closes idle connections.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// The maximum size of a request head, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The pause after a failed `accept`, for example when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The limits and the trusted proxies of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    pub trusted_proxies: TrustedProxies,
    pub connections_per_peer_max: usize,
    pub read_within: Duration,
    /// The number of connections closed because of `connections_per_peer_max`.
    pub connections_refused: Counter,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            trusted_proxies: TrustedProxies(Vec::new()),
            connections_per_peer_max: CONNECTIONS_PER_PEER_MAX,
            read_within: READ_WITHIN,
            connections_refused: Counter::default(),
        }
    }
}

/// A running server. Dropping it stops the server without waiting for open requests.
#[derive(Debug)]
pub struct Server {
    stop: oneshot::Sender<Duration>,
    running: JoinHandle<bool>,
}

impl Server {
    /// Starts a server with default options.
    pub fn start(listener: TcpListener, router: Router) -> Self {
        Self::start_with(listener, router, ServerOptions::default())
    }

    /// Starts a server.
    pub fn start_with(listener: TcpListener, router: Router, options: ServerOptions) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, running: tokio::spawn(run(listener, router, options, stopped)) }
    }

    /// Stops accepting connections and waits up to `patience` for open requests. Returns whether all of them completed.
    pub async fn stop(self, patience: Duration) -> bool {
        // Fails only if the server task has already ended.
        let _ = self.stop.send(patience);
        self.running.await.unwrap_or(false)
    }
}

async fn run(
    listener: TcpListener,
    router: Router,
    options: ServerOptions,
    mut stopped: oneshot::Receiver<Duration>,
) -> bool {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let open = GracefulShutdown::new();
    let mut entrance = Entrance::new(options);
    let patience = loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (listener.accept().await, slot)
        };
        tokio::select! {
            (accepted, slot) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let peer = PeerAddress::of(peer);
                    let Ok(counted) = entrance.admit(peer) else { continue };
                    let connection = open.watch(entrance.connection(stream, peer, router.clone()));
                    tokio::spawn(async move {
                        // Connection errors are visible to the client.
                        let _ = connection.await;
                        drop((slot, counted));
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed, retrying");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            // An error means that the handle was dropped: stop immediately.
            patience = &mut stopped => break patience.unwrap_or_default(),
        }
    };
    drop(listener);
    tokio::time::timeout(patience, open.shutdown()).await.is_ok()
}

/// Applies the connection limits and configures accepted connections.
#[derive(Debug)]
struct Entrance {
    options: ServerOptions,
    trusted_proxies: Arc<TrustedProxies>,
    connections: PeerConnections,
    refusal_reported: Option<Instant>,
}

/// The error returned for a peer that has reached its connection limit.
#[derive(Debug)]
struct TooManyConnections;

impl Entrance {
    fn new(options: ServerOptions) -> Self {
        let connections = PeerConnections::new(options.connections_per_peer_max);
        let trusted_proxies = Arc::new(options.trusted_proxies.clone());
        Self { options, trusted_proxies, connections, refusal_reported: None }
    }

    /// Counts a connection against the limit of its peer. Returns `None` for a trusted proxy, which has no limit.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyConnections`] if the peer has reached its limit. The caller must close the connection.
    fn admit(&mut self, peer: PeerAddress) -> Result<Option<Counted>, TooManyConnections> {
        if self.trusted_proxies.contains(peer) {
            return Ok(None);
        }
        if let Some(counted) = self.connections.open(peer) {
            return Ok(Some(counted));
        }
        self.options.connections_refused.inc();
        if self.refusal_reported.is_none_or(|reported| reported.elapsed() >= REFUSAL_REPORT_PAUSE) {
            self.refusal_reported = Some(Instant::now());
            let (peer, limit) = (peer.0, self.options.connections_per_peer_max);
            tracing::warn!(%peer, limit, "too many connections of one peer, closing further ones");
        }
        Err(TooManyConnections)
    }

    fn connection(&self, stream: TcpStream, peer: PeerAddress, router: Router) -> Connection {
        // A failure only increases latency.
        let _ = stream.set_nodelay(true);
        let trusted_proxies = Arc::clone(&self.trusted_proxies);
        let service = PeerService { router: TowerToHyperService::new(router), peer, trusted_proxies };
        let stream = ResponseDeadline::new(stream, self.options.read_within);
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    }
}

type Connection = http1::Connection<TokioIo<ResponseDeadline<TcpStream>>, PeerService>;

/// A service that calls the router for the requests of one connection. Adds the client address to every request as an
/// extension.
#[derive(Debug, Clone)]
struct PeerService {
    router: TowerToHyperService<Router>,
    peer: PeerAddress,
    trusted_proxies: Arc<TrustedProxies>,
}

impl Service<Request<Incoming>> for PeerService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let client = self.trusted_proxies.client(self.peer, request.headers());
        request.extensions_mut().insert(client);
        self.router.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// The timeout for operations that hang only if the server is broken.
    const PATIENCE: Duration = Duration::from_secs(60);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    async fn start(router: Router, options: ServerOptions) -> (SocketAddr, Server) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        (address, Server::start_with(listener, router, options))
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_disconnected() {
        // Dropped with the response body when the connection ends.
        let (held, released) = oneshot::channel::<Infallible>();
        let held = Arc::new(std::sync::Mutex::new(Some(held)));
        let endless = move || {
            let held = held.lock().expect("the guard").take();
            let chunks = futures_util::stream::repeat_with(move || {
                let _ = &held;
                Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 65_536]))
            });
            async move { Body::from_stream(chunks) }
        };
        let options = ServerOptions { read_within: Duration::from_millis(50), ..ServerOptions::default() };
        let (address, _server) = start(Router::new().route("/", get(endless)), options).await;
        let mut client = TcpStream::connect(address).await.expect("a connection");
        client.write_all(REQUEST).await.expect("to write");
        let ended = tokio::time::timeout(PATIENCE, released).await;
        assert!(ended.expect("the connection ends").is_err(), "nothing is ever sent");
    }

    #[tokio::test]
    async fn connections_are_limited_per_peer_except_for_proxies() {
        let router = || Router::new().route("/", get(|| async { "hello" }));
        let options = ServerOptions { connections_per_peer_max: 2, ..ServerOptions::default() };
        let (address, _server) = start(router(), options.clone()).await;
        let mut served = Vec::new();
        for _ in 0..2 {
            served.push(ask(address).await.expect("a response"));
        }
        assert!(ask(address).await.is_none(), "the third is closed");
        assert_eq!(options.connections_refused.get(), 1);
        drop(served);
        let until = Instant::now() + PATIENCE;
        while ask(address).await.is_none() {
            assert!(Instant::now() < until, "connections that ended are still counted");
        }
        let trusted_proxies = TrustedProxies(vec!["127.0.0.0/8".parse().expect("a network")]);
        let (address, _server) = start(router(), ServerOptions { trusted_proxies, ..options }).await;
        let mut served = Vec::new();
        for _ in 0..5 {
            served.push(ask(address).await.expect("a response"));
        }
    }

    /// Sends a request and returns the connection after the response, or `None` if the server closed it without a
    /// response.
    async fn ask(address: SocketAddr) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        // The server may already have closed the connection.
        let _ = stream.write_all(REQUEST).await;
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.ok()?;
        assert_eq!(&begin, b"HTTP/1.1 200");
        Some(stream)
    }
}
