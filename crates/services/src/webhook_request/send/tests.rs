//! Tests how access tokens are used: one is kept until a receiver refuses it, and waiting for one has a limit.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use posthaste_core::SecretRef;
use posthaste_core::attributes::Attributes;
use posthaste_core::envelope::Envelope;
use posthaste_core::event::EventType;
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::request::{AuthInput, Credentials, RequestHeaders};
use posthaste_core::signature::{Signatures, SigningSecret};
use posthaste_core::subscription::{SealedSecret, Secrets};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::egress::EgressPolicy;
use crate::seal::{PlainSecrets, SecretSealer};
use crate::sender::{KeepAlive, Trust};
use crate::webhook_request::RequestParts;

/// The age from which a refused token is replaced.
const OLD: Duration = Duration::from_secs(6);
const PATIENT: Duration = Duration::from_secs(60);

/// A server that records the head of each request. `answer` gets the number of the request, starting at one, and
/// returns the response, or `None` to hang.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: fn(usize) -> Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (address, heads) = (listener.local_addr().expect("an address"), Arc::default());
        let log = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Self::serve(stream, Arc::clone(&log), answer));
            }
        });
        Self { address, heads }
    }

    /// Reads one request and responds to it. Each request has its own connection.
    async fn serve(mut stream: TcpStream, log: Arc<Mutex<Vec<String>>>, answer: fn(usize) -> Option<String>) {
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains("\r\n\r\n") {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let number = {
            let mut heads = log.lock().expect("the log");
            heads.push(String::from_utf8_lossy(&read).to_ascii_lowercase());
            heads.len()
        };
        match answer(number) {
            Some(answer) => stream.write_all(answer.as_bytes()).await.expect("a response"),
            None => std::future::pending().await,
        }
        // The rest of the request is read, so that the connection is closed without a reset.
        stream.shutdown().await.expect("an end");
        while stream.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {}
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("the log").clone()
    }
}

fn response(status: u16, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"))
}

fn token(number: usize) -> Option<String> {
    response(200, &format!(r#"{{"access_token":"t{number}","token_type":"bearer","expires_in":3600}}"#))
}

fn sender() -> Sender {
    let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
    let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
    Sender::new(policy, Trust::nobody(), KeepAlive::default()).expect("a sender")
}

fn opened(sender: &Sender, token_url: &str) -> OpenedRequest {
    let auth = serde_json::json!({"oauth2_client_credentials": {
        "token_url": token_url, "client_id": "c", "client_secret": "s"
    }});
    let input = AuthInput::parse(&auth.to_string(), true).expect("auth");
    let (auth, secret) = input.merge(None, &Credentials::default()).expect("a secret");
    let credentials = Credentials { auth: Some(secret), ..Credentials::default() };
    let secrets = Secrets {
        secret_ref: SecretRef::from_bits(1),
        current: SealedSecret::new(SigningSecret::from_random([1; 32]).reveal()),
        previous: None,
        older: None,
        credentials: Some(SealedSecret::new(credentials.to_json())),
    };
    let parts = RequestParts {
        signatures: &Signatures::default(),
        headers: &RequestHeaders::default(),
        auth: Some(&auth),
        envelope: Envelope::Raw,
        secrets: &secrets,
    };
    let sealer = SecretSealer::new(None, PlainSecrets::Accepted);
    OpenedRequest::open(parts, &sealer, sender, Timestamp::from_micros(0)).expect("secrets")
}

async fn send(
    tokens: &TokenCache,
    opened: &OpenedRequest,
    sender: &Sender,
    url: &str,
    deadline: Duration,
) -> Exchange {
    let (names, clock) = (InstallationNames::default(), Clock::fixed(Timestamp::from_micros(0)));
    let (event_type, payload) = (EventType::from_store("a".to_owned()), Bytes::from_static(b"{}"));
    let message = WebhookMessage {
        message_id: "msg_1",
        event_type: &event_type,
        payload: &payload,
        attributes: &Attributes::default(),
        external_event_id: None,
        created_at: clock.now(),
        attempt: Some(1),
        traceparent: None,
        tracestate: None,
    };
    let to = sender.aim(url).expect("a destination");
    let sending = WebhookSender { sender, tokens, names: &names, clock: &clock };
    sending.send(opened, &to, &message, ReadUpTo::Status, deadline, clock.now()).await
}

#[tokio::test]
async fn token_is_replaced_after_a_receiver_refused_it() {
    let (endpoint, receiver) = (Server::start(token).await, Server::start(|_| response(401, "")).await);
    let sender = sender();
    let (tokens, opened) = (TokenCache::new(sender.clone()), opened(&sender, &endpoint.url()));
    for (number, is_old, expected) in [(1, false, "t1"), (2, false, "t1"), (3, true, "t1"), (4, false, "t2")]
    {
        if is_old {
            tokio::time::pause();
            tokio::time::advance(OLD).await;
            tokio::time::resume();
        }
        let exchange = send(&tokens, &opened, &sender, &receiver.url(), PATIENT).await;
        assert_eq!(exchange.status(), Some(401));
        let heads = receiver.heads();
        assert_eq!(heads.len(), number);
        let head = heads.last().expect("a request");
        assert!(head.contains(&format!("authorization: bearer {expected}\r\n")), "{number}: {head}");
    }
    assert_eq!(endpoint.heads().len(), 2);
}

#[tokio::test]
async fn wait_for_a_token_counts_against_the_deadline() {
    let (endpoint, receiver) = (Server::start(|_| None).await, Server::start(|_| response(200, "")).await);
    let sender = sender();
    let (tokens, opened) = (TokenCache::new(sender.clone()), opened(&sender, &endpoint.url()));
    let exchange = send(&tokens, &opened, &sender, &receiver.url(), Duration::from_millis(50)).await;
    assert_eq!(exchange.outcome, AttemptOutcome::failed(Failure::AuthFailed));
    assert!(exchange.duration >= Duration::from_millis(50), "{exchange:?}");
    assert_eq!(receiver.heads().len(), 0);
}
