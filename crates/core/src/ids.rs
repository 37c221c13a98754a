//! Identifiers: row ids, lease tokens, secret references and worker ids. Each kind has its own type, so that they
//! cannot be confused.

use std::fmt;

/// An error for an id that is not positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id must be between 1 and 9223372036854775807, got {0}")]
pub struct IdOutOfRange(pub i64);

macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Creates an id from untrusted input.
            ///
            /// # Errors
            ///
            /// Returns an error if `raw` is not positive.
            pub fn new(raw: i64) -> Result<Self, IdOutOfRange> {
                if raw > 0 { Ok(Self(raw)) } else { Err(IdOutOfRange(raw)) }
            }

            /// Creates an id from a stored value, without validation.
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
    /// Identifies an accepted event.
    EventId
    /// Identifies a subscription.
    SubscriptionId
    /// Identifies one delivery of one event to one subscription.
    SagaId
    /// Identifies one attempt of a delivery.
    JobId
    /// Identifies a dead letter.
    DeadLetterId
    /// Identifies an order.
    OrderId
    /// Identifies a row in the audit of an order.
    AuditId
    /// Identifies a row in the audit of changes made by people.
    OperatorAuditId
    /// Identifies an API key.
    KeyId
}

/// The fencing token of a lease: 128 random bits, generated for every claim. A counter would not be safe,
/// because its values could be reused after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(u128);

impl LeaseToken {
    /// Creates a token from random bits.
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// Omits the bits, because a token permits reports and must not be logged.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(…)")
    }
}

/// The random identifier of a subscription's row to which its encrypted secrets are bound. It is drawn before the row
/// is inserted, when the row's id is not yet known, and it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretRef(u128);

impl SecretRef {
    /// Creates a reference from random bits, or from a stored value.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// Writes the reference in the notation of a UUID.
impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let (time, rest) = hex.split_at(8);
        let (mid, rest) = rest.split_at(4);
        let (high, rest) = rest.split_at(4);
        let (clock, node) = rest.split_at(4);
        write!(f, "{time}-{mid}-{high}-{clock}-{node}")
    }
}

/// The name of a process, which is stored in the rows that it claims.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerId(String);

/// The maximum length of a worker id, in bytes.
pub const WORKER_ID_BYTES_MAX: usize = 100;

/// An error from parsing a worker id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a worker id must be 1 to {WORKER_ID_BYTES_MAX} visible ASCII characters")]
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
    fn ids_are_positive() {
        assert_eq!(EventId::new(1).map(EventId::get), Ok(1));
        assert_eq!(EventId::new(i64::MAX).map(EventId::get), Ok(i64::MAX));
        assert_eq!(EventId::new(0), Err(IdOutOfRange(0)));
        assert_eq!(EventId::new(i64::MIN), Err(IdOutOfRange(i64::MIN)));
    }

    #[test]
    fn debug_output_does_not_contain_the_token() {
        assert_eq!(format!("{:?}", LeaseToken::from_random(0xfeed)), "LeaseToken(…)");
    }

    #[test]
    fn secret_ref_is_written_as_a_uuid() {
        let secret_ref = SecretRef::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(secret_ref.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(SecretRef::from_bits(7).to_string(), "00000000-0000-0000-0000-000000000007");
    }

    #[test]
    fn worker_ids_are_short_and_visible() {
        assert!(WorkerId::parse("host-1/4711").is_ok());
        for bad in ["", "two words", "tab\t", "ümlaut", &"x".repeat(101)] {
            assert_eq!(WorkerId::parse(bad), Err(BadWorkerId), "{bad:?}");
        }
    }
}
