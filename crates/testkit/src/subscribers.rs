//! Creates verified subscriptions to a local receiver with known secrets, for tests that run the whole program.

use crate::direct::Direct;
use crate::fixtures::{subscribe_verified, subscription};
use posthaste_core::SubscriptionId;
use posthaste_core::ports::Stores;
use posthaste_core::signature::{self, SigningSecret};
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret};
use std::time::Duration;

/// The maximum difference between the time of a signature and the clock.
const TOLERANCE: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
pub struct Subscriber {
    pub id: SubscriptionId,
    pub event_type: String,
    secret: SigningSecret,
}

/// A signed request as received.
#[derive(Debug, Clone)]
pub struct SignedMessage {
    pub webhook_id: String,
    pub timestamp_s: i64,
    pub signature: String,
    pub body: Vec<u8>,
}

/// Creates a verified subscription whose secret is derived from its URL.
pub async fn subscribe(
    store: &impl Stores,
    kind: &str,
    url: &str,
    max_retry_limit: Option<u32>,
) -> Subscriber {
    let digest = posthaste_core::digest::digest_of(url.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&digest.as_str().as_bytes()[7..39]);
    let secret = SigningSecret::from_random(bytes);
    let new = NewSubscription {
        callback_url: CallbackUrl::parse(url, true).expect("a URL"),
        max_retry_limit,
        secret: SealedSecret::new(secret.reveal()),
        ..subscription(kind)
    };
    let id = subscribe_verified(store, new, store.now().await.expect("the time")).await;
    Subscriber { id, event_type: kind.to_owned(), secret }
}

impl Subscriber {
    /// Returns whether a message is signed with this subscriber's secret.
    pub fn recognizes(&self, message: &SignedMessage) -> bool {
        let SignedMessage { webhook_id, timestamp_s, signature, body } = message;
        let now = posthaste_core::Timestamp::from_micros(timestamp_s * 1_000_000);
        signature::verify(&[&self.secret], webhook_id, *timestamp_s, body, signature, TOLERANCE, now).is_ok()
    }
}

/// Makes workers that start later send the ids of event and subscription as the `webhook-id`, as for events that are
/// older than the key of message ids. Only [`parse_webhook_id`] needs it: real message ids reveal neither.
pub async fn send_plain_ids(direct: &Direct) {
    direct.force("UPDATE message_id_key SET plain_up_to = 9223372036854775807").await;
}

/// Returns the ids of the event and the subscription in a `webhook-id`, or `None` if it is malformed. See
/// [`send_plain_ids`].
pub fn parse_webhook_id(webhook_id: &str) -> Option<(i64, i64)> {
    let (event, subscription) = webhook_id.strip_prefix("msg_")?.split_once('_')?;
    Some((event.parse().ok()?, subscription.parse().ok()?))
}
