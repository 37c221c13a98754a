//! Which methods of verification a server allows, and the decision of the handshake of CloudEvents webhooks. The
//! settings provide the methods and the origin, the receiver's response the headers; the API carries out the
//! verification.

use crate::subscription::VerificationMethod;

/// The maximum rate that is stored, in requests per minute: the largest value of the column. A higher rate is stored as
/// this one.
pub const ALLOWED_PER_MINUTE_MAX: u32 = i32::MAX as u32;
/// The rate that the handshake requests, per minute: 10,000 requests per second, more than one subscription needs. A
/// receiver that grants exactly what was requested thereby sets no effective limit.
pub const REQUESTED_PER_MINUTE: u32 = 600_000;
/// The maximum number of characters of a header that an error shows.
const SHOWN_CHARS_MAX: usize = 100;

/// The methods that a server allows, in the order in which they were listed. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationMethods(Vec<VerificationMethod>);

impl Default for VerificationMethods {
    fn default() -> Self {
        Self(vec![VerificationMethod::Challenge, VerificationMethod::Cloudevents])
    }
}

impl VerificationMethods {
    /// Parses names separated by commas. A repeated name has no effect. Returns `None` if a name is unknown or empty.
    pub fn parse(text: &str) -> Option<Self> {
        let mut methods = Vec::new();
        for name in text.split(',') {
            let method = VerificationMethod::parse(name.trim())?;
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        Some(Self(methods))
    }

    pub fn as_slice(&self) -> &[VerificationMethod] {
        &self.0
    }

    pub fn allows(&self, method: VerificationMethod) -> bool {
        self.0.contains(&method)
    }

    /// Returns the method of a request that names none: `challenge` if it is allowed, otherwise the first one.
    pub fn default_method(&self) -> VerificationMethod {
        let challenge = VerificationMethod::Challenge;
        self.0.first().copied().filter(|_| !self.allows(challenge)).unwrap_or(challenge)
    }
}

/// The reason why a receiver did not agree in the handshake of CloudEvents webhooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error(
        "the response has no header WebHook-Allowed-Origin: the receiver must return it with the value {origin} or *"
    )]
    NoOrigin { origin: String },
    #[error("the header WebHook-Allowed-Origin must be {origin} or *, got {found:?}")]
    OtherOrigin { origin: String, found: String },
    #[error("the header WebHook-Allowed-Origin must have one value, either {origin} or *, got {found:?}")]
    SeveralOrigins { origin: String, found: String },
    #[error(
        "the header WebHook-Allowed-Rate must be a whole number of requests per minute of at least 1, or *, \
         got {found:?}"
    )]
    Rate { found: String },
}

/// Decides the handshake from all values of the headers `WebHook-Allowed-Origin` and `WebHook-Allowed-Rate`. Returns
/// the allowed number of requests per minute, or `None` if the receiver sets no limit, also by leaving out the header.
///
/// # Errors
///
/// Returns the reason why the receiver did not agree.
pub fn allowed_per_minute(
    origin: &str,
    allowed_origins: &[String],
    allowed_rates: &[String],
) -> Result<Option<u32>, HandshakeError> {
    let owned = || origin.to_owned();
    match allowed_origins {
        [] => return Err(HandshakeError::NoOrigin { origin: owned() }),
        [one] if one == "*" || one.eq_ignore_ascii_case(origin) => {}
        [one] if !one.contains([',', ' ']) => {
            return Err(HandshakeError::OtherOrigin { origin: owned(), found: shown(one) });
        }
        several => {
            return Err(HandshakeError::SeveralOrigins {
                origin: owned(),
                found: shown(&several.join(", ")),
            });
        }
    }
    match allowed_rates {
        [] => Ok(None),
        [one] if one == "*" => Ok(None),
        [one] => parse_rate(one).map(Some).ok_or_else(|| HandshakeError::Rate { found: shown(one) }),
        several => Err(HandshakeError::Rate { found: shown(&several.join(", ")) }),
    }
}

/// Parses a positive integer. Values above the maximum become the maximum.
fn parse_rate(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = text.trim_start_matches('0');
    (is_number && !digits.is_empty()).then(|| digits.parse().unwrap_or(u32::MAX).min(ALLOWED_PER_MINUTE_MAX))
}

/// Returns the beginning of a header for an error message.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use VerificationMethod::{Asserted, Challenge, Cloudevents};

    #[test]
    fn methods_are_a_list_without_duplicates() {
        for (text, expected, default) in [
            ("challenge", &[Challenge][..], Challenge),
            ("challenge,cloudevents", &[Challenge, Cloudevents], Challenge),
            ("asserted, challenge,asserted", &[Asserted, Challenge], Challenge),
            ("cloudevents,asserted", &[Cloudevents, Asserted], Cloudevents),
            ("asserted", &[Asserted], Asserted),
        ] {
            let methods = VerificationMethods::parse(text).expect(text);
            assert_eq!(methods.as_slice(), expected, "{text}");
            assert_eq!(methods.default_method(), default, "{text}");
            for method in VerificationMethod::ALL {
                assert_eq!(methods.allows(method), expected.contains(&method), "{text}");
            }
        }
        for text in
            ["", ",", "challenge,", "Challenge", "none", "challenge cloudevents", "challenge;asserted"]
        {
            assert_eq!(VerificationMethods::parse(text), None, "{text}");
        }
        assert_eq!(VerificationMethods::parse("challenge,cloudevents"), Some(VerificationMethods::default()));
    }

    #[test]
    fn the_handshake_needs_one_origin_and_a_valid_rate() {
        let decide = |origins: &[&str], rates: &[&str]| {
            let owned = |values: &[&str]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
            allowed_per_minute("events.example.com", &owned(origins), &owned(rates))
                .map_err(|error| error.to_string())
        };
        for (origins, rates, allowed) in [
            (&["events.example.com"][..], &["120"][..], Some(120)),
            (&["Events.EXAMPLE.com"], &["*"], None),
            (&["*"], &["1"], Some(1)),
            (&["*"], &[], None),
            (&["*"], &["0060"], Some(60)),
            (&["*"], &["2147483648"], Some(ALLOWED_PER_MINUTE_MAX)),
            (&["*"], &["99999999999999999999999999"], Some(ALLOWED_PER_MINUTE_MAX)),
        ] {
            assert_eq!(decide(origins, rates), Ok(allowed), "{origins:?} {rates:?}");
        }
        let long = "x".repeat(5_000);
        for (origins, rates, reason) in [
            (&[][..], &["120"][..], "has no header WebHook-Allowed-Origin"),
            (&[""], &["120"], "must be events.example.com or *, got \"\""),
            (&["example.com"], &["120"], "got \"example.com\""),
            (&["a.events.example.com"], &["120"], "got \"a.events.example.com\""),
            (&["https://events.example.com"], &["120"], "WebHook-Allowed-Origin must be"),
            (&["**"], &["120"], "got \"**\""),
            (&["events.example.com, b.example"], &["120"], "must have one value"),
            (&["events.example.com b.example"], &["120"], "must have one value"),
            (&["events.example.com", "events.example.com"], &["120"], "must have one value"),
            (&["*", "b.example"], &["120"], "must have one value"),
            (&["*"], &["0"], "WebHook-Allowed-Rate must be a whole number"),
            (&["*"], &["000"], "got \"000\""),
            (&["*"], &["-1"], "got \"-1\""),
            (&["*"], &["+1"], "got \"+1\""),
            (&["*"], &["1.5"], "got \"1.5\""),
            (&["*"], &["many"], "got \"many\""),
            (&["*"], &[""], "got \"\""),
            (&["*"], &["10", "10"], "got \"10, 10\""),
        ] {
            let error = decide(origins, rates).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
        let error = decide(&[&long], &[]).expect_err("a long header");
        assert!(error.len() < 300, "{error}");
    }
}
