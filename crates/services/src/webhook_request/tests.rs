//! Tests of built requests: headers, envelopes, signatures, authentication, masks, and secrets that cannot be used.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use posthaste_core::attributes::Attributes;
use posthaste_core::envelope::Envelope;
use posthaste_core::event::{EventType, TraceParent, TraceState};
use posthaste_core::outcome::Failure;
use posthaste_core::request::{Auth, AuthInput, Credentials, RequestHeaders, RequestHeadersInput, StoredKey};
use posthaste_core::signature::{
    Ed25519Key, Ed25519PublicKey, Signatures, SigningSecret, verify, verify_ed25519,
};
use posthaste_core::subscription::{SealedSecret, Secrets};
use posthaste_core::{SecretRef, Timestamp};

use super::*;
use crate::egress::{EgressPolicy, OwnAddresses};
use crate::seal::{PlainSecrets, SecretSealer};
use crate::sender::{AGENT, KeepAlive, Sender, Trust};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_999_999);
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TOLERANCE: Duration = Duration::from_secs(300);

static SENDER: LazyLock<Sender> = LazyLock::new(|| {
    Sender::new(EgressPolicy::default(), Trust::nobody(), KeepAlive::default()).expect("a sender")
});

/// A subscription whose secrets are stored in plain text.
struct Example {
    signatures: Signatures,
    headers: RequestHeaders,
    auth: Option<Auth>,
    envelope: Envelope,
    secrets: Secrets,
    credentials: Credentials,
}

impl Default for Example {
    fn default() -> Self {
        let secrets = Secrets {
            secret_ref: SecretRef::from_bits(1),
            current: SealedSecret::new(SigningSecret::from_random([1; 32]).reveal()),
            previous: None,
            older: None,
            credentials: None,
        };
        Self {
            signatures: Signatures::default(),
            headers: RequestHeaders::default(),
            auth: None,
            envelope: Envelope::Raw,
            secrets,
            credentials: Credentials::default(),
        }
    }
}

impl Example {
    fn with_auth(json: &str) -> Self {
        let input = AuthInput::parse(json, true).expect("auth");
        let (auth, secret) = input.merge(None, &Credentials::default()).expect("a secret");
        let credentials = Credentials { auth: Some(secret), ..Credentials::default() };
        Self { auth: Some(auth), credentials, ..Self::default() }
    }

    fn with_headers(json: &str) -> Self {
        let input = RequestHeadersInput::parse(json).expect("headers");
        let (headers, secrets) = input.merge(&Credentials::default()).expect("values");
        let credentials = Credentials { headers: secrets, ..Credentials::default() };
        Self { headers, credentials, ..Self::default() }
    }

    fn open(&self, now: Timestamp) -> Result<OpenedRequest, OpenError> {
        let mut secrets = self.secrets.clone();
        if !self.credentials.is_empty() {
            secrets.credentials = Some(SealedSecret::new(self.credentials.to_json()));
        }
        let parts = RequestParts {
            signatures: &self.signatures,
            headers: &self.headers,
            auth: self.auth.as_ref(),
            envelope: self.envelope,
            secrets: &secrets,
        };
        OpenedRequest::open(parts, &SecretSealer::new(None, PlainSecrets::Accepted), &SENDER, now)
    }

    fn opened(&self) -> OpenedRequest {
        self.open(NOW).expect("secrets")
    }
}

/// Calls `with` with a message.
fn message<T>(with: impl FnOnce(WebhookMessage<'_>) -> T) -> T {
    let attributes = Attributes::parse(r#"{"source":"/orders","region":"eu west"}"#).expect("attributes");
    with(WebhookMessage {
        message_id: "msg_41_7",
        event_type: &EventType::parse("order.paid").expect("a type"),
        payload: &Bytes::from_static(br#"{"amount": 1.10}"#),
        attributes: &attributes,
        external_event_id: None,
        created_at: Timestamp::from_micros(1_600_000_000_000_000),
        attempt: Some(3),
        traceparent: Some(&TraceParent::parse(TRACE).expect("a trace")),
        tracestate: Some(&TraceState::parse("vendor=1").expect("a state")),
    })
}

fn build(opened: &OpenedRequest) -> BuiltRequest {
    let names = InstallationNames {
        webhook_origin: Some("events.example".to_owned()),
        ..InstallationNames::default()
    };
    message(|message| opened.build(&message, None, &names, NOW))
}

fn text<'a>(built: &'a BuiltRequest, name: &str) -> &'a str {
    built.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[test]
fn delivery_has_its_headers_and_every_live_secret_verifies_it() {
    let secret = |byte: u8| SigningSecret::from_random([byte; 32]);
    let mut example = Example::default();
    let replaced = |byte, until| Some((SealedSecret::new(secret(byte).reveal()), until));
    example.secrets.previous = replaced(2, NOW.after(TOLERANCE));
    example.secrets.older = replaced(3, NOW);
    let built = build(&example.opened());
    let rows = [
        ("webhook-id", "msg_41_7"),
        ("webhook-timestamp", "1700000000"),
        ("user-agent", AGENT),
        ("content-type", "application/json"),
        ("posthaste-event-type", "order.paid"),
        ("posthaste-attempt", "3"),
        ("traceparent", TRACE),
        ("tracestate", "vendor=1"),
        ("webhook-request-origin", "events.example"),
    ];
    for (name, expected) in rows {
        assert_eq!(text(&built, name), expected, "{name}");
    }
    assert_eq!(built.headers.len(), rows.len() + 1, "and the signature");
    assert_eq!(built.body, r#"{"amount": 1.10}"#);
    let signature = text(&built, "webhook-signature");
    for (byte, is_live) in [(1, true), (2, true), (3, false)] {
        let verified =
            verify(&[&secret(byte)], "msg_41_7", 1_700_000_000, &built.body, signature, TOLERANCE, NOW);
        assert_eq!(verified.is_ok(), is_live, "{byte}");
    }
}

#[test]
fn signatures_are_those_of_the_bytes_in_the_envelope() {
    let rows = [
        (Envelope::Raw, "application/json", r#"{"amount": 1.10}"#),
        (
            Envelope::Standard,
            "application/json",
            r#"{"type":"order.paid","timestamp":"2020-09-13T12:26:40.000000Z","data":{"amount": 1.10}}"#,
        ),
        (Envelope::CloudeventsBinary, "application/json", r#"{"amount": 1.10}"#),
        (
            Envelope::CloudeventsStructured,
            "application/cloudevents+json",
            concat!(
                r#"{"specversion":"1.0","id":"msg_41_7","source":"/orders","type":"order.paid","#,
                r#""time":"2020-09-13T12:26:40.000000Z","region":"eu west","datacontenttype":"application/json","#,
                r#""data":{"amount": 1.10}}"#
            ),
        ),
    ];
    for (envelope, content_type, body) in rows {
        let built = build(&Example { envelope, ..Example::default() }.opened());
        assert_eq!(built.body, body, "{envelope:?}");
        assert_eq!(text(&built, "content-type"), content_type, "{envelope:?}");
        let is_binary = envelope == Envelope::CloudeventsBinary;
        assert_eq!(text(&built, "ce-region"), if is_binary { "eu%20west" } else { "" }, "{envelope:?}");
        let (secret, signature) = (SigningSecret::from_random([1; 32]), text(&built, "webhook-signature"));
        let verified = verify(&[&secret], "msg_41_7", 1_700_000_000, &built.body, signature, TOLERANCE, NOW);
        assert_eq!(verified, Ok(()), "{envelope:?}");
        let raw = build(&Example { envelope, ..Example::default() }.opened().without_envelope());
        assert_eq!(raw.body, r#"{"amount": 1.10}"#);
    }
}

#[test]
fn ed25519_keys_sign_until_they_expire() {
    let [new, old] = [1, 2].map(|byte| Ed25519Key::from_seed([byte; 32]));
    let stored = |key: &Ed25519Key, expires_at| StoredKey { key: key.reveal(), expires_at };
    let signing_keys = vec![stored(&new, None), stored(&old, Some(NOW.after(TOLERANCE)))];
    let signatures = Signatures::parse(r#"["standard_ed25519"]"#).expect("signatures");
    let credentials = Credentials { signing_keys, ..Credentials::default() };
    let example = Example { signatures, credentials, ..Example::default() };
    let verifies = |built: &BuiltRequest, key: &Ed25519Key| {
        let key = Ed25519PublicKey::parse(&key.public_key()).expect("a key");
        let signature = text(built, "webhook-signature");
        verify_ed25519(&[key], "msg_41_7", 1_700_000_000, &built.body, signature, TOLERANCE, NOW).is_ok()
    };
    let built = build(&example.opened());
    assert!(verifies(&built, &new) && verifies(&built, &old));
    let later = build(&example.open(NOW.after(TOLERANCE)).expect("keys"));
    assert!(verifies(&later, &new) && !verifies(&later, &old));
    // The HMAC secret is not used, so it need not be readable.
    let mut unreadable = example;
    unreadable.secrets.current = SealedSecret::new("v2:0123456789abcdef:AAAA");
    assert!(verifies(&build(&unreadable.opened()), &new));
}

#[test]
fn secrets_are_sent_and_masked_in_the_preview() {
    let oauth2 = r#"{"oauth2_client_credentials":{"token_url":"https://t.example/","client_id":"c","client_secret":"hush"}}"#;
    let rows = [
        (Example::with_auth(r#"{"basic":{"username":"u","password":"hush"}}"#), "authorization", "Basic •••"),
        (Example::with_auth(r#"{"bearer":{"token":"hush"}}"#), "authorization", "Bearer •••"),
        (Example::with_auth(r#"{"api_key":{"header":"X-Api-Key","value":"hush"}}"#), "x-api-key", "•••"),
        (Example::with_auth(oauth2), "authorization", "Bearer •••"),
        (Example::with_headers(r#"{"X-Token":{"value":"hush","secret":true}}"#), "x-token", "•••"),
        (Example::with_headers(r#"{"X-Team":"billing"}"#), "x-team", "billing"),
    ];
    for (example, name, masked) in rows {
        let (opened, built) = (example.opened(), build(&example.opened()));
        let sent = match name {
            "authorization" if masked.starts_with("Basic") => "Basic dTpodXNo",
            "authorization" if matches!(example.auth, Some(Auth::Bearer)) => "Bearer hush",
            "authorization" => "",
            "x-team" => "billing",
            _ => "hush",
        };
        assert_eq!(text(&built, name), sent, "{name}");
        let to = EgressPolicy::default()
            .check_url("https://a.example:8443/hook", &OwnAddresses::default())
            .expect("a destination");
        let names = InstallationNames::default();
        let shown = message(|message| preview(&opened, &to, &message, &names, NOW));
        let values: Vec<_> = shown.headers.iter().filter(|(shown, _)| shown == name).collect();
        assert_eq!(values, [&(name.to_owned(), masked.to_owned())]);
        for expected in [("host", "a.example:8443"), ("content-length", "16"), ("webhook-id", "msg_41_7")] {
            let is_it = |(name, value): &(String, String)| (name.as_str(), value.as_str()) == expected;
            assert!(shown.headers.iter().any(is_it), "{expected:?} in {shown:?}");
        }
        for output in [format!("{shown:?}"), format!("{opened:?} {built:?}")] {
            assert!(!output.contains("hush") && !output.contains("dTpodXNo"), "{output}");
        }
    }
}

#[test]
fn secrets_that_cannot_be_used_have_their_own_error() {
    let changed = |change: fn(&mut Example)| {
        let mut example = Example::default();
        change(&mut example);
        example.open(NOW).expect_err("an error")
    };
    let ed25519 = |example: &mut Example| {
        example.signatures = Signatures::parse(r#"["standard", "standard_ed25519"]"#).expect("signatures");
    };
    let mut mtls =
        Example { auth: Some(Auth::Mtls { certificate: "no PEM".to_owned() }), ..Example::default() };
    mtls.credentials.auth = Some("no key".to_owned());
    let mut bad_key = Example::default();
    ed25519(&mut bad_key);
    bad_key.credentials.signing_keys = vec![StoredKey { key: "whsk_AAAA".to_owned(), expires_at: None }];
    let rows = [
        (
            changed(|example| example.secrets.current = SealedSecret::new("v2:0123456789abcdef:AAAA")),
            Failure::SecretUnreadable,
        ),
        (
            changed(|example| example.secrets.current = SealedSecret::new("plain:hush")),
            Failure::SecretUnreadable,
        ),
        (
            changed(|example| example.secrets.credentials = Some(SealedSecret::new("{no JSON"))),
            Failure::SecretUnreadable,
        ),
        (changed(|example| example.auth = Some(Auth::Bearer)), Failure::SecretUnreadable),
        (
            changed(|example| {
                example.headers = RequestHeaders::from_store(r#"{"X":{"secret":true}}"#).expect("headers");
            }),
            Failure::SecretUnreadable,
        ),
        (changed(ed25519), Failure::SecretUnreadable),
        (bad_key.open(NOW).expect_err("an error"), Failure::SecretUnreadable),
        (mtls.open(NOW).expect_err("an error"), Failure::CredentialsInvalid),
    ];
    for (error, failure) in &rows {
        assert_eq!(error.failure(), *failure, "{error}");
    }
    for (at, (error, _)) in rows.iter().enumerate() {
        assert!(rows.iter().skip(at + 1).all(|(other, _)| other != error), "{error}");
    }
}
