//! Creates a short history for other tests: one completed and one dead-lettered delivery.

use crate::served::Served;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::json;

/// Responds with 500 to `/refuse` and with 200 to all other paths, and echoes challenges.
pub(crate) fn answer(received: &Received) -> Answer {
    if received.header("posthaste-event-type") == "posthaste.verification" {
        return Answer::to_challenge(received);
    }
    Answer::Status(if received.path.starts_with("/refuse") { 500 } else { 200 })
}

/// Creates and verifies a subscription, and returns the response to the creation request.
pub(crate) fn subscribe(
    served: &Served,
    event_type: &str,
    url: &str,
    attempts_max: u32,
) -> serde_json::Value {
    let body = json!({"event_type": event_type, "callback_url": url, "max_retry_limit": attempts_max});
    let created = served.post("/v1/subscriptions", &body.to_string()).expect(201).json();
    let verified = served.post(&format!("/v1/subscriptions/{}/verify", created["id"]), "").expect(200).json();
    assert_eq!(verified["verified"], true, "{verified}");
    created
}

/// Creates one completed and one dead-lettered delivery.
pub(crate) fn deliver_and_dead_letter(served: &Served, receiver: &Receiver) {
    subscribe(served, "taken", &receiver.url("/take"), 1);
    subscribe(served, "refused", &receiver.url("/refuse"), 1);
    for event_type in ["taken", "refused"] {
        let event = json!({"event_type": event_type, "payload": 1}).to_string();
        served.post("/v1/events", &event).expect(202);
    }
    for status in ["Completed", "DeadLettered"] {
        let path = format!("/v1/deliveries?status={status}");
        served.get_until(&path, |answer| {
            answer.json()["items"].as_array().is_some_and(|items| items.len() == 1)
        });
    }
}
