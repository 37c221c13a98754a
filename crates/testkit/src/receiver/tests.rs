//! Tests of the receiver itself.

use super::*;
use tokio::io::AsyncReadExt as _;

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: here\r\nwebhook-id: msg_1\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Reads until a response with an empty body is complete or the connection is closed.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.expect("bytes") == 1 {
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

#[tokio::test]
async fn connections_are_kept_and_requests_recorded() {
    let receiver = Receiver::start(|request| match request.path.as_str() {
        "/teapot?a=b" => Answer::Status(418),
        "/away" => {
            let headers = vec![("location".to_owned(), "/there".to_owned())];
            Answer::With { status: 302, headers, body: Vec::new() }
        }
        _ => Answer::Reset,
    })
    .await;
    let mut stream = TcpStream::connect(receiver.address()).await.expect("a connection");
    stream.write_all(&post("/teapot?a=b", "{}")).await.expect("a request");
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 418 "));
    stream.write_all(&post("/away", "")).await.expect("a request");
    assert!(answer(&mut stream).await.contains("location: /there\r\n"));
    stream.write_all(&post("/reset", "")).await.expect("a request");
    assert_eq!(answer(&mut stream).await, "");
    let received = receiver.wait_for(3).await;
    let paths: Vec<_> = received.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/teapot?a=b", "/away", "/reset"]);
    assert_eq!((received[0].webhook_id(), &received[0].body[..]), ("msg_1", &b"{}"[..]));
}

#[tokio::test]
async fn a_gate_lets_one_response_pass_per_permit() {
    let (receiver, gate) = Receiver::gated(200).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(receiver.address()).await.expect("a connection");
        stream.write_all(&post("/", "")).await.expect("a request");
        streams.push(stream);
    }
    receiver.wait_for(2).await;
    gate.add_permits(2);
    for mut stream in streams {
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(gate.available_permits(), 0);
}

#[tokio::test]
async fn a_hung_request_ends_when_the_receiver_is_dropped() {
    let receiver = Receiver::start(|_| Answer::Hang).await;
    let mut stream = TcpStream::connect(receiver.address()).await.expect("a connection");
    stream.write_all(&post("/", "")).await.expect("a request");
    receiver.wait_for(1).await;
    drop(receiver);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
}
