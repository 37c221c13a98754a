//! A caller that writes what it is told, byte for byte, and reads the answer.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Call {
    address: SocketAddr,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(address: SocketAddr, method: &'static str, path: &str, key: &str) -> Self {
        let headers = vec![("authorization".to_owned(), format!("Bearer {key}"))];
        Self { address, method, path: path.to_owned(), headers, body: Vec::new() }
    }

    pub(crate) fn no_key(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "authorization");
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.no_key().header("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    pub(crate) fn json(self, text: impl Into<Vec<u8>>) -> Self {
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

    pub(crate) async fn send(self) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.write_all(self.head().as_bytes()).await.expect("to write the head");
        // A server that has answered already may have closed its side.
        let _ = stream.write_all(&self.body).await;
        Answer::read(&mut stream).await
    }

    /// Sends the head and a part of the body, and leaves it at that.
    pub(crate) async fn begin(self, bytes: usize) -> (TcpStream, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.write_all(self.head().as_bytes()).await.expect("to write the head");
        let (now, later) = self.body.split_at(bytes);
        stream.write_all(now).await.expect("to write a part");
        (stream, later.to_vec())
    }

    /// Sends it, and checks the status.
    pub(crate) async fn expect(self, status: u16) -> Value {
        let what = format!("{} {}", self.method, self.path);
        let answer = self.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        answer.json()
    }

    /// The same for an answer that is no JSON.
    pub(crate) async fn expect_text(self, status: u16) -> String {
        let what = format!("{} {}", self.method, self.path);
        let answer = self.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        answer.text()
    }

    /// Sends it, and checks that it is refused with this status for this field.
    pub(crate) async fn refused(self, status: u16, field: &str) -> Value {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(200).collect();
        let what = format!("{} {} {body}", self.method, self.path);
        let answer = self.send().await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert_eq!(answer.header("content-type"), "application/problem+json", "{what}");
        let problem = answer.json();
        assert_eq!(problem["status"], status, "{what}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{what}: {problem}");
        assert_eq!(problem["field"].as_str().unwrap_or_default(), field, "{what}: {problem}");
        problem
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("an answer");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }

    /// Empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Null when there is no body.
    pub(crate) fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}
