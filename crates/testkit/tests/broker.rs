//! The broker of the tests over its socket, as our own sender meets it.
#![allow(clippy::expect_used)]

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::sender::{Exchange, KeepAlive, Post, Sender, Trust, Wanted};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::fixtures::order;
use std::time::Duration;

async fn send(sender: &Sender, url: &str, key: &str) -> Exchange {
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_str(&format!("\"{key}\"")).expect("a header"));
    let body = Bytes::from(order(key, 1).canonical);
    let (answer, deadline) = (Wanted::Body { bytes_max: 10_000 }, Duration::from_secs(30));
    sender.send_to_url(url, Post { headers, body, answer, deadline }, Timestamp::from_micros(0)).await
}

#[tokio::test]
async fn it_crashes_and_comes_back_with_its_books() {
    let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
    let policy = EgressPolicy { allow_http: true, allow_cidrs };
    let sender = Sender::new(policy, Trust::system(), KeepAlive::default()).expect("a sender");
    let broker = TestBroker::start(Behaviour::Well).await;
    let url = broker.url();
    let first = send(&sender, &url, "a").await;
    assert_eq!((first.status(), broker.executions()), (Some(200), 1));
    broker.crash();
    // Its socket closes a moment later; whoever comes before finds it silent or well.
    while send(&sender, &url, "a").await.status().is_some() {}
    broker.come_back().await;
    let again = send(&sender, &url, "a").await;
    assert_eq!((again.status(), broker.executions()), (Some(200), 1));
    assert_eq!(again.body, first.body, "a repetition gets the first answer");
    broker.set_trusting(false);
    assert_eq!(send(&sender, &url, "b").await.status(), Some(401));
    broker.set_trusting(true);
    assert_eq!(send(&sender, &url, "b").await.status(), Some(200));
    let books = broker.books();
    let executed: Vec<&str> = books.executed.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(executed, ["a", "b"]);
    assert!(books.sent.iter().all(|sent| sent.key == sent.body_key), "{books:?}");
}
