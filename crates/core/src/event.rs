//! Events as submitted by callers. The fields are validated here; an accepted event is never changed.

use crate::json::JsonText;
use std::fmt;

/// The maximum length of an event type, in ASCII characters.
pub const EVENT_TYPE_CHARS_MAX: usize = 200;
/// The maximum length of an external id, in characters.
pub const EXTERNAL_ID_CHARS_MAX: usize = 200;
/// The maximum length of a correlation id, in characters.
pub const CORRELATION_ID_CHARS_MAX: usize = 200;

/// An error for an invalid field of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error(
        "event_type must be 1 to {EVENT_TYPE_CHARS_MAX} characters of A-Z a-z 0-9 _ . : / - \
         and start with a letter or digit"
    )]
    EventType,
    #[error("external_event_id must be 1 to {EXTERNAL_ID_CHARS_MAX} characters, none of them U+0000")]
    ExternalId,
    #[error("correlation_id must be 1 to {CORRELATION_ID_CHARS_MAX} visible ASCII characters")]
    CorrelationId,
    #[error("traceparent must have the form 00-<32 hex>-<16 hex>-<2 hex>")]
    TraceParent,
}

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Creates the value from stored text, without validation.
            pub fn from_store(text: String) -> Self {
                Self(text)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text! {
    /// The type of an event, by which subscriptions select events.
    EventType
    /// The caller's id for an event. A second event with the same id is a duplicate.
    ExternalEventId
    /// The caller's id for the operation to which an event belongs. It is included in log messages.
    CorrelationId
    /// A W3C `traceparent` header, which is stored with the event and sent to receivers.
    TraceParent
}

impl EventType {
    pub fn parse(text: impl Into<String>) -> Result<Self, EventError> {
        let text = text.into();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'/' | b'-');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well && text.len() <= EVENT_TYPE_CHARS_MAX && text.bytes().all(allowed) {
            Ok(Self(text))
        } else {
            Err(EventError::EventType)
        }
    }
}

impl ExternalEventId {
    pub fn parse(text: impl Into<String>) -> Result<Self, EventError> {
        let text = text.into();
        let chars = text.chars().take(EXTERNAL_ID_CHARS_MAX + 1).count();
        if (1..=EXTERNAL_ID_CHARS_MAX).contains(&chars) && !text.contains('\0') {
            Ok(Self(text))
        } else {
            Err(EventError::ExternalId)
        }
    }
}

impl CorrelationId {
    pub fn parse(text: impl Into<String>) -> Result<Self, EventError> {
        let text = text.into();
        let fits = (1..=CORRELATION_ID_CHARS_MAX).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text))
        } else {
            Err(EventError::CorrelationId)
        }
    }
}

impl TraceParent {
    pub fn parse(text: impl Into<String>) -> Result<Self, EventError> {
        let text = text.into();
        let parts: Vec<&str> = text.split('-').collect();
        let hex = |part: &str, len: usize| {
            part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let zero = |part: &str| part.bytes().all(|b| b == b'0');
        match parts[..] {
            [version, trace, span, flags]
                if version == "00"
                    && hex(trace, 32)
                    && hex(span, 16)
                    && hex(flags, 2)
                    && !zero(trace)
                    && !zero(span) =>
            {
                Ok(Self(text))
            }
            _ => Err(EventError::TraceParent),
        }
    }
}

/// A valid event that has not been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    pub event_type: EventType,
    pub payload: JsonText,
    pub external_event_id: Option<ExternalEventId>,
    pub correlation_id: Option<CorrelationId>,
    pub traceparent: Option<TraceParent>,
}

impl NewEvent {
    /// Returns whether both events have the same type and byte-for-byte the same payload. Events with the same
    /// external id must have the same content.
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.event_type == other.event_type && self.payload == other.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_type_is_validated() {
        let longest = "t".repeat(200);
        for good in ["order.paid", "a", "A1_b-c.d:e/f", "0", longest.as_str()] {
            assert!(EventType::parse(good).is_ok(), "{good}");
        }
        let too_long = "t".repeat(201);
        for bad in ["", ".a", " a", "a b", "ä", "a\0", "<script>", "a\n", "*", too_long.as_str()] {
            assert_eq!(EventType::parse(bad), Err(EventError::EventType), "{bad:?}");
        }
    }

    #[test]
    fn external_ids_count_characters_and_not_bytes() {
        assert!(ExternalEventId::parse("ü".repeat(200)).is_ok());
        assert!(ExternalEventId::parse("source\u{1f}id").is_ok());
        assert_eq!(ExternalEventId::parse("ü".repeat(201)), Err(EventError::ExternalId));
        assert_eq!(ExternalEventId::parse(""), Err(EventError::ExternalId));
        assert_eq!(ExternalEventId::parse("a\0b"), Err(EventError::ExternalId));
    }

    #[test]
    fn traceparent_is_validated() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(TraceParent::parse(good).is_ok());
        for bad in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(TraceParent::parse(bad), Err(EventError::TraceParent), "{bad}");
        }
    }
}
