//! Tests the requests other than plain POSTs: OPTIONS, whose response headers are kept, and forms.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_services::sender::{Exchange, OutgoingRequest, ReadUpTo};
use posthaste_testkit::receiver::Receiver;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::senders::{PATIENT, SHORT, answering, code, sender};

const ALLOWED_ORIGIN: HeaderName = HeaderName::from_static("webhook-allowed-origin");
const ALLOWED_RATE: HeaderName = HeaderName::from_static("webhook-allowed-rate");

async fn send(receiver: &Receiver, request: OutgoingRequest) -> Exchange {
    sender().send_to_url(&receiver.url("/hook"), request, Timestamp::from_micros(0)).await
}

/// Sends a request and returns its lines as received, with the head sorted.
async fn received(request: OutgoingRequest) -> Vec<String> {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |mut stream| {
        let heard = heard.clone();
        async move {
            let mut request = vec![0; 1000];
            let len = stream.read(&mut request).await?;
            let _ = heard.send(String::from_utf8_lossy(&request[..len]).into_owned());
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await
        }
    })
    .await;
    assert_eq!(code(&send(&receiver, request).await), "204");
    let heard = hears.recv().await.expect("a request");
    let (head, body) = heard.split_once("\r\n\r\n").expect("a head");
    let host = format!("host: {}", receiver.address());
    let mut lines: Vec<_> = head.lines().filter(|line| *line != host).map(str::to_owned).collect();
    lines.sort_unstable();
    lines.push(body.to_owned());
    lines
}

#[tokio::test]
async fn options_has_no_body() {
    let mut headers = HeaderMap::new();
    headers.insert("webhook-request-origin", HeaderValue::from_static("events.example"));
    let lines = received(OutgoingRequest::options(headers, PATIENT)).await;
    assert_eq!(lines, ["OPTIONS /hook HTTP/1.1", "webhook-request-origin: events.example", ""]);
}

#[tokio::test]
async fn form_is_encoded() {
    let fields = [("grant_type", "client_credentials"), ("scope", "a b&c=ü")];
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/plain"));
    let lines = received(OutgoingRequest::form(headers, fields, ReadUpTo::Status, PATIENT)).await;
    let body = "grant_type=client_credentials&scope=a+b%26c%3D%C3%BC";
    let length = format!("content-length: {}", body.len());
    let rest = ["content-type: application/x-www-form-urlencoded", body];
    assert_eq!(lines, ["POST /hook HTTP/1.1", &length, rest[0], rest[1]]);
}

#[tokio::test]
async fn headers_are_kept_on_request_whatever_the_status() {
    let answers: [(&[u8], &str); 4] = [
        (
            b"HTTP/1.1 200 OK\r\nWebHook-Allowed-Origin: *\r\nWebHook-Allowed-Rate: 120\r\ncontent-length: 0\r\n\r\n",
            "200",
        ),
        (
            b"HTTP/1.1 405 No\r\nWebHook-Allowed-Origin: *\r\nwebhook-allowed-rate: 120\r\ncontent-length: 2\r\n\r\nno",
            "HTTP_405",
        ),
        // The head counts, although the body never ends.
        (
            b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\nwebhook-allowed-rate: 120\r\ncontent-length: 9\r\n\r\n",
            "200",
        ),
        (
            b"HTTP/1.1 103 Early\r\nwebhook-allowed-rate: 7\r\n\r\nHTTP/1.1 204 No\r\nwebhook-allowed-origin: *\r\n\
              webhook-allowed-rate: 120\r\n\r\n",
            "204",
        ),
    ];
    for (answer, expected) in answers {
        let receiver = answering(answer).await;
        let exchange = send(&receiver, OutgoingRequest::options(HeaderMap::new(), PATIENT)).await;
        assert_eq!(code(&exchange), expected);
        let found = [ALLOWED_ORIGIN, ALLOWED_RATE].map(|name| exchange.header(&name).cloned());
        assert_eq!(found, ["*", "120"].map(|text| Some(HeaderValue::from_static(text))), "{expected}");
        assert!(exchange.body.is_empty());

        let post = OutgoingRequest::post(HeaderMap::new(), "{}".into(), ReadUpTo::Status, PATIENT);
        assert_eq!(send(&receiver, post).await.header(&ALLOWED_ORIGIN), None, "not requested");
    }
    // A head that does not end has a status, but no headers.
    let receiver = answering(b"HTTP/1.1 200 OK\r\nwebhook-allowed-origin: *\r\n").await;
    let exchange = send(&receiver, OutgoingRequest::options(HeaderMap::new(), SHORT)).await;
    assert_eq!(exchange.header(&ALLOWED_ORIGIN), None);
    assert!(exchange.duration >= SHORT - Duration::from_millis(1));
}
