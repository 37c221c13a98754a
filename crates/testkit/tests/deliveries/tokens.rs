//! Tests deliveries to receivers that require OAuth 2.0 client credentials, with a real token endpoint.

use crate::requests::authenticate;
use posthaste_core::SubscriptionId;
use posthaste_core::ports::Stores;
use posthaste_core::saga::SagaStatus;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn response(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    Answer::With { status, headers: Vec::new(), body: body.into() }
}

/// Starts a token endpoint whose tokens are numbered from one.
async fn endpoint() -> Receiver {
    let count = AtomicUsize::new(0);
    Receiver::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        response(200, format!(r#"{{"access_token":"t{number}","token_type":"Bearer","expires_in":3600}}"#))
    })
    .await
}

async fn authorize<S: Stores>(rig: &mut Rig<S>, id: SubscriptionId, token_url: &str) {
    let auth = serde_json::json!({"oauth2_client_credentials": {
        "token_url": token_url, "client_id": "posthaste", "client_secret": "hush", "scope": "hooks"
    }});
    authenticate(rig, id, &auth.to_string()).await;
}

pub(crate) async fn one_token_serves_many_deliveries<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, id) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let tokens = endpoint().await;
    authorize(&mut rig, id, &tokens.url("/token")).await;
    rig.publish_many("a", 20).await;
    rig.until_quiet().await;
    rig.publish("a").await;
    rig.until_quiet().await;
    let received = receiver.received();
    assert_eq!(received.len(), 21);
    assert!(received.iter().all(|request| request.header("authorization") == "Bearer t1"));
    let fetched = tokens.received();
    let [fetch] = &fetched[..] else { panic!("{} fetches", fetched.len()) };
    assert_eq!(fetch.body, "grant_type=client_credentials&scope=hooks");
    // posthaste:hush
    assert_eq!(fetch.header("authorization"), "Basic cG9zdGhhc3RlOmh1c2g=");
    rig.h.check_invariants().await;
}

/// Checks that a delivery without a token is not sent, and that another delivery of the same claim is.
pub(crate) async fn a_failing_token_endpoint_fails_only_its_deliveries<S: Stores>(h: Harness<S>) {
    let deadline = Duration::from_millis(500);
    let mut rig = Rig::with(h, Setup { deadline, ..Setup::default() });
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let plain = Receiver::start(|_| Answer::Status(200)).await;
    let id = rig.subscribe("a", &receiver.url("/")).await;
    rig.subscribe("a", &plain.url("/")).await;
    let answers = [
        response(200, "<html>sign in</html>"),
        response(200, r#"{"access_token":"t","token_type":"Bearer","expires_in":-1}"#),
        response(401, r#"{"error":"invalid_client"}"#),
        // The wait for a token counts against the deadline of the request.
        Answer::Hang,
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let tokens = Receiver::start(move |_| answer.clone()).await;
        authorize(&mut rig, id, &tokens.url("/token")).await;
        let event = rig.publish("a").await;
        rig.until_quiet().await;
        let sagas = rig.sagas_of(event).await;
        let saga = sagas.iter().find(|saga| saga.subscription_id == id).expect("a saga");
        let code = saga.state.final_error_code.as_ref().map(ToString::to_string);
        assert_eq!(
            (saga.state.status, code.as_deref()),
            (SagaStatus::PendingRetry, Some("AUTH_FAILED")),
            "{number}"
        );
        assert_eq!((receiver.received().len(), plain.received().len()), (0, number + 1));
    }
    rig.h.check_invariants().await;
}
