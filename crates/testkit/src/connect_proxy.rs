//! An HTTP proxy on a loopback socket that supports CONNECT. It records what it is asked for, and responds as the test
//! specifies. A tunnel always leads to the receiver of the test, whatever its target, so that tests can use public
//! addresses.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A request for a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The target in the request line.
    pub target: String,
    /// The whole request, including the empty line.
    pub head: String,
}

/// The response of the proxy to a request for a tunnel.
#[derive(Debug, Clone)]
pub enum ProxyAnswer {
    /// Responds with status 200 and forwards all data to this address.
    TunnelTo(SocketAddr),
    /// Sends these bytes and closes the connection.
    Say(Vec<u8>),
    /// Never responds.
    Hang,
}

impl ProxyAnswer {
    /// Returns a response with a status and a body.
    pub fn status(status: u16) -> Self {
        Self::Say(format!("HTTP/1.1 {status} No\r\ncontent-length: 4\r\n\r\nno.\n").into_bytes())
    }
}

type Answer = dyn Fn(&Asked) -> ProxyAnswer + Send + Sync;

/// A proxy that listens until it is dropped.
#[derive(Debug)]
pub struct ConnectProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    listening: JoinHandle<()>,
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl ConnectProxy {
    pub async fn start(answer: impl Fn(&Asked) -> ProxyAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (log, answer): (_, Arc<Answer>) = (Arc::clone(&asked), Arc::new(answer));
        let listening = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&log), Arc::clone(&answer)));
            }
        });
        Self { address, asked, listening }
    }

    /// Starts a proxy whose tunnels lead to `address`.
    pub async fn to(address: SocketAddr) -> Self {
        Self::start(move |_| ProxyAnswer::TunnelTo(address)).await
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all requests so far, in order of arrival.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("the list").clone()
    }

    /// Returns the targets of all requests so far.
    pub fn targets(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.target).collect()
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Vec<Asked>>>, answer: Arc<Answer>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    let asked = Asked { target: target.expect("a CONNECT request").to_owned(), head };
    let answer = answer(&asked);
    log.lock().expect("the list").push(asked);
    match answer {
        ProxyAnswer::TunnelTo(address) => {
            let mut inner = TcpStream::connect(address).await?;
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            tokio::io::copy_bidirectional(&mut stream, &mut inner).await?;
        }
        ProxyAnswer::Say(bytes) => stream.write_all(&bytes).await?,
        ProxyAnswer::Hang => std::future::pending().await,
    }
    Ok(())
}
