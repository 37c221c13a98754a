//! Brokers over real sockets: one that answers in words of HTTP, and one that does byte by byte what a
//! test tells it.

use posthaste_testkit::receiver::{Answer, Received};
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// An acceptance as the specification shows it, of the order that was sent.
pub(crate) fn accepted(request: &Received) -> Answer {
    let key = request.header("idempotency-key");
    let body = format!(
        r#"{{"broker_order_id":"brk-{key}","accepted_at":"2027-01-15T08:00:00Z","status":"accepted","fills":[],"idempotency_key":"{key}"}}"#
    );
    Answer::With { status: 200, headers: Vec::new(), body: body.into_bytes() }
}

/// What a broker does with the bytes of a connection.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Reads the request, writes this, and hangs up in order.
    Write(Vec<u8>),
    /// Writes this as soon as somebody comes.
    Greet(&'static str),
    /// Reads the request, and never says anything.
    Hang,
    /// Reads the request and resets the connection.
    ResetAfter,
    /// Resets the connection when the request has come, without having read any of it.
    ResetBefore,
    /// Reads the request, and writes this for ever.
    Endless { head: &'static str },
}

/// Where such a broker listens, until the test ends.
pub(crate) async fn raw_broker(act: Act) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(perform(stream, act.clone()));
        }
    });
    format!("http://{address}/orders")
}

async fn perform(mut stream: TcpStream, act: Act) -> io::Result<()> {
    match act {
        Act::ResetBefore => {
            stream.peek(&mut [0]).await?;
        }
        Act::Greet(_) => {}
        Act::Write(_) | Act::Hang | Act::ResetAfter | Act::Endless { .. } => {
            read_request(&mut stream).await?;
        }
    }
    match act {
        Act::Greet(greeting) => stream.write_all(greeting.as_bytes()).await,
        Act::Write(bytes) => {
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        }
        Act::Hang => std::future::pending().await,
        Act::ResetAfter | Act::ResetBefore => {
            reset_at_end(&stream);
            Ok(())
        }
        Act::Endless { head } => {
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; 65_536]).await?;
            }
        }
    }
}

/// The order's last brace ends the request, and nothing else in it looks like its end.
async fn read_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut read = Vec::new();
    while !read.ends_with(b"}") {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

fn reset_at_end(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket");
}

/// An answer of HTTP, byte by byte.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Act {
    let length = body.len();
    Act::Write(format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes())
}

/// An address on which nobody listens.
pub(crate) async fn closed_port() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    format!("http://{address}/orders")
}
