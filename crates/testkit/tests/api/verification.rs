//! Verification challenges and test events, with a receiver on a real socket.

use crate::server::TestApi;
use posthaste_core::ports::Stores;
use posthaste_core::signature::{SigningSecret, verify};
use posthaste_testkit::fixtures::T0;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

fn challenge(received: &Received) -> String {
    let body: Value = serde_json::from_slice(&received.body).expect("JSON");
    body["challenge"].as_str().unwrap_or_default().to_owned()
}

fn answer(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer::With { status, headers: Vec::new(), body: body.into() }
}

/// Returns a response that depends on the path of the request.
fn behave(received: &Received) -> Answer {
    let echo = challenge(received);
    let json = serde_json::json!({ "challenge": echo, "more": 1 }).to_string();
    match received.path.as_str() {
        "/json" => answer(200, json),
        "/bare" => answer(201, format!(" {echo}\n")),
        "/echo" => answer(200, received.body.to_vec()),
        "/null" => answer(200, format!(r#"{{"challenge":"{echo}","type":null}}"#)),
        "/list" => answer(200, format!(r#"{{"type":["a"],"challenge":"{echo}"}}"#)),
        "/object" => answer(200, format!(r#"{{"challenge":"{echo}","type":{{"type":null}}}}"#)),
        "/array" => answer(200, format!(r#"["{echo}"]"#)),
        "/echo-in-array" => answer(200, [b"[", &received.body[..], b"]"].concat()),
        "/nested" => answer(200, [br#"{"data":"#, &received.body[..], b"}"].concat()),
        "/repeated" => answer(200, format!(r#"{{"challenge":"{echo}","challenge":"{echo}"}}"#)),
        "/wrong" => answer(200, r#"{"challenge":"something else"}"#),
        "/empty" => Answer::Status(204),
        "/part" => answer(200, &echo[1..]),
        "/flood" => answer(200, format!("{echo}{}", " ".repeat(5_000))),
        "/refuses" => answer(500, json),
        "/redirects" => answer(302, json),
        "/resets" => Answer::Reset,
        _ => Answer::Hang,
    }
}

async fn subscribe<S: Stores>(api: &TestApi<S>, url: &str) -> (String, String) {
    let body = format!(r#"{{"event_type":"order.paid","callback_url":"{url}"}}"#);
    let made = api.post("/v1/subscriptions").json(body).expect(201).await;
    (format!("/v1/subscriptions/{}", made["id"]), made["secret"].as_str().expect("a secret").to_owned())
}

fn assert_signed(received: &Received, secrets: &[&str]) {
    for secret in secrets {
        let secret = SigningSecret::parse(secret).expect("a secret");
        let timestamp_s = received.header("webhook-timestamp").parse().expect("a time");
        let (id, signature) = (received.webhook_id(), received.header("webhook-signature"));
        let tolerance = Duration::from_secs(5);
        assert_eq!(verify(&[&secret], id, timestamp_s, &received.body, signature, tolerance, T0), Ok(()));
    }
    assert_eq!(received.header("webhook-signature").split(' ').count(), secrets.len());
}

pub(crate) async fn only_an_echo_verifies_and_failures_give_the_reason<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(behave).await;
    for (path, verified, status, code, reason) in [
        ("/json", true, Some(200), None, ""),
        ("/bare", true, Some(201), None, ""),
        ("/echo", false, Some(200), None, "repeats the whole request"),
        ("/null", false, Some(200), None, "repeats the whole request"),
        ("/list", false, Some(200), None, "repeats the whole request"),
        ("/object", false, Some(200), None, "repeats the whole request"),
        ("/array", false, Some(200), None, "does not contain the challenge"),
        ("/echo-in-array", false, Some(200), None, "does not contain the challenge"),
        ("/nested", false, Some(200), None, "does not contain the challenge"),
        ("/repeated", false, Some(200), None, "does not contain the challenge"),
        ("/wrong", false, Some(200), None, "does not contain the challenge"),
        ("/empty", false, Some(204), None, "does not contain the challenge"),
        ("/part", false, Some(200), None, "does not contain the challenge"),
        ("/flood", false, Some(200), None, "longer than"),
        ("/refuses", false, Some(500), Some("HTTP_500"), "returned status 500"),
        ("/redirects", false, Some(302), Some("HTTP_302"), "returned status 302"),
        ("/resets", false, None, Some("CONNECT_FAILED"), "closed before the response"),
        ("/hangs", false, None, Some("TIMEOUT"), "in time"),
    ] {
        let (subscription, secret) = subscribe(api, &receiver.url(path)).await;
        let outcome = api.post(&format!("{subscription}/verify")).expect(200).await;
        assert_eq!(outcome["verified"], verified, "{path}: {outcome}");
        assert_eq!(outcome["response_status"], status.map_or(Value::Null, Value::from), "{path}");
        assert_eq!(outcome["error_code"], code.map_or(Value::Null, Value::from), "{path}");
        let why = outcome["reason"].as_str().unwrap_or_default();
        assert!(why.contains(reason) && why.is_empty() == verified, "{path}: {outcome}");
        assert_eq!(api.get(&subscription).expect(200).await["verified"], verified, "{path}");
        let received = receiver.received().pop().expect("a challenge");
        assert_signed(&received, &[&secret]);
        let body: Value = serde_json::from_slice(&received.body).expect("JSON");
        assert_eq!(body["type"], "posthaste.verification");
        assert_eq!(received.header("posthaste-event-type"), "posthaste.verification");
        assert_eq!(body.as_object().map(serde_json::Map::len), Some(2));
    }
    // No receiver is listening there any more.
    let url = receiver.url("/json");
    drop(receiver);
    let (subscription, _) = subscribe(api, &url).await;
    let outcome = api.post(&format!("{subscription}/verify")).expect(200).await;
    assert_eq!((&outcome["verified"], &outcome["error_code"]), (&false.into(), &"CONNECT_FAILED".into()));
}

pub(crate) async fn a_change_during_verification_leaves_it_unverified<S: Stores>(api: &TestApi<S>) {
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let receiver = Receiver::start(move |received| {
        Answer::Gate(Arc::clone(&shut), Box::new(answer(200, challenge(received))))
    })
    .await;
    for (count, change) in [(1, "PATCH"), (2, "rotate"), (3, "DELETE")] {
        let (subscription, _) = subscribe(api, &receiver.url("/hook")).await;
        let verifying = api.post(&format!("{subscription}/verify"));
        let verifying = tokio::spawn(verifying.expect(200));
        receiver.wait_for(count).await;
        let (status, call) = match change {
            "PATCH" => {
                let body = format!(r#"{{"callback_url":"{}"}}"#, receiver.url("/other"));
                (200, api.call("PATCH", &subscription).json(body))
            }
            "rotate" => (200, api.post(&format!("{subscription}/rotate-secret"))),
            _ => (204, api.call("DELETE", &subscription)),
        };
        call.expect(status).await;
        gate.add_permits(1);
        let outcome = verifying.await.expect("a response");
        assert_eq!(outcome["verified"], false, "{change}");
        assert!(
            outcome["reason"].as_str().is_some_and(|why| why.contains("changed during the verification")),
            "{change}: {outcome}"
        );
        if change != "DELETE" {
            assert_eq!(api.get(&subscription).expect(200).await["verified"], false, "{change}");
        }
    }
}

/// A secret that is encrypted again during the challenge is still the secret of the challenge.
pub(crate) async fn a_reseal_during_verification_does_not_matter<S: Stores>(api: &TestApi<S>) {
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let receiver = Receiver::start(move |received| {
        Answer::Gate(Arc::clone(&shut), Box::new(answer(200, challenge(received))))
    })
    .await;
    let (subscription, secret) = subscribe(api, &receiver.url("/hook")).await;
    let (_, id) = subscription.rsplit_once('/').expect("an id");
    // The stored form before the reseal: plain text.
    api.h.direct.run(&format!("UPDATE subscriptions SET secret = '{secret}' WHERE id = {id}")).await;
    let verifying = api.post(&format!("{subscription}/verify"));
    let verifying = tokio::spawn(verifying.expect(200));
    receiver.wait_for(1).await;
    let resealed = api.post("/v1/subscriptions/reseal-secrets").expect(200).await;
    assert_eq!(resealed["resealed"], 1, "{resealed}");
    gate.add_permits(1);
    let outcome = verifying.await.expect("a response");
    assert_eq!(outcome["verified"], true, "{outcome}");
    assert_eq!(api.get(&subscription).expect(200).await["verified"], true);
}

pub(crate) async fn test_events_are_sent_to_verified_urls_only<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(|received| match challenge(received) {
        empty if empty.is_empty() => Answer::Status(418),
        echo => answer(200, echo),
    })
    .await;
    let (subscription, first) = subscribe(api, &receiver.url("/hook")).await;
    api.post(&format!("{subscription}/test")).refused(409, "").await;
    assert!(receiver.received().is_empty());
    assert_eq!(api.post(&format!("{subscription}/verify")).expect(200).await["verified"], true);
    let rotated = api.post(&format!("{subscription}/rotate-secret")).expect(200).await;
    let second = rotated["secret"].as_str().expect("a secret");
    let outcome = api.post(&format!("{subscription}/test")).expect(200).await;
    assert_eq!((&outcome["delivered"], &outcome["response_status"]), (&false.into(), &418.into()));
    assert_eq!(outcome["error_code"], "HTTP_418");
    let received = receiver.wait_for(2).await.pop().expect("a test");
    assert_signed(&received, &[&first, second]);
    let body: Value = serde_json::from_slice(&received.body).expect("JSON");
    assert_eq!(body["type"], "posthaste.test");
    assert_eq!(received.header("posthaste-event-type"), "posthaste.test");
    assert_eq!(api.count("events").await, 0);
}
