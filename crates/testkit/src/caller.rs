//! One HTTP call on a connection of its own, to a server that may go away at any moment.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A server that does not answer for so long has gone away.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, Clone)]
pub struct Answered {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Calls with a key; `headers` are whole lines without their ends.
pub async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    key: &str,
    headers: &[String],
    body: &str,
) -> io::Result<Answered> {
    let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{lines}\r\n{body}"
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        read(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "no whole answer"))
    };
    timeout(ANSWERS_WITHIN, exchange).await?
}

/// A whole answer that says how long it is.
fn read(bytes: &[u8]) -> Option<Answered> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = bytes[end + 4..].to_vec();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    (body.len() == length).then_some(Answered { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_counts() {
        let whole = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}";
        let answer = read(whole).expect("an answer");
        assert_eq!((answer.status, answer.body.as_slice()), (202, &b"{}"[..]));
        for less in 1..whole.len() {
            assert!(read(&whole[..less]).is_none(), "{less} bytes");
        }
    }
}
