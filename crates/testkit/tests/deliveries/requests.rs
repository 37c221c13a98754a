//! Tests the requests of subscriptions with an envelope, custom headers, other signature formats and authentication by
//! a header, from the stored subscription to the receiver.

use posthaste_core::SubscriptionId;
use posthaste_core::attributes::Attributes;
use posthaste_core::envelope::Envelope;
use posthaste_core::event::{ExternalEventId, NewEvent, TraceParent, TraceState};
use posthaste_core::ports::Stores;
use posthaste_core::request::{AuthInput, Credentials, RequestHeadersInput, StoredKey};
use posthaste_core::saga::SagaStatus;
use posthaste_core::signature::{Ed25519Key, Ed25519PublicKey, Signatures, verify, verify_ed25519};
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_services::webhook_request::InstallationNames;
use posthaste_testkit::fixtures::{T0, event, id_of, json};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use std::time::Duration;

const PAYLOAD: &str = "{\"b\": 1.0, \"a\": \"\\u00e9\"}";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Changes the requests of a subscription, and stores the credentials.
pub(crate) async fn configure<S: Stores>(
    rig: &mut Rig<S>,
    id: SubscriptionId,
    patch: SubscriptionPatch,
    credentials: &Credentials,
) {
    let (secret_ref, nonce) = (rig.secrets_of(id).await.secret_ref, rig.draw_nonce());
    let sealed = rig.sealer.seal_credentials(credentials, secret_ref, nonce);
    rig.patch(id, SubscriptionPatch { credentials: Some(Some(sealed)), ..patch }).await;
}

/// Sets the authentication of a subscription.
pub(crate) async fn authenticate<S: Stores>(rig: &mut Rig<S>, id: SubscriptionId, auth: &str) {
    let input = AuthInput::parse(auth, true).expect("auth");
    let (auth, secret) = input.merge(None, &Credentials::default()).expect("a secret");
    let patch = SubscriptionPatch { auth: Some(Some(auth)), ..SubscriptionPatch::default() };
    configure(rig, id, patch, &Credentials { auth: Some(secret), ..Credentials::default() }).await;
}

fn last(receiver: &Receiver) -> Received {
    receiver.received().pop().expect("a request")
}

/// An event as it is stored after it was received as a CloudEvent.
fn cloud_event() -> NewEvent {
    let attributes = Attributes::parse(
        r#"{"source":"/orders","subject":"7 é","time":"2026-01-31T12:00:00+01:00","n":7,"f":1.5}"#,
    );
    NewEvent {
        payload: json(PAYLOAD),
        external_event_id: Some(ExternalEventId::from_store("/orders\u{1f}o-7".to_owned())),
        attributes: attributes.expect("attributes"),
        traceparent: Some(TraceParent::parse(TRACE).expect("a trace")),
        tracestate: Some(TraceState::parse("vendor=1").expect("a state")),
        ..event("a")
    }
}

pub(crate) async fn each_envelope_has_its_body_and_headers<S: Stores>(h: Harness<S>) {
    let names = InstallationNames {
        cloudevents_source: "https://us.example/".to_owned(),
        webhook_origin: Some("us.example".to_owned()),
    };
    let mut rig = Rig::with(h, Setup { names, ..Setup::default() });
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let id = rig.subscribe("a", &receiver.url("/")).await;
    let structured = concat!(
        r#"{"specversion":"1.0","id":"o-7","source":"/orders","type":"a","time":"2026-01-31T12:00:00+01:00","#,
        r#""f":"1.5","n":7,"subject":"7 é","datacontenttype":"application/json","data":"#
    );
    let rows = [
        (Envelope::Raw, "application/json", PAYLOAD.to_owned()),
        (
            Envelope::Standard,
            "application/json",
            format!(r#"{{"type":"a","timestamp":"2026-01-31T12:00:00+01:00","data":{PAYLOAD}}}"#),
        ),
        (Envelope::CloudeventsBinary, "application/json", PAYLOAD.to_owned()),
        (Envelope::CloudeventsStructured, "application/cloudevents+json", format!("{structured}{PAYLOAD}}}")),
    ];
    for (number, (envelope, content_type, body)) in rows.into_iter().enumerate() {
        rig.patch(id, SubscriptionPatch { envelope: Some(envelope), ..SubscriptionPatch::default() }).await;
        let external = ExternalEventId::from_store(format!("/orders\u{1f}o-{}", 7 + number));
        let event = NewEvent { external_event_id: Some(external), ..cloud_event() };
        let event = id_of(rig.submit(event).await);
        rig.until_quiet().await;
        assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
        let request = last(&receiver);
        assert_eq!(request.body, body.replace("o-7", &format!("o-{}", 7 + number)), "{envelope:?}");
        let common = [
            ("content-type", content_type),
            ("traceparent", TRACE),
            ("tracestate", "vendor=1"),
            ("webhook-request-origin", "us.example"),
        ];
        for (name, expected) in common {
            assert_eq!(request.header(name), expected, "{envelope:?}, {name}");
        }
        let binary = [
            ("ce-specversion", "1.0"),
            ("ce-id", "o-9"),
            ("ce-source", "/orders"),
            ("ce-type", "a"),
            ("ce-subject", "7%20%C3%A9"),
            ("ce-n", "7"),
        ];
        for (name, expected) in binary {
            let expected = if envelope == Envelope::CloudeventsBinary { expected } else { "" };
            assert_eq!(request.header(name), expected, "{envelope:?}, {name}");
        }
        let (secret, timestamp_s) = (rig.secret_of(id).await, T0.micros() / 1_000_000);
        let (id, signature) = (request.webhook_id(), request.header("webhook-signature"));
        let verified = verify(&[&secret], id, timestamp_s, &request.body, signature, Duration::ZERO, T0);
        assert_eq!(verified, Ok(()), "{envelope:?}");
    }
    // An event that was not received as a CloudEvent has the message id and our source.
    let event = rig.publish("a").await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await.0, SagaStatus::Completed);
    let request = last(&receiver);
    let body: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
    let expected = [request.webhook_id(), "https://us.example/", &T0.to_string()];
    assert_eq!(["id", "source", "time"].map(|name| body[name].as_str().unwrap_or_default()), expected);
}

pub(crate) async fn custom_headers_are_sent_and_secret_ones_are_sealed<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, id) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let input = r#"{"X-Team": "billing", "X-Token": {"value": "hush-9f86", "secret": true}}"#;
    let input = RequestHeadersInput::parse(input).expect("headers");
    let (headers, secrets) = input.merge(&Credentials::default()).expect("values");
    let patch = SubscriptionPatch { headers: Some(headers), ..SubscriptionPatch::default() };
    configure(&mut rig, id, patch, &Credentials { headers: secrets, ..Credentials::default() }).await;
    rig.publish("a").await;
    rig.until_quiet().await;
    let request = last(&receiver);
    assert_eq!([request.header("x-team"), request.header("x-token")], ["billing", "hush-9f86"]);
    let row = rig.h.row("subscriptions", id.get()).await;
    assert!(!format!("{row:?}").contains("hush-9f86"), "{row:?}");
}

pub(crate) async fn requests_are_authenticated_by_a_header<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, id) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let rows = [
        (
            r#"{"basic":{"username":"user","password":"pass:word"}}"#,
            "authorization",
            "Basic dXNlcjpwYXNzOndvcmQ=",
        ),
        (r#"{"bearer":{"token":"t0ken"}}"#, "authorization", "Bearer t0ken"),
        (r#"{"api_key":{"header":"X-Api-Key","value":"k e y"}}"#, "x-api-key", "k e y"),
    ];
    for (auth, name, expected) in rows {
        authenticate(&mut rig, id, auth).await;
        let event = rig.publish("a").await;
        rig.until_quiet().await;
        assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
        assert_eq!(last(&receiver).header(name), expected);
    }
    // Without the secret, nothing is sent.
    let sent = receiver.received().len();
    rig.patch(id, SubscriptionPatch { credentials: Some(None), ..SubscriptionPatch::default() }).await;
    let event = rig.publish("a").await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "SECRET_UNREADABLE".into()));
    assert_eq!(receiver.received().len(), sent);
}

pub(crate) async fn all_signature_formats_are_sent<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, id) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let key = Ed25519Key::from_seed([5; 32]);
    let signatures = Signatures::parse(r#"["standard", "standard_ed25519", {"preset": "stripe"}]"#);
    let public_key = key.public_key();
    let patch = SubscriptionPatch {
        signatures: Some(signatures.expect("signatures")),
        public_key: Some(Some(public_key.clone())),
        ..SubscriptionPatch::default()
    };
    let signing_keys = vec![StoredKey { key: key.reveal(), expires_at: None }];
    configure(&mut rig, id, patch, &Credentials { signing_keys, ..Credentials::default() }).await;
    rig.publish("a").await;
    rig.until_quiet().await;
    let (request, secret, timestamp_s) = (last(&receiver), rig.secret_of(id).await, T0.micros() / 1_000_000);
    let (id, body, signature) = (request.webhook_id(), &request.body, request.header("webhook-signature"));
    assert_eq!(verify(&[&secret], id, timestamp_s, body, signature, Duration::ZERO, T0), Ok(()));
    let keys = [Ed25519PublicKey::parse(&public_key).expect("a key")];
    assert_eq!(verify_ed25519(&keys, id, timestamp_s, body, signature, Duration::ZERO, T0), Ok(()));
    assert!(request.header("stripe-signature").starts_with(&format!("t={timestamp_s},v1=")), "{request:?}");
}
