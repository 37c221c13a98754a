//! Scripts that a receiver executes byte by byte, for responses that are not valid HTTP.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A step of a script.
#[derive(Debug, Clone)]
pub enum Act {
    Say(&'static [u8]),
    SayLong(String),
    /// Writes one byte at a time, then keeps the connection open for longer than any client waits.
    Trickle(&'static [u8]),
    /// Repeats the bytes until the connection breaks.
    Endlessly(&'static [u8]),
    Hold,
    Close,
    Reset,
}

/// Executes a script, then keeps the connection open.
pub async fn perform(mut stream: TcpStream, acts: Vec<Act>) -> io::Result<()> {
    for act in acts {
        match act {
            Act::Say(bytes) => stream.write_all(bytes).await?,
            Act::SayLong(text) => stream.write_all(text.as_bytes()).await?,
            Act::Trickle(bytes) => {
                for byte in bytes {
                    stream.write_all(&[*byte]).await?;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                std::future::pending::<()>().await;
            }
            Act::Endlessly(bytes) => loop {
                stream.write_all(bytes).await?;
            },
            Act::Hold => std::future::pending::<()>().await,
            Act::Close => return Ok(()),
            Act::Reset => {
                reset_at_end(&stream);
                return Ok(());
            }
        }
    }
    std::future::pending().await
}

/// Configures the socket to send a reset instead of a FIN when it is closed.
pub fn reset_at_end(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket");
}

/// Reads one complete request and returns its body, or `None` if the connection was closed.
pub async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
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
