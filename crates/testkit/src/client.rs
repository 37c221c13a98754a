//! The HTTP client for tests: sends one request per connection, byte for byte as the test specifies, and reads
//! the response. [`Call::send`] and [`Call::send_blocking`] panic if there is no response; [`Call::try_send`] is
//! for servers that may stop at any time.

use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of [`Call::try_send`].
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);
/// The read timeout of blocking calls, chosen to suffice on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub struct Call {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    pub fn new(address: SocketAddr, method: &str, path: &str, key: &str) -> Self {
        Self::get(address, path).method(method).key(key)
    }

    /// Creates a GET request without an API key.
    pub fn get(address: SocketAddr, path: &str) -> Self {
        let (method, path) = ("GET".to_owned(), path.to_owned());
        Self { address, method, path, headers: Vec::new(), body: Vec::new() }
    }

    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    pub fn no_key(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "authorization");
        self
    }

    pub fn key(self, key: &str) -> Self {
        self.no_key().header("authorization", &format!("Bearer {key}"))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    pub fn json(self, text: impl Into<Vec<u8>>) -> Self {
        self.header("content-type", "application/json").body(text)
    }

    fn head(&self) -> String {
        let Self { method, path, address, .. } = self;
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = self.body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        )
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(self.head().as_bytes()).await?;
        Ok(stream)
    }

    async fn exchange(&self) -> io::Result<Vec<u8>> {
        let mut stream = self.connect().await?;
        // The server may have responded and closed the connection already.
        let _ = stream.write_all(&self.body).await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        Ok(bytes)
    }

    pub async fn send(self) -> Answer {
        Answer::parse(&self.exchange().await.expect("a response")).expect("a head")
    }

    /// Sends the request and returns the complete response, with a timeout of 15 seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks, the timeout expires, or the response is shorter than its
    /// `content-length`.
    pub async fn try_send(self) -> io::Result<Answer> {
        let answer = Answer::parse(&timeout(ANSWERS_WITHIN, self.exchange()).await??);
        let incomplete = || io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete response");
        answer.filter(Answer::is_whole).ok_or_else(incomplete)
    }

    /// Sends the request without an async runtime. The status is 0 if the response has no head.
    pub fn send_blocking(self) -> Answer {
        let mut stream = std::net::TcpStream::connect(self.address).expect("a connection");
        // The server may have responded and closed the connection already.
        let _ = stream.write_all(self.head().as_bytes()).and_then(|()| stream.write_all(&self.body));
        Answer::read_blocking(&mut stream)
    }

    /// Sends the head and the first `bytes` bytes of the body. Returns the connection and the rest of the body.
    pub async fn begin(self, bytes: usize) -> (TcpStream, Vec<u8>) {
        let mut stream = self.connect().await.expect("a connection");
        let (now, later) = self.body.split_at(bytes);
        stream.write_all(now).await.expect("to write a part");
        (stream, later.to_vec())
    }

    /// Sends the request, checks the status and returns the body as JSON.
    pub async fn expect(self, status: u16) -> Value {
        self.answered(status).await.json()
    }

    /// Sends the request, checks the status and returns the body as text.
    pub async fn expect_text(self, status: u16) -> String {
        self.answered(status).await.text()
    }

    async fn answered(self, status: u16) -> Answer {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(200).collect();
        let what = format!("{} {} {body}", self.method, self.path);
        let answer = self.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        answer
    }

    /// Sends the request and checks that the response is a problem document with this status and field.
    pub async fn refused(self, status: u16, field: &str) -> Value {
        let what = format!("{} {}", self.method, self.path);
        let answer = self.answered(status).await;
        assert_eq!(answer.header("content-type"), "application/problem+json", "{what}");
        let problem = answer.json();
        assert_eq!(problem["status"], status, "{what}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{what}: {problem}");
        assert_eq!(problem["field"].as_str().unwrap_or_default(), field, "{what}: {problem}");
        problem
    }
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body: bytes[end + 4..].to_vec() })
    }

    fn is_whole(&self) -> bool {
        self.header("content-length").parse() == Ok(self.body.len())
    }

    /// Reads a response until the server closes the connection.
    pub async fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("a response");
        Self::parse(&bytes).expect("a head")
    }

    /// Reads until the response is complete or the connection is closed.
    pub fn read_blocking(stream: &mut std::net::TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
        let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
        while !Self::parse(&bytes).is_some_and(|answer| answer.is_whole()) {
            let Ok(read @ 1..) = stream.read(&mut buffer) else { break };
            bytes.extend_from_slice(&buffer[..read]);
        }
        Self::parse(&bytes).unwrap_or_default()
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.whole());
        self
    }

    /// Returns the value of a header, or an empty string if there is none.
    pub fn header(&self, name: &str) -> &str {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(':'));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the head and the body as text.
    pub fn whole(&self) -> String {
        format!("{}\r\n\r\n{}", self.head, self.text())
    }

    /// Returns the body as JSON, or `Null` if it is empty.
    pub fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_response_is_not_complete() {
        let whole = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}";
        let answer = Answer::parse(whole).expect("a response");
        assert!(answer.is_whole());
        assert_eq!((answer.status, answer.body.as_slice()), (202, &b"{}"[..]));
        for less in 1..whole.len() {
            assert!(!Answer::parse(&whole[..less]).is_some_and(|answer| answer.is_whole()), "{less} bytes");
        }
    }
}
