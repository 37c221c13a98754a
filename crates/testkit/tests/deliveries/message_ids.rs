//! Tests the `webhook-id` by which receivers detect duplicates: it is the same for every attempt of a delivery and
//! after a requeue, unique among deliveries, and another one if a restored database issues an event id again.

use posthaste_core::EventId;
use posthaste_core::ports::Stores;
use posthaste_testkit::harness::{Engine, Harness};
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use std::collections::BTreeSet;
use std::time::Duration;

fn ids(received: &[Received]) -> BTreeSet<&str> {
    received.iter().map(Received::webhook_id).collect()
}

#[track_caller]
fn check_form(id: &str) {
    let digits = id.strip_prefix("msg_").expect("a prefix");
    assert!(digits.len() == 22 && digits.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
}

pub(crate) async fn an_id_is_stable_over_retries_and_a_requeue<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, _) = Rig::subscribed(h, |_| Answer::Status(500)).await;
    rig.publish("a").await;
    rig.until_dead_lettered().await;
    let letter = rig.dead_letters().await[0].head.id;
    rig.requeue(letter).await;
    rig.until_quiet().await;
    let received = receiver.received();
    assert_eq!((received.len(), ids(&received).len()), (6, 1));
    check_form(received[0].webhook_id());
}

pub(crate) async fn every_delivery_has_its_own_id<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, _) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    rig.subscribe("a", &receiver.url("/second")).await;
    let events = rig.publish_many("a", 50).await;
    rig.until_quiet().await;
    let received = receiver.received();
    assert_eq!((received.len(), ids(&received).len()), (2 * events.len(), 2 * events.len()));
    received.iter().for_each(|request| check_form(request.webhook_id()));
}

/// Checks that messages of events that existed when the key was created keep their ids.
pub(crate) async fn events_before_the_key_keep_their_ids<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let last = rig.publish_many("a", 2).await.pop().expect("an event");
    let sql = format!("UPDATE message_id_key SET plain_up_to = {last}");
    rig.h.direct.force(&sql).await;
    let newer = rig.publish("a").await;
    rig.until_quiet().await;
    let received = receiver.received();
    let found = ids(&received);
    let plain = |event: EventId| format!("msg_{event}_{subscription}");
    let previous = EventId::from_store(last.get() - 1);
    assert!([previous, last].map(plain).iter().all(|id| found.contains(id.as_str())), "{found:?}");
    assert!(found.len() == 3 && !found.contains(plain(newer).as_str()), "{found:?}");
}

/// Checks that another event with the same id, as a restored database issues it, has another message id. Receivers
/// would otherwise drop it as a duplicate.
pub(crate) async fn a_reissued_event_id_has_another_message_id<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    rig.until_quiet().await;
    let later = match rig.h.engine {
        Engine::Sqlite => "created_at + 1",
        Engine::Postgres | Engine::PostgresCut => "created_at + interval '1 microsecond'",
    };
    let sql = format!("UPDATE events SET created_at = {later} WHERE id = {event}");
    rig.h.direct.force(&sql).await;
    rig.move_by(Duration::from_secs(30));
    rig.until_quiet().await;
    let received = receiver.received();
    assert_eq!((received.len(), ids(&received).len()), (2, 2));
}
