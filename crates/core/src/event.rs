//! Events as submitted by callers. The fields are validated here; an accepted event is never changed.

use crate::attributes::Attributes;
use crate::json::{JsonText, shortened};
use crate::tenant::Tenant;
use std::collections::BTreeSet;
use std::fmt;

/// The maximum length of an event type, in ASCII characters.
pub const EVENT_TYPE_CHARS_MAX: usize = 200;
/// The maximum length of an external id, in characters.
pub const EXTERNAL_ID_CHARS_MAX: usize = 200;
/// The maximum length of a correlation id, in characters.
pub const CORRELATION_ID_CHARS_MAX: usize = 200;
/// The maximum length of a `tracestate` header, in ASCII characters. W3C Trace Context requires at least 512.
pub const TRACE_STATE_CHARS_MAX: usize = 512;
/// The maximum number of members in a `tracestate` header, as specified by W3C Trace Context.
pub const TRACE_STATE_MEMBERS_MAX: usize = 32;
/// The maximum length of a key and of a value in a `tracestate` header, in ASCII characters.
const TRACE_STATE_PART_CHARS_MAX: usize = 256;

/// The beginning of the types of operational events, which Posthaste itself publishes.
pub const OPERATIONAL_PREFIX: &str = "posthaste.";

/// An error for an invalid field of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error(
        "event_type must be 1 to {EVENT_TYPE_CHARS_MAX} characters of A-Z a-z 0-9 _ . : / - \
         and start with a letter or digit"
    )]
    EventType,
    #[error("event_type must not have an empty segment (two dots in a row, or a dot at the end), got {0}")]
    EmptySegment(String),
    #[error(
        "event_type must not start with {OPERATIONAL_PREFIX}, which is reserved for operational events, got {0}"
    )]
    Operational(String),
    #[error("external_event_id must be 1 to {EXTERNAL_ID_CHARS_MAX} characters, none of them U+0000")]
    ExternalId,
    #[error("correlation_id must be 1 to {CORRELATION_ID_CHARS_MAX} visible ASCII characters")]
    CorrelationId,
    #[error("traceparent must have the form 00-<32 hex>-<16 hex>-<2 hex>")]
    TraceParent,
    #[error(
        "tracestate must be a list of at most {TRACE_STATE_MEMBERS_MAX} different key=value members and \
         {TRACE_STATE_CHARS_MAX} characters, as specified by W3C Trace Context"
    )]
    TraceState,
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
    /// A W3C `tracestate` header, which is stored with the event and sent to receivers together with
    /// [`TraceParent`].
    TraceState
}

impl EventType {
    /// Validates an event type. Types that were stored earlier may have empty segments.
    pub fn parse(text: impl Into<String>) -> Result<Self, EventError> {
        let text = text.into();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'/' | b'-');
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if !starts_well || text.len() > EVENT_TYPE_CHARS_MAX || !text.bytes().all(allowed) {
            Err(EventError::EventType)
        } else if text.split('.').any(str::is_empty) {
            Err(EventError::EmptySegment(shortened(&text)))
        } else {
            Ok(Self(text))
        }
    }

    /// Validates the type of an event that a caller publishes: it must not be that of an operational event.
    pub fn parse_published(text: impl Into<String>) -> Result<Self, EventError> {
        let parsed = Self::parse(text)?;
        if parsed.is_operational() { Err(EventError::Operational(shortened(&parsed.0))) } else { Ok(parsed) }
    }

    /// Returns whether the type is that of an operational event: it starts with `posthaste.`.
    pub fn is_operational(&self) -> bool {
        self.0.starts_with(OPERATIONAL_PREFIX)
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

impl TraceState {
    /// Validates a header according to W3C Trace Context, level 2. Empty members and white space around members are
    /// allowed and kept.
    pub fn parse(text: impl Into<String>) -> Result<Self, EventError> {
        let text = text.into();
        if text.len() > TRACE_STATE_CHARS_MAX {
            return Err(EventError::TraceState);
        }
        let mut keys = BTreeSet::new();
        let members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
        for member in members.filter(|member| !member.is_empty()) {
            match member.split_once('=') {
                Some((key, value)) if is_trace_key(key) && is_trace_value(value) && keys.insert(key) => {}
                Some(_) | None => return Err(EventError::TraceState),
            }
        }
        if (1..=TRACE_STATE_MEMBERS_MAX).contains(&keys.len()) {
            Ok(Self(text))
        } else {
            Err(EventError::TraceState)
        }
    }
}

fn is_trace_key(key: &str) -> bool {
    let is_first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_next = |b: u8| is_first(b) || matches!(b, b'_' | b'-' | b'*' | b'/' | b'@');
    key.len() <= TRACE_STATE_PART_CHARS_MAX
        && key.bytes().next().is_some_and(is_first)
        && key.bytes().all(is_next)
}

/// Returns whether a text without surrounding white space is the value of a member.
fn is_trace_value(value: &str) -> bool {
    let is_allowed = |b: u8| matches!(b, b' '..=b'~') && !matches!(b, b',' | b'=');
    (1..=TRACE_STATE_PART_CHARS_MAX).contains(&value.len()) && value.bytes().all(is_allowed)
}

/// A valid event that has not been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    pub tenant: Option<Tenant>,
    pub event_type: EventType,
    pub attributes: Attributes,
    pub payload: JsonText,
    pub external_event_id: Option<ExternalEventId>,
    pub correlation_id: Option<CorrelationId>,
    pub traceparent: Option<TraceParent>,
    pub tracestate: Option<TraceState>,
}

impl NewEvent {
    /// Creates an event without any of the optional fields.
    pub fn new(event_type: EventType, payload: JsonText) -> Self {
        Self {
            tenant: None,
            event_type,
            attributes: Attributes::default(),
            payload,
            external_event_id: None,
            correlation_id: None,
            traceparent: None,
            tracestate: None,
        }
    }

    /// Returns whether both events have the same tenant, type and attributes and byte-for-byte the same payload.
    /// Events with the same external id must have the same content.
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.tenant == other.tenant
            && self.event_type == other.event_type
            && self.attributes == other.attributes
            && self.payload == other.payload
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
        for bad in ["a.", "a..b", "a.b..", "a..."] {
            assert_eq!(EventType::parse(bad), Err(EventError::EmptySegment(bad.to_owned())), "{bad:?}");
        }
    }

    #[test]
    fn operational_types_are_recognised_and_refused() {
        for (text, expected) in
            [("posthaste.a", true), ("posthaste", false), ("posthastes.a", false), ("a.posthaste.b", false)]
        {
            assert_eq!(EventType::from_store(text.to_owned()).is_operational(), expected, "{text}");
            let refused = expected.then(|| EventError::Operational(text.to_owned()));
            assert_eq!(EventType::parse_published(text).err(), refused, "{text}");
        }
    }

    #[test]
    fn content_is_compared() {
        let payload = |text: &str| JsonText::from_store(text.to_owned());
        let tenant = |text: &str| Some(Tenant::from_store(text.to_owned()));
        let attributes = |text| Attributes::parse(text).expect("attributes");
        let one = NewEvent::new(EventType::from_store("a".to_owned()), payload("{}"));
        let context = NewEvent {
            external_event_id: Some(ExternalEventId::from_store("e".to_owned())),
            correlation_id: Some(CorrelationId::from_store("c".to_owned())),
            tracestate: Some(TraceState::from_store("a=1".to_owned())),
            ..one.clone()
        };
        let in_acme = NewEvent { tenant: tenant("acme"), ..one.clone() };
        let with_ten = NewEvent { attributes: attributes(r#"{"n":10}"#), ..one.clone() };
        let same_ten = NewEvent { attributes: attributes(r#"{ "n" : 1e1 }"#), ..one.clone() };
        let text_ten = NewEvent { attributes: attributes(r#"{"n":"10"}"#), ..one.clone() };
        let rows = [
            (&one, &one, true),
            (&one, &context, true),
            (&one, &in_acme, false),
            (&in_acme, &NewEvent { tenant: tenant("acme"), ..one.clone() }, true),
            (&in_acme, &NewEvent { tenant: tenant("other"), ..one.clone() }, false),
            (&one, &with_ten, false),
            (&with_ten, &same_ten, true),
            (&with_ten, &text_ten, false),
            (&one, &NewEvent { payload: payload("{ }"), ..one.clone() }, false),
            (&one, &NewEvent { event_type: EventType::from_store("b".to_owned()), ..one.clone() }, false),
        ];
        for (left, right, expected) in rows {
            assert_eq!(left.has_content_of(right), expected, "{left:?} and {right:?}");
            assert_eq!(right.has_content_of(left), expected, "{right:?} and {left:?}");
        }
    }

    #[test]
    fn tracestate_is_validated() {
        let member = |n: usize| format!("k{n}=v");
        let list = |count: usize| (0..count).map(member).collect::<Vec<_>>().join(",");
        let (key, value) = ("k".repeat(256), "v".repeat(256));
        let longest = format!("{}=v,k={}", "k".repeat(255), "v".repeat(252));
        assert_eq!(longest.len(), 512);
        for good in [
            "rojo=00f067aa0ba902b7",
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "fw529a3039@dt=FfffffFf, 0a-b_c*d/e@f=!~ x",
            ",a=1,,\tb=2 ,",
            &list(32),
            &format!("{key}=v"),
            &format!("k={value}"),
            &longest,
        ] {
            assert_eq!(TraceState::parse(good).as_ref().map(TraceState::as_str), Ok(good));
        }
        for bad in [
            "",
            " , ",
            "a",
            "a=",
            "a= ",
            "=1",
            "A=1",
            "_a=1",
            "a b=1",
            "a =1",
            "a=1=2",
            "a=ä",
            "a=1\n",
            "a=\t1\tb",
            "a=1,a=2",
            "a=1;b=2,c",
            &list(33),
            &format!("k{key}=v"),
            &format!("k=v{value}"),
            &(longest + "v"),
        ] {
            assert_eq!(TraceState::parse(bad), Err(EventError::TraceState), "{bad:?}");
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
