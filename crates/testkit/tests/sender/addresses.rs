//! Tests name resolution, address checks, and connections that cannot be established.

use std::io;
use std::net::Ipv4Addr;

use posthaste_services::egress::EgressPolicy;
use posthaste_services::sender::{KeepAlive, ReadUpTo, Resolve, Resolving, Sender, SystemResolver, Trust};
use posthaste_testkit::receiver::{Receiver, closed_port, read_request};
use tokio::io::AsyncWriteExt as _;

use crate::senders::{OK, SHORT, Scripted, answering, code, deliver, policy, send, sender, sender_with};

const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Returns a sender with scripted name resolution. The only non-public address that it allows is 127.0.0.1.
fn narrow(resolver: Scripted) -> Sender {
    let allow_cidrs = vec!["127.0.0.1/32".parse().expect("a network")];
    let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
    Sender::with_resolver(policy, Trust::nobody(), KeepAlive::default(), resolver).expect("a sender")
}

#[tokio::test]
async fn every_resolved_address_is_checked() {
    let rows: &[(&[&[&str]], &[&str])] = &[
        (&[&["127.0.0.1"]], &["200", "200"]),
        (&[&["127.0.0.1"], &["127.0.0.2"]], &["200", "BLOCKED_ADDRESS"]),
        (&[&["127.0.0.1"], &["10.0.0.1"], &["127.0.0.1"]], &["200", "BLOCKED_ADDRESS", "200"]),
        (&[&["127.0.0.1", "10.0.0.1"]], &["BLOCKED_ADDRESS"]),
        (&[&["8.8.8.8", "169.254.169.254"]], &["BLOCKED_ADDRESS"]),
        (&[&["8.8.8.8", "::ffff:127.0.0.2"]], &["BLOCKED_ADDRESS"]),
        (&[&["fd00:ec2::254"]], &["BLOCKED_ADDRESS"]),
        (&[&[], &["127.0.0.1"]], &["DNS_FAILED", "200"]),
    ];
    for (answers, codes) in rows {
        let receiver = answering(CLOSING).await;
        let resolver = Scripted::new(answers);
        let sender = narrow(resolver.clone());
        let url = format!("http://receiver.example:{}/", receiver.address().port());
        for expected in *codes {
            let exchange = deliver(&sender, &url).await;
            assert_eq!(code(&exchange), *expected, "{answers:?}");
            assert_eq!(exchange.bytes_written, *expected == "200", "{answers:?}");
        }
        let reached = codes.iter().filter(|code| **code == "200").count();
        assert_eq!(receiver.accepted(), reached, "{answers:?}");
        // Each request resolves the name once: there is no second lookup between the check and the connection.
        let asked = resolver.asked.lock().expect("the list");
        assert_eq!(*asked, vec!["receiver.example"; codes.len()], "{answers:?}");
    }
}

#[tokio::test]
async fn the_checked_address_is_the_one_connected_to() {
    let there = Receiver::raw_at(Ipv4Addr::new(127, 0, 0, 9).into(), |mut stream| async move {
        read_request(&mut stream).await?;
        stream.write_all(OK).await
    })
    .await;
    let sender = sender_with(Scripted::new(&[&["127.0.0.9"]]), Trust::nobody());
    let url = format!("http://receiver.example:{}/", there.address().port());
    assert_eq!(code(&deliver(&sender, &url).await), "200");
    assert_eq!(there.accepted(), 1);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let receiver = answering(OK).await;
    let url = format!("http://receiver.example:{}/", receiver.address().port());
    let rows: &[(&[&str], &str)] = &[
        (&["127.0.0.2", "127.0.0.3", "127.0.0.1"], "200"),
        (&["127.0.0.2", "127.0.0.3"], "CONNECT_FAILED"),
        // All five addresses are checked, but only four are tried.
        (&["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.1"], "CONNECT_FAILED"),
    ];
    for (addresses, expected) in rows {
        let exchange = deliver(&sender_with(Scripted::new(&[addresses]), Trust::nobody()), &url).await;
        assert_eq!(code(&exchange), *expected, "{addresses:?}");
        assert_eq!(exchange.bytes_written, *expected == "200");
    }
}

#[tokio::test]
async fn a_closed_port_fails_to_connect() {
    let exchange = deliver(&sender(), &closed_port("/").await).await;
    assert_eq!((code(&exchange).as_str(), exchange.bytes_written), ("CONNECT_FAILED", false));
}

/// A resolver that never responds.
struct Silent;

impl Resolve for Silent {
    fn resolve<'a>(&'a self, _name: &'a str) -> Resolving<'a> {
        Box::pin(std::future::pending::<io::Result<_>>())
    }
}

#[tokio::test]
async fn an_unanswered_lookup_ends_at_the_deadline() {
    let sender = sender_with(Silent, Trust::nobody());
    let exchange = send(&sender, "http://receiver.example/", ReadUpTo::Status, SHORT).await;
    assert_eq!((code(&exchange).as_str(), exchange.bytes_written), ("TIMEOUT", false));
}

#[tokio::test]
async fn requests_that_the_policy_refuses_are_not_sent() {
    let receiver = answering(OK).await;
    let strict = Sender::new(EgressPolicy::default(), Trust::nobody(), KeepAlive::default());
    let strict = strict.expect("a sender");
    let port = receiver.address().port();
    let rows = [
        (format!("http://127.0.0.1:{port}/"), "URL_INVALID"),
        (format!("https://127.0.0.1:{port}/"), "BLOCKED_ADDRESS"),
        (format!("https://localhost:{port}/"), "BLOCKED_ADDRESS"),
        ("not a URL".to_owned(), "URL_INVALID"),
    ];
    for (url, expected) in rows {
        let exchange = deliver(&strict, &url).await;
        assert_eq!((code(&exchange).as_str(), exchange.bytes_written), (expected, false), "{url}");
    }
    assert_eq!(receiver.accepted(), 0);
    let local = Sender::with_resolver(policy(), Trust::nobody(), KeepAlive::default(), SystemResolver);
    let exchange = deliver(&local.expect("a sender"), &receiver.url("/hook")).await;
    assert_eq!(code(&exchange), "200");
}
