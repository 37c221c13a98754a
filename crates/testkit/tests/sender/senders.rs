//! The senders, receivers and requests shared by the tests.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use posthaste_core::Timestamp;
use posthaste_services::egress::{EgressPolicy, OwnAddresses};
use posthaste_services::sender::{
    Egress, EgressProxy, Exchange, HostAddresses, KeepAlive, OutgoingRequest, ReadUpTo, Resolve, Resolving,
    Sender, SystemResolver, Trust,
};
use posthaste_testkit::receiver::{Receiver, read_request};
use tokio::io::AsyncWriteExt as _;

/// A deadline that no healthy exchange reaches, even on a busy machine.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);
/// A deadline that is expected to expire.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Starts a receiver that responds to every request with the same bytes and keeps the connection open.
pub(crate) async fn answering(answer: &'static [u8]) -> Receiver {
    Receiver::raw(move |mut stream| async move {
        while read_request(&mut stream).await?.is_some() {
            stream.write_all(answer).await?;
        }
        Ok(())
    })
    .await
}

/// Returns an address policy that allows HTTP and loopback addresses.
pub(crate) fn policy() -> EgressPolicy {
    let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
    EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() }
}

/// Returns a sender that reuses the first connection to a host without delay, for tests that count connections.
pub(crate) fn sender() -> Sender {
    sender_with(SystemResolver, Trust::nobody())
}

pub(crate) fn sender_with(resolver: impl Resolve, trust: Trust) -> Sender {
    let keep_alive = KeepAlive { rest_at_new_hosts: false, ..KeepAlive::default() };
    Sender::with_resolver(policy(), trust, keep_alive, resolver).expect("a sender")
}

/// Returns a sender whose requests go through the proxy at `proxy_url`.
pub(crate) fn proxied(
    policy: EgressPolicy,
    own: OwnAddresses,
    resolver: impl Resolve,
    proxy_url: &str,
) -> Sender {
    let own_addresses = HostAddresses::new(move || Ok(own.clone()), Duration::ZERO);
    let proxy = Some(EgressProxy::parse(proxy_url).expect("a URL"));
    let egress = Egress { policy, own_addresses, proxy };
    let keep_alive = KeepAlive { rest_at_new_hosts: false, ..KeepAlive::default() };
    Sender::with_resolver(egress, Trust::nobody(), keep_alive, resolver).expect("a sender")
}

pub(crate) async fn send(sender: &Sender, url: &str, answer: ReadUpTo, deadline: Duration) -> Exchange {
    send_body(sender, url, Bytes::from_static(b"{}"), answer, deadline).await
}

pub(crate) async fn send_body(
    sender: &Sender,
    url: &str,
    body: Bytes,
    answer: ReadUpTo,
    deadline: Duration,
) -> Exchange {
    let request = OutgoingRequest::post(HeaderMap::new(), body, answer, deadline);
    sender.send_to_url(url, request, Timestamp::from_micros(0)).await
}

/// Sends a request as the worker does, reading only the status of the response.
pub(crate) async fn deliver(sender: &Sender, url: &str) -> Exchange {
    send(sender, url, ReadUpTo::Status, PATIENT).await
}

/// Returns the status code if the request was delivered, or the error code if it failed.
pub(crate) fn code(exchange: &Exchange) -> String {
    match exchange.outcome.code() {
        Some(code) => code.to_string(),
        None => format!("{}", exchange.status().expect("a status")),
    }
}

/// A resolver that returns scripted results in order and then repeats the last one.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    answers: Arc<Vec<Vec<IpAddr>>>,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Creates a resolver with the given results. An empty result means that the name does not exist.
    pub(crate) fn new(answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().expect("an address")).collect();
        Self { answers: Arc::new(answers.iter().map(parse).collect()), asked: Arc::default() }
    }
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let mut asked = self.asked.lock().expect("the list");
        let answer = self.answers[asked.len().min(self.answers.len() - 1)].clone();
        asked.push(name.to_owned());
        Box::pin(
            async move { if answer.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(answer) } },
        )
    }
}
