//! A minimal HTTP/1.1 implementation with `content-length` bodies and persistent connections. It keeps the cost
//! of the load generator and the receiver low compared with that of the measured server.

use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The maximum time a [`call`] waits for the response.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// A received request or response.
#[derive(Debug)]
pub struct Message<'a> {
    pub first_line: &'a str,
    pub body: &'a [u8],
}

/// A reader of consecutive messages on a stream.
#[derive(Debug)]
pub struct Messages<R> {
    stream: R,
    buffer: Vec<u8>,
    /// The number of buffered bytes that belong to the message returned last.
    taken: usize,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::with_capacity(8 * 1024), taken: 0 }
    }

    pub fn stream(&mut self) -> &mut R {
        &mut self.stream
    }

    /// Reads the next message. Returns `None` if the peer has closed the connection.
    pub async fn next(&mut self) -> anyhow::Result<Option<Message<'_>>> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let head = loop {
            if let Some(at) = find_end(&self.buffer) {
                break at;
            }
            if !self.read_more().await? {
                return Ok(None);
            }
        };
        let length = content_length(&self.buffer[..head])?;
        let end = head + length;
        if end > MESSAGE_BYTES_MAX {
            bail!("a message of {end} bytes is too long");
        }
        while self.buffer.len() < end {
            if !self.read_more().await? {
                bail!("the connection ended within a body");
            }
        }
        self.taken = end;
        let line_end = self.buffer.iter().position(|byte| *byte == b'\r').unwrap_or(head);
        let first_line = std::str::from_utf8(&self.buffer[..line_end]).context("reading a head")?;
        Ok(Some(Message { first_line, body: &self.buffer[head..end] }))
    }

    async fn read_more(&mut self) -> anyhow::Result<bool> {
        if self.buffer.len() >= MESSAGE_BYTES_MAX {
            bail!("a head is too long");
        }
        Ok(self.stream.read_buf(&mut self.buffer).await.context("reading")? > 0)
    }
}

/// Sends one request on a new connection and returns the body of the response.
///
/// # Errors
///
/// Returns an error if the request fails or the status is not 2xx.
pub async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    key: &str,
    body: &str,
) -> anyhow::Result<Vec<u8>> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut messages = Messages::new(TcpStream::connect(address).await.context("connecting")?);
    messages.stream().write_all(request.as_bytes()).await.context("sending a request")?;
    let answer =
        tokio::time::timeout(ANSWERS_WITHIN, messages.next()).await.context("no response in time")??;
    let answer = answer.context("the server closed the connection")?;
    let is_success = answer.first_line.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
    if !is_success {
        bail!("{}: {}", answer.first_line, String::from_utf8_lossy(answer.body));
    }
    Ok(answer.body.to_vec())
}

/// Returns the offset of the body, or `None` if the head is incomplete.
fn find_end(buffer: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    buffer.windows(END.len()).position(|window| window == END).map(|at| at + END.len())
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    const NAME: &[u8] = b"content-length:";
    for line in head.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_at_checked(NAME.len()) else { continue };
        if name.eq_ignore_ascii_case(NAME) {
            let text = std::str::from_utf8(value).context("reading a content-length")?;
            return text.trim().parse().context("reading a content-length");
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_separated() {
        let bytes: &[u8] =
            b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nx: y\r\n\r\nHTTP/1.1 202 \
              Accepted\r\ncontent-length:3\r\n\r\nabc";
        let mut messages = Messages::new(bytes);
        for (line, body) in
            [("POST /a HTTP/1.1", "hi"), ("HTTP/1.1 200 OK", ""), ("HTTP/1.1 202 Accepted", "abc")]
        {
            let message = messages.next().await.expect("a message").expect("a message");
            assert_eq!((message.first_line, message.body), (line, body.as_bytes()));
        }
        assert!(messages.next().await.expect("the end").is_none());
        let mut broken = Messages::new(&b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhi"[..]);
        assert!(broken.next().await.is_err());
    }
}
