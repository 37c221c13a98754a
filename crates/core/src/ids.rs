//! Names of things: row ids, lease tokens, worker names. Newtypes, so that no two are confused.

use std::fmt;

/// An id that is not a positive 64-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an id: ids are whole numbers from 1 to 9223372036854775807")]
pub struct IdOutOfRange(pub i64);

macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Accepts what a table can hold as an id.
            pub fn new(raw: i64) -> Result<Self, IdOutOfRange> {
                if raw > 0 { Ok(Self(raw)) } else { Err(IdOutOfRange(raw)) }
            }

            /// Takes an id that a store handed out, and is therefore valid.
            pub const fn from_store(raw: i64) -> Self {
                Self(raw)
            }

            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

row_id! {
    /// One accepted event.
    EventId
    /// One subscription of a webhook to an event type.
    SubscriptionId
    /// One delivery of one event to one subscription.
    SagaId
    /// One attempt of a delivery.
    JobId
    /// One delivery that was given up.
    DeadLetterId
    /// One order to the broker.
    OrderId
    /// One row of an order's audit trail.
    AuditId
    /// One row of the audit of what people change.
    OperatorAuditId
    /// One API key.
    KeyId
}

/// Proof of holding a lease: 128 random bits, fresh with every claim (never a counter, because ids
/// can be issued again after a crash).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(u128);

impl LeaseToken {
    /// Makes a token of bits that the caller drew at random.
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// A token admits its bearer to report, so it does not belong into logs.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(…)")
    }
}

/// Who works: the name of one process, as it is written beside the rows it holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerId(String);

/// The longest name a worker may have, in bytes.
pub const WORKER_ID_BYTES_MAX: usize = 100;

/// A worker's name that no row could hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker id is 1 to {WORKER_ID_BYTES_MAX} visible ASCII characters")]
pub struct BadWorkerId;

impl WorkerId {
    pub fn parse(name: impl Into<String>) -> Result<Self, BadWorkerId> {
        let name = name.into();
        let fits = (1..=WORKER_ID_BYTES_MAX).contains(&name.len());
        if fits && name.bytes().all(|b| b.is_ascii_graphic()) { Ok(Self(name)) } else { Err(BadWorkerId) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_numbers_are_ids() {
        assert_eq!(EventId::new(1).map(EventId::get), Ok(1));
        assert_eq!(EventId::new(i64::MAX).map(EventId::get), Ok(i64::MAX));
        assert_eq!(EventId::new(0), Err(IdOutOfRange(0)));
        assert_eq!(EventId::new(i64::MIN), Err(IdOutOfRange(i64::MIN)));
    }

    #[test]
    fn a_token_does_not_print_itself() {
        assert_eq!(format!("{:?}", LeaseToken::from_random(0xfeed)), "LeaseToken(…)");
    }

    #[test]
    fn worker_ids_are_short_and_visible() {
        assert!(WorkerId::parse("host-1/4711").is_ok());
        for bad in ["", "two words", "tab\t", "ümlaut", &"x".repeat(101)] {
            assert_eq!(WorkerId::parse(bad), Err(BadWorkerId), "{bad:?}");
        }
    }
}
