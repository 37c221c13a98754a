//! Tests the outcomes of slow, interrupted, invalid, endless and valid responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_services::sender::{OutgoingRequest, ReadUpTo};
use posthaste_testkit::receiver::{Act, Receiver, perform, read_request};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use crate::senders::{OK, PATIENT, SHORT, answering, code, send, send_body, sender};

const BODY: ReadUpTo = ReadUpTo::Body { bytes_max: 16 * 1024 };

/// Sends one request to a receiver that runs the script `acts`, and checks the outcome. Rows that must time out
/// have a short deadline, all others a long one.
async fn check(what: &str, acts: &[Act], wanted: ReadUpTo, expected: &str) {
    let receiver = Receiver::scripted(acts.to_vec()).await;
    let deadline =
        if expected.contains("TIMEOUT") || what.contains("until the deadline") { SHORT } else { PATIENT };
    let exchange = send(&sender(), &receiver.url("/hook"), wanted, deadline).await;
    assert_eq!(code(&exchange), expected, "{what}");
    assert!(exchange.bytes_written, "{what}");
    assert_eq!(receiver.accepted(), 1, "{what}: not sent twice");
}

#[tokio::test]
async fn slow_receivers_end_at_the_deadline() {
    use Act::{Hold, Say, Trickle};
    let long = Say(b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n");
    let chunked = Say(b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n");
    let a_while = Trickle(b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    let rows: &[(&str, &[Act], ReadUpTo, &str)] = &[
        ("no answer", &[Hold], ReadUpTo::Status, "TIMEOUT"),
        ("an answer at a trickle", &[Trickle(OK)], ReadUpTo::Status, "TIMEOUT"),
        (
            "headers at a trickle",
            &[Say(b"HTTP/1.1 200 OK\r\n"), a_while.clone()],
            ReadUpTo::Status,
            "TIMEOUT",
        ),
        ("interim answers, then none", &[Say(b"HTTP/1.1 100 C\r\n\r\n"), Hold], ReadUpTo::Status, "TIMEOUT"),
        ("a body at a trickle until the deadline", &[long.clone(), a_while], BODY, "200"),
        ("a body that does not come until the deadline", &[chunked, Hold], BODY, "HTTP_500"),
        ("a body that nobody wants", &[long, Hold], ReadUpTo::Status, "200"),
    ];
    // The checks run concurrently, because each is slow.
    let mut checks = tokio::task::JoinSet::new();
    for (what, acts, wanted, expected) in rows {
        let (what, acts, wanted, expected) = (what.to_string(), acts.to_vec(), *wanted, expected.to_string());
        checks.spawn(async move { check(&what, &acts, wanted, &expected).await });
    }
    checks.join_all().await;
}

#[tokio::test]
async fn interrupted_responses_are_classified() {
    use Act::{Close, Reset, Say};
    let line = Say(b"HTTP/1.1 200 OK\r\n");
    let refusal = Say(b"HTTP/1.1 503 Later\r\nretry-after: 5");
    let head = Say(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome of it");
    let half = Say(b"HTTP/1.1 20");
    let rows: &[(&str, &[Act], &str)] = &[
        ("a close without an answer", &[Close], "CONNECT_FAILED"),
        ("a reset without an answer", &[Reset], "CONNECT_FAILED"),
        ("a close within the status line", &[half.clone(), Close], "CONNECT_FAILED"),
        ("a reset within the status line", &[half, Reset], "CONNECT_FAILED"),
        ("a close after the status line", &[line.clone(), Close], "200"),
        ("a reset after the status line", &[line, Reset], "200"),
        ("a close within the headers", &[refusal.clone(), Close], "HTTP_503"),
        ("a reset within the headers", &[refusal, Reset], "HTTP_503"),
        ("a close within the body", &[head.clone(), Close], "200"),
        ("a reset within the body", &[head, Reset], "200"),
        ("a close after an interim answer", &[Say(b"HTTP/1.1 100 C\r\n\r\n"), Close], "CONNECT_FAILED"),
    ];
    for (what, acts, expected) in rows {
        check(what, acts, BODY, expected).await;
    }
}

#[tokio::test]
async fn invalid_http_is_refused() {
    use Act::{Endlessly, Say, SayLong};
    let headers = |count: usize| {
        let lines: String = (0..count).map(|n| format!("x-{n}: y\r\n")).collect();
        SayLong(format!("HTTP/1.1 204 No Content\r\n{lines}\r\n"))
    };
    let wide = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    let rows: &[(&str, &[Act], &str)] = &[
        ("garbage", &[Say(b"what do you want?\r\n\r\n")], "RESPONSE_INVALID"),
        ("zeros without end", &[Endlessly(&[0; 4096])], "RESPONSE_INVALID"),
        ("empty lines without end", &[Endlessly(b"\r\n\r\n\r\n\r\n")], "RESPONSE_INVALID"),
        ("another version", &[Say(b"HTTP/2.0 200 OK\r\n\r\n")], "RESPONSE_INVALID"),
        ("no version", &[Say(b"200 OK\r\n\r\n")], "RESPONSE_INVALID"),
        ("no number", &[Say(b"HTTP/1.1 two OK\r\n\r\n")], "RESPONSE_INVALID"),
        ("frames of HTTP/2", &[Say(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80")], "RESPONSE_INVALID"),
        ("a bad header", &[Say(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n")], "RESPONSE_INVALID"),
        ("a bad length", &[Say(b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n")], "RESPONSE_INVALID"),
        ("10,000 headers", &[headers(10_000)], "RESPONSE_INVALID"),
        ("101 headers", &[headers(101)], "RESPONSE_INVALID"),
        ("100 headers", &[headers(100)], "204"),
        ("a header of 20,000 bytes", &[SayLong(wide)], "RESPONSE_INVALID"),
        ("headers without end", &[Say(b"HTTP/1.1 200 OK\r\n"), Endlessly(b"x: y\r\n")], "RESPONSE_INVALID"),
        ("interim answers without end", &[Endlessly(b"HTTP/1.1 100 C\r\n\r\n")], "RESPONSE_INVALID"),
        ("early hints without end", &[Endlessly(b"HTTP/1.1 103 E\r\nlink: x\r\n\r\n")], "RESPONSE_INVALID"),
        (
            "interim answers, then one",
            &[Say(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\n\r\n"), Say(OK)],
            "200",
        ),
        ("a switch of protocols", &[Say(b"HTTP/1.1 101 S\r\nupgrade: x\r\n\r\n")], "HTTP_101"),
    ];
    for (what, acts, expected) in rows {
        check(what, acts, BODY, expected).await;
    }
}

#[tokio::test]
async fn a_greeting_before_the_request_is_not_a_response() {
    let receiver = Receiver::raw(|mut stream| async move {
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await?;
        read_request(&mut stream).await?;
        std::future::pending().await
    })
    .await;
    let exchange = send(&sender(), &receiver.url("/hook"), BODY, PATIENT).await;
    assert_eq!(code(&exchange), "RESPONSE_INVALID");
}

#[tokio::test]
async fn redirects_are_failures_and_are_not_followed() {
    let inner = answering(OK).await;
    for status in [301, 302, 303, 307, 308] {
        let location = inner.url("/hook");
        let answer = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        check("a redirect", &[Act::SayLong(answer)], BODY, &format!("HTTP_{status}")).await;
    }
    assert_eq!(inner.accepted(), 0);
}

#[tokio::test]
async fn endless_bodies_are_truncated() {
    let heads: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n",
    ];
    for head in heads {
        for (wanted, kept) in [(ReadUpTo::Status, 0), (BODY, 16 * 1024), (ReadUpTo::Body { bytes_max: 5 }, 5)]
        {
            let acts = vec![Act::Say(head), Act::Endlessly(&[b'x'; 65_536])];
            let (ended, mut has_ended) = mpsc::unbounded_channel();
            let receiver = Receiver::raw(move |mut stream| {
                let (acts, ended) = (acts.clone(), ended.clone());
                async move {
                    read_request(&mut stream).await?;
                    let result = perform(stream, acts).await;
                    let _ = ended.send(result.is_err());
                    Ok(())
                }
            })
            .await;
            let exchange = send(&sender(), &receiver.url("/hook"), wanted, PATIENT).await;
            assert_eq!((code(&exchange).as_str(), exchange.body_complete), ("200", false));
            assert_eq!(exchange.body, vec![b'x'; kept]);
            assert_eq!(has_ended.recv().await, Some(true), "the connection was dropped");
        }
    }
}

#[tokio::test]
async fn a_compressed_body_is_not_decompressed() {
    // 131,072 zero bytes, compressed to 161 bytes.
    let mut zeros = b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xed\xc11\x01\0\0\0\xc2\xa0\xf5O\xeda\r\xa0".to_vec();
    zeros.resize(152, 0);
    zeros.extend(b"n\xcd\xcd\xe8~\0\0\x02\0");
    let zeros: &[u8] = zeros.leak();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", zeros.len());
    let receiver = Receiver::scripted(vec![Act::SayLong(head), Act::Say(zeros)]).await;
    let exchange = send(&sender(), &receiver.url("/hook"), BODY, PATIENT).await;
    assert_eq!((code(&exchange).as_str(), exchange.body_complete), ("200", true));
    assert_eq!(exchange.body, zeros);
}

#[tokio::test]
async fn the_requested_parts_of_the_response_are_returned() {
    let answer = b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nlate";
    let receiver = answering(answer).await;
    let exchange = send(&sender(), &receiver.url("/hook"), BODY, PATIENT).await;
    assert_eq!((code(&exchange).as_str(), exchange.status()), ("HTTP_429", Some(429)));
    assert_eq!((&exchange.body[..], exchange.body_complete), (&b"late"[..], true));
    assert_eq!(exchange.retry_after.as_ref().map(|value| value.as_bytes()), Some(&b"7"[..]));
    let outcome = posthaste_core::outcome::AttemptOutcome::Failed {
        failure: posthaste_core::outcome::Failure::Http(429),
        status: Some(429),
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(exchange.outcome, outcome);
    assert_eq!(exchange.broker_fault(), None);
}

#[tokio::test]
async fn callers_cannot_override_framing_headers() {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |mut stream| {
        let heard = heard.clone();
        async move {
            let mut request = vec![0; 1000];
            let len = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await?;
            let _ = heard.send(String::from_utf8_lossy(&request[..len]).into_owned());
            stream.write_all(OK).await
        }
    })
    .await;
    let mut headers = http::HeaderMap::new();
    for (name, value) in [
        ("host", "elsewhere.example"),
        ("content-length", "7"),
        ("transfer-encoding", "chunked"),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("expect", "100-continue"),
        ("x-mine", "stays"),
    ] {
        headers.insert(name, http::HeaderValue::from_static(value));
    }
    let url = format!("{}?a=b", receiver.url("/hook"));
    let body = Bytes::from_static(b"{}");
    let request = OutgoingRequest::post(headers, body, BODY, PATIENT);
    let exchange = sender().send_to_url(&url, request, posthaste_core::Timestamp::from_micros(0)).await;
    assert_eq!(code(&exchange), "200");
    let heard = hears.recv().await.expect("a request");
    let (head, body) = heard.split_once("\r\n\r\n").expect("a head");
    let mut lines: Vec<_> = head.lines().collect();
    lines.sort_unstable();
    let host = format!("host: {}", receiver.address());
    assert_eq!(lines, ["POST /hook?a=b HTTP/1.1", "content-length: 2", &host, "x-mine: stays"]);
    assert_eq!(body, "{}");
}

#[tokio::test]
async fn a_large_body_arrives_complete_and_an_unread_one_times_out() {
    let body = Bytes::from(vec![b'7'; 1 << 20]);
    let (heard, mut hears) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |mut stream| {
        let heard = heard.clone();
        async move {
            while let Some(body) = read_request(&mut stream).await? {
                let _ = heard.send(body);
                stream.write_all(OK).await?;
            }
            Ok(())
        }
    })
    .await;
    let exchange = send_body(&sender(), &receiver.url("/hook"), body.clone(), BODY, PATIENT).await;
    assert_eq!(code(&exchange), "200");
    assert_eq!(hears.recv().await, Some(body.to_vec()));
    // More than the buffers of both sockets can hold.
    let huge = Bytes::from(vec![b'7'; 16 << 20]);
    let deaf = Receiver::raw(|stream| async move {
        let _stream = stream;
        std::future::pending().await
    })
    .await;
    let exchange = send_body(&sender(), &deaf.url("/hook"), huge.clone(), BODY, SHORT).await;
    assert_eq!((code(&exchange).as_str(), exchange.bytes_written), ("TIMEOUT", true));
    let hasty = Receiver::raw(|mut stream| async move {
        stream.writable().await?;
        let mut some = [0; 100];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut some).await?;
        stream.write_all(b"HTTP/1.1 413 Too much\r\ncontent-length: 0\r\n\r\n").await?;
        std::future::pending().await
    })
    .await;
    let exchange = send_body(&sender(), &hasty.url("/hook"), huge, BODY, PATIENT).await;
    assert_eq!(code(&exchange), "HTTP_413", "a response before the end of the request");
}

/// Returns the peak resident memory of this process in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[tokio::test]
async fn memory_stays_bounded_during_two_hundred_floods() {
    let flood = vec![Act::Say(b"HTTP/1.1 200 OK\r\n\r\n"), Act::Endlessly(&[b'x'; 65_536])];
    let receiver = Receiver::scripted(flood).await;
    let (sender, url) = (sender(), Arc::new(receiver.url("/hook")));
    let before = peak_kib();
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (sender, url) = (sender.clone(), Arc::clone(&url));
        sends.spawn(async move { code(&send(&sender, &url, BODY, PATIENT).await) });
    }
    assert!(sends.join_all().await.iter().all(|code| code == "200"));
    // The kernel's figure is approximate and may decrease slightly.
    let growth_kib = peak_kib().saturating_sub(before);
    assert!(growth_kib < 50 * 1024, "{growth_kib} KiB");
}
