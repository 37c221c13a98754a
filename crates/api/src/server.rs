//! Takes connections and hands their requests to the router, within bounds: so many connections, so
//! long for a head. At the end it takes no more and finishes what was begun.

use crate::peer::PeerAddress;
use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

/// Connections at once; whoever comes later waits to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// How long the head of a request may take, and a connection may idle.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// After a failed accept: the process may be out of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that runs until it is stopped.
#[derive(Debug)]
pub struct Server {
    stop: oneshot::Sender<Duration>,
    running: JoinHandle<bool>,
}

impl Server {
    pub fn start(listener: TcpListener, router: Router) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, running: tokio::spawn(run(listener, router, stopped)) }
    }

    /// Takes no more connections, and finishes the requests that were begun. Answers whether all of them
    /// came to their end within `patience`.
    pub async fn stop(self, patience: Duration) -> bool {
        // If nobody hears it, the server has ended already.
        let _ = self.stop.send(patience);
        self.running.await.unwrap_or(false)
    }
}

async fn run(listener: TcpListener, router: Router, mut stopped: oneshot::Receiver<Duration>) -> bool {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let open = GracefulShutdown::new();
    let patience = loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (listener.accept().await, slot)
        };
        tokio::select! {
            (accepted, slot) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let connection = open.watch(connection(stream, peer, router.clone()));
                    tokio::spawn(async move {
                        // However it ended, the caller knows.
                        let _ = connection.await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            // A server whose handle was dropped ends at once.
            patience = &mut stopped => break patience.unwrap_or_default(),
        }
    };
    drop(listener);
    tokio::time::timeout(patience, open.shutdown()).await.is_ok()
}

/// The router as one connection sees it: every request carries the address of the peer.
#[derive(Debug, Clone)]
struct PeerService {
    router: TowerToHyperService<Router>,
    peer: PeerAddress,
}

impl Service<Request<Incoming>> for PeerService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.router.call(request)
    }
}

type Connection = http1::Connection<TokioIo<TcpStream>, PeerService>;

fn connection(stream: TcpStream, peer: SocketAddr, router: Router) -> Connection {
    // Without it answers only wait longer.
    let _ = stream.set_nodelay(true);
    let service = PeerService { router: TowerToHyperService::new(router), peer: PeerAddress::of(peer) };
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
}
