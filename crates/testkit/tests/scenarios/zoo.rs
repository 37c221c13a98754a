//! Receivers that do odd things, each beside a healthy one: every attempt ends with the right code, and
//! the healthy one hears everything.

use posthaste_core::ports::Stores;
use posthaste_core::saga::SagaStatus;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Clone, Copy)]
enum Oddity {
    SlowHeaders,
    NoAnswer,
    HugeBody,
    ResetAfterStatusLine,
    ResetBeforeAnswer,
    EndlessInterim,
    ManyHeaders,
    NotHttp,
}

/// What it does, and what the delivery comes to: a code, or nothing where the status line says 200.
const ROWS: &[(Oddity, &str)] = &[
    (Oddity::SlowHeaders, "TIMEOUT"),
    (Oddity::NoAnswer, "TIMEOUT"),
    (Oddity::HugeBody, ""),
    (Oddity::ResetAfterStatusLine, ""),
    (Oddity::ResetBeforeAnswer, "CONNECT_FAILED"),
    (Oddity::EndlessInterim, "RESPONSE_INVALID"),
    (Oddity::ManyHeaders, "RESPONSE_INVALID"),
    (Oddity::NotHttp, "RESPONSE_INVALID"),
];

async fn read_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut read = Vec::new();
    // The payload ends the request, and nothing else in it looks like its end.
    while !read.ends_with(b"}") {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn endlessly(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    loop {
        stream.write_all(bytes).await?;
    }
}

fn reset_at_end(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket");
}

async fn perform(mut stream: TcpStream, oddity: Oddity) -> io::Result<()> {
    read_request(&mut stream).await?;
    match oddity {
        Oddity::SlowHeaders => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?;
            let mut ticks = tokio::time::interval(Duration::from_millis(50));
            loop {
                ticks.tick().await;
                stream.write_all(b"y").await?;
            }
        }
        Oddity::NoAnswer => std::future::pending().await,
        Oddity::HugeBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n").await?;
            endlessly(&mut stream, &[b'x'; 65_536]).await
        }
        Oddity::ResetAfterStatusLine => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            reset_at_end(&stream);
            Ok(())
        }
        Oddity::ResetBeforeAnswer => {
            reset_at_end(&stream);
            Ok(())
        }
        Oddity::EndlessInterim => endlessly(&mut stream, b"HTTP/1.1 100 Continue\r\n\r\n").await,
        Oddity::ManyHeaders => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            let headers: String = (0..10_000).map(|number| format!("x-{number}: y\r\n")).collect();
            stream.write_all(headers.as_bytes()).await?;
            stream.write_all(b"\r\n").await?;
            std::future::pending().await
        }
        Oddity::NotHttp => {
            stream.write_all(b"220 mail.example ESMTP\r\n").await?;
            std::future::pending().await
        }
    }
}

async fn odd_receiver(oddity: Oddity) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(perform(stream, oddity));
        }
    });
    format!("http://{address}/hook")
}

pub(crate) async fn odd_receivers_beside_a_healthy_one<S: Stores>(h: Harness<S>) {
    const EVENTS: usize = 10;
    let mut rig = Rig::with(h, Setup { deadline: Duration::from_secs(3), ..Setup::default() });
    let healthy = Receiver::start(|_| Answer::Status(200)).await;
    rig.subscribe("healthy", &healthy.url("/")).await;
    let mut odd = Vec::new();
    for (number, (oddity, code)) in ROWS.iter().enumerate() {
        let kind = format!("odd-{number}");
        rig.subscribe(&kind, &odd_receiver(*oddity).await).await;
        for event in rig.publish_many(&kind, EVENTS).await {
            odd.push((*oddity, *code, event));
        }
    }
    let good = rig.publish_many("healthy", 5 * EVENTS).await;
    rig.until_quiet().await;
    for (oddity, code, event) in odd {
        let status = if code.is_empty() { SagaStatus::Completed } else { SagaStatus::PendingRetry };
        assert_eq!(rig.fate_of(event).await, (status, 1, code.to_owned()), "{oddity:?}");
    }
    for event in good {
        assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
    }
    assert_eq!(healthy.received().len(), 5 * EVENTS);
    rig.h.check_invariants().await;
}
