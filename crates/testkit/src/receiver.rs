//! A webhook receiver on a loopback socket. [`Receiver::start`] serves HTTP/1.1 with keep-alive, responds as the
//! test specifies, and records requests. [`Receiver::scripted`] executes a list of [`Act`]s byte by byte, and
//! [`Receiver::raw`] passes each connection to the test.

mod script;

pub use script::{Act, perform, read_request, reset_at_end};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The timeout of [`Receiver::wait_for`].
const PATIENCE: Duration = Duration::from_secs(60);

/// A completely received request.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    /// Returns the value of a header as text, or an empty string if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn webhook_id(&self) -> &str {
        self.header("webhook-id")
    }
}

/// The response of a receiver to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    With {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Never responds, and keeps the connection open until the sender closes it.
    Hang,
    /// Closes the connection without a response.
    Reset,
    /// Responds after acquiring a permit, which is consumed.
    Gate(Arc<Semaphore>, Box<Answer>),
}

impl Answer {
    /// Creates the response to a verification challenge, with an empty challenge if `received` contains none.
    pub fn to_challenge(received: &Received) -> Self {
        let body: serde_json::Value = serde_json::from_slice(&received.body).unwrap_or_default();
        let challenge = body["challenge"].as_str().unwrap_or_default();
        let body = serde_json::json!({ "challenge": challenge }).to_string().into_bytes();
        Self::With { status: 200, headers: Vec::new(), body }
    }

    /// Delays the response by `delay`.
    pub fn after(self, delay: Duration) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            opened.add_permits(1);
        });
        Self::Gate(gate, Box::new(self))
    }
}

/// A receiver that listens until it is dropped, which also breaks all its connections.
pub struct Receiver {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// The HTTP handler, or `None` if the test handles connections itself.
    handler: Option<Arc<Handler>>,
    listening: JoinHandle<()>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.address).finish()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The state shared by all connections of a receiver.
struct Handler {
    answer: Box<dyn Fn(&Received) -> Answer + Send + Sync>,
    log: Option<Mutex<Vec<Received>>>,
    logged: watch::Sender<usize>,
}

impl Receiver {
    pub async fn start(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::listen(Box::new(answer), Some(Mutex::default())).await
    }

    /// Starts a receiver that responds with `status` to one request per permit of the returned semaphore.
    pub async fn gated(status: u16) -> (Self, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let answer = move |_: &_| Answer::Gate(Arc::clone(&held), Box::new(Answer::Status(status)));
        (Self::start(answer).await, gate)
    }

    /// Starts a receiver that does not store requests, for tests with many requests, which `answer` may count.
    pub async fn start_unlogged(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::listen(Box::new(answer), None).await
    }

    /// Starts a receiver that does not store requests, on the address of a receiver that was dropped.
    pub async fn start_at(
        address: SocketAddr,
        answer: impl Fn(&Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let began = std::time::Instant::now();
        // The previous socket is closed asynchronously.
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{address}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        Self::with_handler(listener, Box::new(answer), None)
    }

    /// Starts a receiver that reads one request per connection, executes the script, and then keeps the connection
    /// open.
    pub async fn scripted(acts: Vec<Act>) -> Self {
        Self::raw(move |mut stream| {
            let acts = acts.clone();
            async move {
                read_request(&mut stream).await?;
                perform(stream, acts).await
            }
        })
        .await
    }

    /// Starts a receiver that executes the script as soon as a request arrives, without reading it.
    pub async fn unread(acts: Vec<Act>) -> Self {
        Self::raw(move |stream| {
            let acts = acts.clone();
            async move {
                stream.peek(&mut [0]).await?;
                perform(stream, acts).await
            }
        })
        .await
    }

    /// Starts a receiver that serves every connection with `serve`.
    pub async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::raw_at(Ipv4Addr::LOCALHOST.into(), serve).await
    }

    pub async fn raw_at<F>(ip: IpAddr, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port");
        Self::listen_on(listener, None, serve)
    }

    async fn listen(
        answer: Box<dyn Fn(&Received) -> Answer + Send + Sync>,
        log: Option<Mutex<Vec<Received>>>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        Self::with_handler(listener, answer, log)
    }

    fn with_handler(
        listener: TcpListener,
        answer: Box<dyn Fn(&Received) -> Answer + Send + Sync>,
        log: Option<Mutex<Vec<Received>>>,
    ) -> Self {
        let handler = Arc::new(Handler { answer, log, logged: watch::Sender::new(0) });
        let shared = Arc::clone(&handler);
        Self::listen_on(listener, Some(handler), move |stream| serve_http(stream, Arc::clone(&shared)))
    }

    fn listen_on<F>(
        listener: TcpListener,
        handler: Option<Arc<Handler>>,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (address, accepted) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
        let listening = tokio::spawn(accept(listener, Arc::clone(&accepted), serve));
        Self { address, accepted, handler, listening }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn handler(&self) -> &Handler {
        self.handler.as_ref().expect("a receiver that serves HTTP")
    }

    /// Returns all requests received so far, in order of arrival.
    pub fn received(&self) -> Vec<Received> {
        let log = self.handler().log.as_ref().expect("a receiver with a log");
        log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until at least `count` requests have been received, and returns all requests. Panics after a timeout.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut logged = self.handler().logged.subscribe();
        // The result of the wait holds a read lock on the count; drop it before locking the log.
        let enough = tokio::time::timeout(PATIENCE, logged.wait_for(|logged| *logged >= count)).await.is_ok();
        let received = self.received();
        assert!(enough, "expected {count} requests, received {}: {received:#?}", received.len());
        received
    }
}

async fn accept<F>(listener: TcpListener, count: Arc<AtomicUsize>, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Ignore connections that broke before they were accepted.
                if let Ok((stream, _)) = accepted {
                    count.fetch_add(1, Ordering::SeqCst);
                    connections.spawn(serve(stream));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_http(stream: TcpStream, handler: Arc<Handler>) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| handler.handle(request));
    let connection = hyper::server::conn::http1::Builder::new();
    // Ignore the error, because the sender observes it too.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
    Ok(())
}

/// Returns a URL with a port on which no process listens.
pub async fn closed_port(path: &str) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    format!("http://{}{path}", listener.local_addr().expect("an address"))
}

/// An error that closes the connection without a response.
#[derive(Debug)]
struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer")
    }
}

impl std::error::Error for NoAnswer {}

impl Handler {
    async fn handle(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, NoAnswer> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
        let path = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
        let received = Received { method: head.method, path, headers: head.headers, body };
        let mut answer = (self.answer)(&received);
        if let Some(log) = &self.log {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push(received);
            let count = log.len();
            drop(log);
            self.logged.send_modify(|logged| *logged = count.max(*logged));
        }
        loop {
            match answer {
                Answer::Status(status) => return Ok(respond(status, &[], Vec::new())),
                Answer::With { status, headers, body } => return Ok(respond(status, &headers, body)),
                Answer::Hang => match std::future::pending::<Infallible>().await {},
                Answer::Reset => return Err(NoAnswer),
                Answer::Gate(gate, then) => {
                    gate.acquire().await.map_err(|_| NoAnswer)?.forget();
                    answer = *then;
                }
            }
        }
    }
}

fn respond(status: u16, headers: &[(String, String)], body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Full::new(Bytes::from(body))).expect("a valid response")
}

#[cfg(test)]
mod tests;

/// Accepts a TLS session. After a failed handshake, closes the connection only when the client has closed it: data of
/// the client that is not read would reset the connection, and the client would not receive the alert.
pub async fn accept_tls(acceptor: &TlsAcceptor, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    match acceptor.accept(stream).into_fallible().await {
        Ok(session) => Ok(session),
        Err((error, mut stream)) => {
            stream.shutdown().await?;
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
            Err(error)
        }
    }
}
