//! Tests that receivers can verify every request during the rotation of a secret.

use posthaste_core::Timestamp;
use posthaste_core::ports::Stores;
use posthaste_core::signature::{NotAuthentic, SigningSecret, verify};
use posthaste_testkit::fixtures::at;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Received};
use std::time::Duration;

/// Verifies a request with `secret` and checks that the reference implementation agrees.
fn verified(request: &Received, secret: &SigningSecret, now: Timestamp) -> Result<(), NotAuthentic> {
    let (id, signatures) = (request.webhook_id(), request.header("webhook-signature"));
    let timestamp_s = request.header("webhook-timestamp").parse().expect("seconds");
    let ours = verify(&[secret], id, timestamp_s, &request.body, signatures, Duration::ZERO, now);
    // The reference implementation compares the timestamp with the system clock, so it is used to sign, not to
    // verify.
    let reference = standardwebhooks::Webhook::new(&secret.reveal()).expect("a secret");
    let theirs = reference.sign(id, timestamp_s, &request.body).expect("a signature");
    assert_eq!(ours.is_ok(), signatures.split(' ').any(|signature| signature == theirs), "{theirs:?}");
    ours
}

fn signatures(request: &Received) -> usize {
    request.header("webhook-signature").split(' ').count()
}

pub(crate) async fn both_secrets_sign_until_the_old_one_expires<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let old = rig.secret_of(subscription).await;
    let new = rig.draw_secret();
    let foreign = rig.draw_secret();
    let no_match = Err(NotAuthentic::NoMatch);

    rig.publish("a").await;
    rig.until_quiet().await;
    let request = receiver.received().pop().expect("a request");
    assert_eq!(signatures(&request), 1);
    let by = |secret| verified(&request, secret, at(0));
    assert_eq!([by(&old), by(&new), by(&foreign)], [Ok(()), no_match, no_match]);

    rig.rotate(subscription, &new, at(100)).await;
    assert_eq!(rig.secret_of(subscription).await, new);
    for seconds in [10, 99] {
        rig.move_to(seconds);
        rig.publish("a").await;
        rig.until_quiet().await;
        let request = receiver.received().pop().expect("a request");
        assert_eq!(signatures(&request), 2);
        let by = |secret| verified(&request, secret, at(seconds));
        assert_eq!([by(&old), by(&new), by(&foreign)], [Ok(()), Ok(()), no_match]);
    }

    rig.move_to(100);
    rig.publish("a").await;
    rig.until_quiet().await;
    let request = receiver.received().pop().expect("a request");
    assert_eq!(signatures(&request), 1);
    let by = |secret| verified(&request, secret, at(100));
    assert_eq!([by(&old), by(&new), by(&foreign)], [no_match, Ok(()), no_match]);
    assert_eq!(receiver.received().len(), 4);
}
