//! The `webhook-id` of a delivery, by which receivers detect duplicates. The worker reads the key of the installation
//! from the store and sends the id with every attempt.

use std::fmt;

use crate::ids::{EventId, SubscriptionId};
use crate::signature::mac::hmac_sha256;
use crate::time::Timestamp;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The number of base62 digits that 128 bits need.
const ID_DIGITS: usize = 22;

/// The key of an installation, which never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageIdKey {
    /// Random bytes.
    pub key: Vec<u8>,
    /// The highest event id that was assigned before the key existed. Messages of events up to it keep the ids that
    /// receivers have already seen.
    pub plain_up_to: i64,
}

/// Omits the key, because with it the ids of events can be found from message ids.
impl fmt::Debug for MessageIdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageIdKey").field("plain_up_to", &self.plain_up_to).finish_non_exhaustive()
    }
}

/// Returns the `webhook-id` of a delivery. It is the same for every attempt and after a requeue. It does not reveal
/// the ids in the database, and it differs when a restored database assigns the same event id again, because the
/// event then has another creation time.
pub fn message_id(
    key: &MessageIdKey,
    event: EventId,
    created_at: Timestamp,
    subscription: SubscriptionId,
) -> String {
    if event.get() <= key.plain_up_to {
        return webhook_id(event, subscription);
    }
    let content = format!("{event}.{}.{subscription}", created_at.micros());
    let mac = hmac_sha256(&key.key, &[content.as_bytes()]);
    let bits = mac.iter().take(16).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    format!("msg_{}", base62(bits))
}

/// Returns the `webhook-id` of the events that are older than the key of the installation.
pub fn webhook_id(event: EventId, subscription: SubscriptionId) -> String {
    format!("msg_{event}_{subscription}")
}

/// Returns the number as 22 digits, the most significant first.
fn base62(number: u128) -> String {
    let mut digits = ['0'; ID_DIGITS];
    let mut rest = number;
    for slot in digits.iter_mut().rev() {
        let digit = usize::try_from(rest % 62).ok().and_then(|index| DIGITS.get(index));
        *slot = digit.copied().map_or('0', char::from);
        rest /= 62;
    }
    digits.iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(key: &MessageIdKey, event: i64, created_at_us: i64, subscription: i64) -> String {
        let created_at = Timestamp::from_micros(created_at_us);
        message_id(key, EventId::from_store(event), created_at, SubscriptionId::from_store(subscription))
    }

    #[test]
    fn ids_equal_those_computed_by_another_program() {
        // Computed with hmac.new(key, b"41.1767225600123456.7", "sha256") of Python and a base62 written there.
        let short = MessageIdKey { key: (0..32).collect(), plain_up_to: 40 };
        let long = MessageIdKey { key: vec![5; 80], plain_up_to: 0 };
        let rows = [
            (&short, 41, 1_767_225_600_123_456, 7, "msg_0yycCdNVx1MsBysDfOFCkj"),
            (&short, 42, 1_767_225_600_123_456, 7, "msg_7L68qQNss4Shkw2rn1qwyE"),
            (&short, 41, 1_767_225_600_123_457, 7, "msg_2HSJYHuRpqPTrhAdMiwxT9"),
            (&long, i64::MAX, Timestamp::MIN.micros(), 1, "msg_2IoqqCVy126WKdIOs1pJDy"),
        ];
        for (key, event, created_at_us, subscription, expected) in rows {
            assert_eq!(id(key, event, created_at_us, subscription), expected);
        }
    }

    #[test]
    fn older_events_keep_their_ids() {
        let key = MessageIdKey { key: vec![1; 32], plain_up_to: 41 };
        assert_eq!(id(&key, 40, 5, 7), "msg_40_7");
        assert_eq!(id(&key, 41, 5, 7), "msg_41_7");
        assert!(!id(&key, 42, 5, 7).contains("42_7"));
        assert_eq!(webhook_id(EventId::from_store(41), SubscriptionId::from_store(7)), "msg_41_7");
        let nothing_migrated = MessageIdKey { key: vec![1; 32], plain_up_to: 0 };
        assert_ne!(id(&nothing_migrated, 1, 5, 7), "msg_1_7");
    }

    #[test]
    fn numbers_have_22_digits_in_base62() {
        let rows = [
            (0, "0000000000000000000000"),
            (61, "000000000000000000000z"),
            (62, "0000000000000000000010"),
            (u128::MAX, "7n42DGM5Tflk9n8mt7Fhc7"),
        ];
        for (number, expected) in rows {
            assert_eq!(base62(number), expected);
        }
    }

    #[test]
    fn debug_output_does_not_contain_the_key() {
        let key = MessageIdKey { key: vec![77; 32], plain_up_to: 3 };
        assert_eq!(format!("{key:?}"), "MessageIdKey { plain_up_to: 3, .. }");
    }

    proptest! {
        #[test]
        fn ids_are_visible_and_depend_on_each_argument(
            key in proptest::collection::vec(any::<u8>(), 0..100),
            event in 1..i64::MAX,
            created_at_us in Timestamp::MIN.micros()..Timestamp::MAX.micros(),
            subscription in 1..i64::MAX,
        ) {
            let key = MessageIdKey { key, plain_up_to: 0 };
            let ours = id(&key, event, created_at_us, subscription);
            prop_assert_eq!(ours.len(), 26);
            prop_assert!(ours.strip_prefix("msg_").unwrap().bytes().all(|b| b.is_ascii_alphanumeric()));
            prop_assert_eq!(&ours, &id(&key, event, created_at_us, subscription));
            prop_assert_ne!(&ours, &id(&key, event + 1, created_at_us, subscription));
            prop_assert_ne!(&ours, &id(&key, event, created_at_us + 1, subscription));
            prop_assert_ne!(&ours, &id(&key, event, created_at_us, subscription + 1));
        }
    }
}
