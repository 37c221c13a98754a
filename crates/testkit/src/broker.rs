//! A test broker on a real socket. It executes each idempotency key at most once, whatever response it sends;
//! misbehaviour is drawn from a seed. [`accounts`] records the received requests and executed orders.

pub mod accounts;
pub mod behaviour;

use crate::receiver::{Answer, Received, Receiver};
use accounts::{Accounts, Books, Reply, Request};
use behaviour::{Behaviour, Misbehaviour};
use posthaste_core::order::IdempotencyKey;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A test broker, which listens until it is dropped.
pub struct TestBroker {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The listening server, or `None` while the broker is down.
    receiver: Mutex<Option<Receiver>>,
}

impl fmt::Debug for TestBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestBroker").field(&self.address).finish()
    }
}

/// The state that survives a crash of the broker.
struct Shared {
    behaviour: Behaviour,
    accounts: Mutex<Accounts>,
}

impl TestBroker {
    pub async fn start(behaviour: Behaviour) -> Self {
        let shared = Arc::new(Shared { behaviour, accounts: Mutex::default() });
        let attending = Arc::clone(&shared);
        let receiver = Receiver::start_unlogged(move |received| attending.attend(received)).await;
        Self { address: receiver.address(), shared, receiver: Mutex::new(Some(receiver)) }
    }

    /// Returns the URL that orders are posted to.
    pub fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    /// Closes the listener and all connections, but keeps the records.
    pub fn crash(&self) {
        drop(self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Listens again on the same address.
    pub async fn come_back(&self) {
        let shared = Arc::clone(&self.shared);
        let receiver = Receiver::start_at(self.address, move |received| shared.attend(received)).await;
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
    }

    /// Sets whether the broker accepts the credentials.
    pub fn set_trusting(&self, trusting: bool) {
        self.shared.accounts().set_trusting(trusting);
    }

    /// Makes the broker refuse the credentials after `executions` executed orders.
    pub fn revoke_after(&self, executions: usize) {
        self.shared.accounts().revoke_after(executions);
    }

    /// Returns all requests and executions so far.
    pub fn books(&self) -> Books {
        self.shared.accounts().books()
    }

    pub fn executions(&self) -> usize {
        self.shared.accounts().executions()
    }
}

impl Shared {
    fn accounts(&self) -> std::sync::MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attend(&self, received: &Received) -> Answer {
        let header = received.headers.get("idempotency-key").map(http::HeaderValue::as_bytes);
        let key = header.and_then(|header| IdempotencyKey::from_header(header).ok());
        let key = key.map(|key| key.as_str().to_owned());
        let mut accounts = self.accounts();
        let number = accounts.sends_of(key.as_deref());
        let turn = self.behaviour.turn(key.as_deref().unwrap_or_default(), number);
        let at_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as i64);
        let reply = accounts.attend(Request { key, body: &received.body, at_us }, turn);
        drop(accounts);
        match (reply, turn) {
            (Reply::Silence, Misbehaviour::Stall { .. }) => Answer::Hang,
            (Reply::Silence, _) => Answer::Reset,
            (Reply::Answer { status, headers, body }, Misbehaviour::Late(delay)) => {
                Answer::With { status, headers, body }.after(delay)
            }
            (Reply::Answer { status, headers, body }, _) => Answer::With { status, headers, body },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::order;
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue};
    use posthaste_core::Timestamp;
    use posthaste_services::egress::EgressPolicy;
    use posthaste_services::sender::{Exchange, KeepAlive, OutgoingRequest, ReadUpTo, Sender, Trust};
    use std::time::Duration;

    async fn send(sender: &Sender, url: &str, key: &str) -> Exchange {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_str(&format!("\"{key}\"")).expect("a header"));
        let body = Bytes::from(order(key, 1).canonical);
        let (answer, deadline) = (ReadUpTo::Body { bytes_max: 10_000 }, Duration::from_secs(30));
        let request = OutgoingRequest::post(headers, body, answer, deadline);
        sender.send_to_url(url, request, Timestamp::from_micros(0)).await
    }

    #[tokio::test]
    async fn records_survive_a_crash() {
        let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
        let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
        let sender = Sender::new(policy, Trust::system(), KeepAlive::default()).expect("a sender");
        let broker = TestBroker::start(Behaviour::Well).await;
        let url = broker.url();
        let first = send(&sender, &url, "a").await;
        assert_eq!((first.status(), broker.executions()), (Some(200), 1));
        broker.crash();
        // The socket closes asynchronously; until then, requests may still get a response.
        while send(&sender, &url, "a").await.status().is_some() {}
        broker.come_back().await;
        let again = send(&sender, &url, "a").await;
        assert_eq!((again.status(), broker.executions()), (Some(200), 1));
        assert_eq!(again.body, first.body, "a repeated request gets the first response");
        broker.set_trusting(false);
        assert_eq!(send(&sender, &url, "b").await.status(), Some(401));
        broker.set_trusting(true);
        assert_eq!(send(&sender, &url, "b").await.status(), Some(200));
        let books = broker.books();
        let executed: Vec<&str> = books.executed.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(executed, ["a", "b"]);
        assert!(books.sent.iter().all(|sent| sent.key == sent.body_key), "{books:?}");
    }
}
