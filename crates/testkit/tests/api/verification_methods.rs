//! The methods of verification other than the challenge: the handshake of CloudEvents with a receiver on a real socket,
//! and the word of an administrator. Whatever the method, nothing is sent to a URL that is not verified.

use crate::server::{ORIGIN, Options, ROOT_KEY, TestApi};
use posthaste_api::VerificationOptions;
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{KeyRole, ReaderStore as _, Stores};
use posthaste_core::subscription::{VerificationMethod, VerificationRecord};
use posthaste_core::verification::VerificationMethods;
use posthaste_services::egress::EgressPolicy;
use posthaste_testkit::client::Call;
use posthaste_testkit::fixtures::{T0, at};
use posthaste_testkit::receiver::{Answer, Received, Receiver, closed_port};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

const METHODS: [&str; 3] = ["challenge", "cloudevents", "asserted"];

fn answer(status: u16, headers: &[(&str, &str)]) -> Answer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Answer::With { status, headers, body: Vec::new() }
}

/// Agrees to every method of verification, and accepts every other request.
fn agree(received: &Received) -> Answer {
    match (received.method.as_str(), received.header("posthaste-event-type")) {
        ("OPTIONS", _) => answer(405, &[("WebHook-Allowed-Origin", ORIGIN), ("WebHook-Allowed-Rate", "90")]),
        (_, "posthaste.verification") => Answer::to_challenge(received),
        (_, _) => Answer::Status(204),
    }
}

async fn subscribe<S: Stores>(api: &TestApi<S>, url: &str) -> String {
    let body = json!({ "event_type": "order.paid", "callback_url": url }).to_string();
    let made = api.post("/v1/subscriptions").json(body).expect(201).await;
    format!("/v1/subscriptions/{}", made["id"])
}

fn with_method(call: Call, method: &str) -> Call {
    call.json(json!({ "method": method }).to_string())
}

fn verify<S: Stores>(api: &TestApi<S>, subscription: &str, method: &str) -> Call {
    with_method(api.post(&format!("{subscription}/verify")), method)
}

fn id_of(subscription: &str) -> SubscriptionId {
    let (_, id) = subscription.rsplit_once('/').expect("an id");
    SubscriptionId::from_store(id.parse().expect("a number"))
}

/// Returns whether a subscription is verified, and the record of its verification.
async fn record<S: Stores>(api: &TestApi<S>, subscription: &str) -> (bool, Option<VerificationRecord>) {
    let found = api.h.store.reader().subscription(id_of(subscription)).await.expect("a result");
    let found = found.expect("a subscription");
    (found.verified, found.verification)
}

pub(crate) async fn each_method_verifies_and_is_recorded<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(agree).await;
    let admin = api.key(KeyRole::Admin).await;
    for (place, (method, requests, allowed_per_minute)) in
        [("challenge", 1, None), ("cloudevents", 1, Some(90)), ("asserted", 0, None)].into_iter().enumerate()
    {
        let before = receiver.received().len();
        let subscription = subscribe(api, &receiver.url("/hook?a=1")).await;
        assert_eq!(record(api, &subscription).await, (false, None));
        api.clock.set(at(place as u64 + 1));
        let outcome = verify(api, &subscription, method).key(&admin).expect(200).await;
        assert_eq!((&outcome["verified"], &outcome["method"]), (&true.into(), &method.into()), "{outcome}");
        let per_second = allowed_per_minute.map_or(Value::Null, |rate| (f64::from(rate) / 60.0).into());
        assert_eq!(outcome["allowed_per_second"], per_second, "{outcome}");
        assert_eq!((&outcome["error_code"], &outcome["reason"]), (&Value::Null, &Value::Null), "{outcome}");
        let received = receiver.received();
        assert_eq!(received.len() - before, requests, "{method}: {received:?}");
        let expected = VerificationRecord {
            method: VerificationMethod::parse(method).expect("a method"),
            verified_at: at(place as u64 + 1),
            verified_by: Some("test".to_owned()),
            allowed_per_minute,
        };
        assert_eq!(record(api, &subscription).await, (true, Some(expected)));
        let audit = api.get("/v1/audit?action=subscription_verified&limit=1").expect(200).await;
        let entry = &audit["items"][0];
        assert_eq!(
            (&entry["key_name"], &entry["after"]["method"]),
            (&"test".into(), &method.into()),
            "{entry}"
        );
        let status = if method == "asserted" { Value::Null } else { received[before].status_of(method) };
        assert_eq!(outcome["response_status"], status);
    }
    api.clock.set(T0);
}

trait StatusOf {
    fn status_of(&self, method: &str) -> Value;
}

impl StatusOf for Received {
    /// Checks that the request is one of `method`, and returns the status of the response of [`agree`].
    fn status_of(&self, method: &str) -> Value {
        if method == "challenge" {
            assert_eq!(self.method, "POST");
            return 200.into();
        }
        assert_eq!((self.method.as_str(), self.path.as_str()), ("OPTIONS", "/hook?a=1"));
        assert_eq!(self.header("webhook-request-origin"), ORIGIN);
        assert_eq!(self.header("webhook-request-rate"), "600000");
        assert!(self.header("user-agent").starts_with("posthaste/"));
        for absent in ["webhook-request-callback", "webhook-signature", "authorization", "content-type"] {
            assert!(!self.headers.contains_key(absent), "{absent}");
        }
        assert!(self.body.is_empty());
        405.into()
    }
}

/// The paths of a receiver, the status and the headers of their responses, and the expected result: the allowed rate
/// per minute, or the reason why the URL is not verified.
type Handshake =
    (&'static str, u16, &'static [(&'static str, &'static str)], Result<Option<u32>, &'static str>);

const ALLOWED_ORIGIN: &str = "WebHook-Allowed-Origin";
const ALLOWED_RATE: &str = "WebHook-Allowed-Rate";

const HANDSHAKES: &[Handshake] = &[
    ("/agrees", 200, &[(ALLOWED_ORIGIN, ORIGIN), (ALLOWED_RATE, "120")], Ok(Some(120))),
    ("/other-case", 200, &[("webhook-allowed-origin", "EVENTS.Example.com"), (ALLOWED_RATE, "*")], Ok(None)),
    ("/any-origin", 204, &[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "1")], Ok(Some(1))),
    ("/no-rate", 200, &[(ALLOWED_ORIGIN, ORIGIN)], Ok(None)),
    ("/not-found", 404, &[(ALLOWED_ORIGIN, ORIGIN)], Ok(None)),
    ("/broken", 500, &[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "60")], Ok(Some(60))),
    ("/high-rate", 200, &[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "99999999999")], Ok(Some(2_147_483_647))),
    ("/silent", 200, &[], Err("has no header WebHook-Allowed-Origin")),
    ("/cors", 200, &[("Access-Control-Allow-Origin", "*"), ("Allow", "POST")], Err("has no header")),
    ("/request-origin", 200, &[("WebHook-Request-Origin", ORIGIN)], Err("has no header")),
    ("/rate-only", 200, &[(ALLOWED_RATE, "10")], Err("has no header")),
    ("/other-origin", 200, &[(ALLOWED_ORIGIN, "example.com")], Err("got \"example.com\"")),
    ("/suffix", 200, &[(ALLOWED_ORIGIN, "a.events.example.com")], Err("got \"a.events.example.com\"")),
    ("/url", 200, &[(ALLOWED_ORIGIN, "https://events.example.com")], Err("must be events.example.com or *")),
    ("/empty", 200, &[(ALLOWED_ORIGIN, "")], Err("got \"\"")),
    ("/list", 200, &[(ALLOWED_ORIGIN, "events.example.com, b.example")], Err("must have one value")),
    ("/twice", 200, &[(ALLOWED_ORIGIN, ORIGIN), (ALLOWED_ORIGIN, ORIGIN)], Err("must have one value")),
    ("/both", 200, &[(ALLOWED_ORIGIN, "b.example"), (ALLOWED_ORIGIN, "*")], Err("must have one value")),
    ("/zero", 200, &[(ALLOWED_ORIGIN, ORIGIN), (ALLOWED_RATE, "0")], Err("got \"0\"")),
    ("/negative", 200, &[(ALLOWED_ORIGIN, ORIGIN), (ALLOWED_RATE, "-5")], Err("got \"-5\"")),
    ("/text", 200, &[(ALLOWED_ORIGIN, ORIGIN), (ALLOWED_RATE, "many")], Err("got \"many\"")),
    ("/fraction", 200, &[(ALLOWED_ORIGIN, ORIGIN), (ALLOWED_RATE, "1.5")], Err("got \"1.5\"")),
    ("/rates", 200, &[(ALLOWED_ORIGIN, "*"), (ALLOWED_RATE, "1"), (ALLOWED_RATE, "2")], Err("got \"1, 2\"")),
];

pub(crate) async fn a_handshake_needs_the_origin_and_a_valid_rate<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(|received| {
        let row = HANDSHAKES.iter().find(|(path, ..)| *path == received.path);
        match row {
            Some((_, status, headers, _)) => answer(*status, headers),
            None if received.path == "/resets" => Answer::Reset,
            None => Answer::Hang,
        }
    })
    .await;
    for (path, status, _, expected) in HANDSHAKES {
        let subscription = subscribe(api, &receiver.url(path)).await;
        let outcome = verify(api, &subscription, "cloudevents").expect(200).await;
        assert_eq!(outcome["verified"], expected.is_ok(), "{path}: {outcome}");
        assert_eq!(outcome["response_status"], *status, "{path}");
        assert_eq!(outcome["error_code"], Value::Null, "{path}: the status does not count");
        let reason = outcome["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(expected.err().unwrap_or_default()), "{path}: {reason}");
        assert_eq!(reason.is_empty(), expected.is_ok(), "{path}: {reason}");
        let (is_verified, record) = record(api, &subscription).await;
        assert_eq!(is_verified, expected.is_ok(), "{path}");
        assert_eq!(
            record.and_then(|record| record.allowed_per_minute),
            expected.unwrap_or_default(),
            "{path}"
        );
    }
    let closed = closed_port("/").await;
    for (url, code, expected) in [
        (receiver.url("/resets"), "CONNECT_FAILED", "closed before the response"),
        (receiver.url("/hangs"), "TIMEOUT", "in time"),
        (closed, "CONNECT_FAILED", "the connection failed"),
    ] {
        let subscription = subscribe(api, &url).await;
        let outcome = verify(api, &subscription, "cloudevents").expect(200).await;
        assert_eq!(
            (&outcome["verified"], &outcome["error_code"]),
            (&false.into(), &code.into()),
            "{outcome}"
        );
        assert_eq!(outcome["response_status"], Value::Null);
        assert!(outcome["reason"].as_str().is_some_and(|reason| reason.contains(expected)), "{outcome}");
        assert_eq!(record(api, &subscription).await, (false, None));
    }
}

fn options(methods: &str, origin: Option<&str>) -> Options {
    let methods = VerificationMethods::parse(methods).expect("methods");
    let verification = VerificationOptions { methods, origin: origin.map(str::to_owned) };
    Options { verification, ..Options::default() }
}

pub(crate) async fn the_address_policy_applies_to_the_handshake<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(agree).await;
    let subscription = subscribe(api, &receiver.url("/hook")).await;
    let policy = EgressPolicy { allow_http: true, ..EgressPolicy::default() };
    let strict = api.another_with(Options { policy, ..Options::default() }).await;
    let call = Call::new(strict.address, "POST", &format!("{subscription}/verify"), ROOT_KEY);
    let outcome = with_method(call, "cloudevents").expect(200).await;
    assert_eq!((&outcome["verified"], &outcome["error_code"]), (&false.into(), &"BLOCKED_ADDRESS".into()));
    assert_eq!(receiver.accepted(), 0);
    assert_eq!(record(api, &subscription).await, (false, None));
}

pub(crate) async fn a_method_must_be_allowed<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(agree).await;
    let subscription = subscribe(api, &receiver.url("/hook")).await;
    let path = format!("{subscription}/verify");
    for (body, field) in [
        (r#"{"method":"dns"}"#, "method"),
        (r#"{"method":7}"#, "method"),
        (r#"{"method":""}"#, "method"),
        (r#"{"way":"asserted"}"#, "way"),
        ("[]", "body"),
    ] {
        api.post(&path).json(body).refused(422, field).await;
    }
    for (listed, origin, refused) in [
        ("challenge", Some(ORIGIN), &["cloudevents", "asserted"][..]),
        ("challenge,cloudevents", Some(ORIGIN), &["asserted"]),
        ("asserted,cloudevents", Some(ORIGIN), &["challenge"]),
    ] {
        let server = api.another_with(options(listed, origin)).await;
        for method in refused {
            let call = Call::new(server.address, "POST", &path, ROOT_KEY);
            let problem = with_method(call, method).refused(422, "method").await;
            let detail = problem["detail"].as_str().expect("a detail");
            let allowed = listed.replace(',', ", ");
            assert!(
                detail.contains("POSTHASTE_VERIFICATION_METHODS") && detail.contains(&allowed),
                "{detail}"
            );
        }
        let system = Call::new(server.address, "GET", "/v1/system", ROOT_KEY).expect(200).await;
        assert_eq!(system["verification_methods"], json!(listed.split(',').collect::<Vec<_>>()));
    }
    let unnamed = api.another_with(options("challenge,cloudevents", None)).await;
    let call = Call::new(unnamed.address, "POST", &path, ROOT_KEY);
    let problem = with_method(call, "cloudevents").refused(422, "method").await;
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("POSTHASTE_WEBHOOK_ORIGIN")));
    assert_eq!((receiver.accepted(), record(api, &subscription).await), (0, (false, None)));
    for role in [KeyRole::Viewer, KeyRole::Operator, KeyRole::Ingest] {
        let key = api.key(role).await;
        for method in METHODS {
            verify(api, &subscription, method).key(&key).refused(403, "").await;
        }
    }
    assert_eq!((receiver.accepted(), record(api, &subscription).await), (0, (false, None)));
    // Without a method, the default of the server is used.
    for (listed, used) in [
        ("asserted,challenge", "challenge"),
        ("cloudevents,asserted", "cloudevents"),
        ("asserted", "asserted"),
    ] {
        let server = api.another_with(options(listed, Some(ORIGIN))).await;
        for body in ["", "{}", r#"{"method":null}"#] {
            let call = Call::new(server.address, "POST", &path, ROOT_KEY);
            let call = if body.is_empty() { call } else { call.json(body) };
            assert_eq!(call.expect(200).await["method"], used, "{listed} {body}");
        }
    }
}

/// The new URL is not verified by the consent of the old one. The secret is not part of the handshake.
pub(crate) async fn a_change_during_the_handshake_does_not_verify_the_new_url<S: Stores>(api: &TestApi<S>) {
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let receiver =
        Receiver::start(move |received| Answer::Gate(Arc::clone(&shut), Box::new(agree(received)))).await;
    for (count, change) in [(1, "PATCH"), (2, "rotate"), (3, "DELETE")] {
        let subscription = subscribe(api, &receiver.url("/hook")).await;
        let verifying = tokio::spawn(verify(api, &subscription, "cloudevents").expect(200));
        receiver.wait_for(count).await;
        let (status, call) = match change {
            "PATCH" => {
                let body = json!({ "callback_url": receiver.url("/other") }).to_string();
                (200, api.call("PATCH", &subscription).json(body))
            }
            "rotate" => (200, api.post(&format!("{subscription}/rotate-secret"))),
            _ => (204, api.call("DELETE", &subscription)),
        };
        call.expect(status).await;
        gate.add_permits(1);
        let outcome = verifying.await.expect("a response");
        let (reason, is_verified) = (outcome["reason"].as_str(), change == "rotate");
        assert_eq!(outcome["verified"], is_verified, "{change}: {outcome}");
        assert_eq!(reason.is_none(), is_verified, "{change}: {outcome}");
        assert!(
            reason.is_none_or(|why| why.contains("changed during the verification")),
            "{change}: {outcome}"
        );
        let (found, record) = record(api, &subscription).await;
        assert_eq!((found, record.is_some()), (is_verified, is_verified), "{change}");
    }
}

pub(crate) async fn nothing_is_sent_to_an_unverified_url<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(agree).await;
    for method in METHODS {
        let subscription = subscribe(api, &receiver.url("/hook")).await;
        let id = id_of(&subscription);
        let deliveries = format!("SELECT count(*) FROM webhook_delivery_sagas WHERE subscription_id = {id}");
        let publish_and_count = async || {
            api.h.publish("order.paid", 1).await;
            api.h.route_all(at(10)).await;
            api.h.direct.number(&deliveries).await
        };
        let before = receiver.received().len();
        assert_eq!(publish_and_count().await, 0, "{method}: an unverified subscription gets no deliveries");
        api.post(&format!("{subscription}/test")).refused(409, "").await;
        assert_eq!(receiver.received().len(), before, "{method}");
        assert_eq!(verify(api, &subscription, method).expect(200).await["verified"], true);
        assert_eq!(publish_and_count().await, 1, "{method}");
        let verified = receiver.received().len();
        // A new URL is unverified, whatever the method: there are no new deliveries, and the existing one is held.
        let body = json!({ "callback_url": receiver.url("/other") }).to_string();
        let changed = api.call("PATCH", &subscription).json(body).expect(200).await;
        assert_eq!(changed["verified"], false, "{method}");
        assert_eq!(record(api, &subscription).await, (false, None), "{method}");
        assert_eq!(publish_and_count().await, 1, "{method}");
        let (jobs, _) = api.h.start_attempts(id, at(20)).await;
        assert!(jobs.is_empty(), "{method}: {jobs:?}");
        api.post(&format!("{subscription}/test")).refused(409, "").await;
        // The same URL again is not verified either.
        let body = json!({ "callback_url": receiver.url("/hook") }).to_string();
        let back = api.call("PATCH", &subscription).json(body).expect(200).await;
        assert_eq!(back["verified"], false, "{method}");
        assert_eq!(receiver.received().len(), verified, "{method}");
        api.call("DELETE", &subscription).expect(204).await;
    }
}
