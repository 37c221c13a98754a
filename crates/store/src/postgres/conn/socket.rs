//! A TCP or Unix socket to a PostgreSQL server. It detects a request for the password in clear text, so that the driver
//! never responds to it over an unprotected connection.

use crate::postgres::conn::url::{ConnectionUrl, Place};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// The address of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SocketPlace {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl SocketPlace {
    /// Returns the addresses of a host, in the order in which the resolver returns them.
    pub(crate) async fn resolve(place: &Place, port: u16) -> io::Result<Vec<Self>> {
        Ok(match place {
            Place::Unix(folder) => vec![Self::Unix(folder.join(format!(".s.PGSQL.{port}")))],
            Place::Tcp { address: Some(address), .. } => vec![Self::Tcp((*address, port).into())],
            Place::Tcp { name, address: None } => {
                tokio::net::lookup_host((name.as_str(), port)).await?.map(Self::Tcp).collect()
            }
        })
    }

    /// Returns the network address, or `None` for a Unix socket.
    pub(crate) const fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Returns whether data does not leave the machine.
    pub(crate) fn is_local(&self) -> bool {
        self.address().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

pub(crate) struct Socket {
    stream: Stream,
    /// `None` if a request for the password in clear text is allowed.
    watched: Option<FirstMessage>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Opens a socket with keepalive and timeouts, so that a server that disappears is noticed within seconds.
    pub(crate) async fn open(place: &SocketPlace, url: &ConnectionUrl) -> io::Result<Self> {
        let stream = match place {
            SocketPlace::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
            SocketPlace::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let socket = SockRef::from(&stream);
                socket.set_tcp_user_timeout(url.tcp_user_timeout)?;
                if let Some(keepalive) = url.keepalive {
                    socket.set_tcp_keepalive(
                        &TcpKeepalive::new()
                            .with_time(keepalive.idle)
                            .with_interval(keepalive.interval)
                            .with_retries(keepalive.retries),
                    )?;
                }
                Stream::Tcp(stream)
            }
        };
        Ok(Self { stream, watched: None })
    }

    /// Makes the next read fail if the server requests the password in clear text.
    pub(crate) fn refuse_clear_text_password(&mut self) {
        self.watched = Some(FirstMessage::default());
    }
}

/// The error for a server that requests the password in clear text.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server requested the password in clear text over an unencrypted connection, and it was not sent: use \
     sslmode=verify-full, or configure scram-sha-256 in pg_hba.conf"
)]
pub(crate) struct ClearTextPassword;

/// The beginning of the first message of the server: its type, its length and, for an authentication request, the
/// method.
#[derive(Default)]
struct FirstMessage {
    bytes: [u8; 9],
    length: usize,
}

impl FirstMessage {
    /// `AuthenticationCleartextPassword`: type R, length 8, method 3.
    const CLEAR_TEXT: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];

    /// Adds received bytes. Returns whether they complete a request for the password in clear text.
    fn add(&mut self, received: &[u8]) -> bool {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        let count = free.len().min(received.len());
        for (to, from) in free.iter_mut().zip(received) {
            *to = *from;
        }
        self.length += count;
        count > 0 && self.bytes == Self::CLEAR_TEXT
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if let Some(message) = &mut self.watched
            && message.add(buf.filled().get(before..).unwrap_or_default())
        {
            buf.set_filled(before);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::PermissionDenied, ClearTextPassword)));
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, data),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::conn::failure::HostFailure;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn clear_text_request_is_detected_in_any_pieces() {
        let whole = FirstMessage::CLEAR_TEXT;
        for size in 1..=whole.len() {
            let mut message = FirstMessage::default();
            let found: Vec<bool> = whole.chunks(size).map(|piece| message.add(piece)).collect();
            assert_eq!(found.iter().filter(|found| **found).count(), 1, "pieces of {size}");
            assert_eq!(found.last(), Some(&true));
        }
        let scram = [b'R', 0, 0, 0, 23, 0, 0, 0, 10];
        let mut message = FirstMessage::default();
        assert!(!message.add(&scram));
        // Only the first message is inspected: later ones contain data.
        assert!(!message.add(&whole));
    }

    /// Runs a server that requests the password in clear text. Returns what the client sent after the request.
    async fn password_sent(refuses: bool) -> (Vec<u8>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let length = stream.read_u32().await.unwrap();
            stream.read_exact(&mut vec![0; length as usize - 4]).await.unwrap();
            stream.write_all(&FirstMessage::CLEAR_TEXT).await.unwrap();
            let mut sent = vec![0; 64];
            let count = stream.read(&mut sent).await.unwrap_or(0);
            sent.truncate(count);
            sent
        });
        let url = ConnectionUrl::parse("postgres://u:hush@h/d").unwrap();
        let mut socket = Socket::open(&SocketPlace::Tcp(address), &url).await.unwrap();
        if refuses {
            socket.refuse_clear_text_password();
        }
        let mut config = tokio_postgres::Config::new();
        config.user("u").password("hush").ssl_mode(tokio_postgres::config::SslMode::Disable);
        let error = config.connect_raw(socket, tokio_postgres::NoTls).await.err().expect("a failure");
        (server.await.unwrap(), HostFailure::driver(&error).to_string())
    }

    #[tokio::test]
    async fn password_is_not_sent_in_clear_text_over_an_unprotected_connection() {
        let (sent, error) = password_sent(true).await;
        assert!(sent.is_empty(), "{sent:?}");
        assert!(error.contains("sslmode=verify-full"), "{error}");
        let (sent, _) = password_sent(false).await;
        assert!(sent.windows(4).any(|part| part == b"hush"), "{sent:?}");
    }

    #[test]
    fn loopback_addresses_and_unix_sockets_are_local() {
        let tcp = |address: &str| SocketPlace::Tcp(address.parse().unwrap()).is_local();
        assert!(["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"].into_iter().all(tcp));
        assert!(!["10.0.0.1:1", "192.0.2.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"].into_iter().any(tcp));
        assert!(SocketPlace::Unix("/run/postgresql".into()).is_local());
    }
}
