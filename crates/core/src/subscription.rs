//! Subscriptions: their fields, validation and changes. A subscription specifies the event type that is
//! delivered to a callback URL.

use crate::event::EventType;
use crate::ids::{SecretRef, SubscriptionId};
use crate::time::Timestamp;
use std::fmt;
use std::time::Duration;
use url::Url;

/// The maximum length of a callback URL, in bytes.
pub const CALLBACK_URL_BYTES_MAX: usize = 2_000;
/// The maximum length of a description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 1_000;

/// An error from validating a subscription.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    #[error("callback_url must be an absolute URL with a host: {0}")]
    NotAUrl(String),
    #[error("callback_url must be at most {CALLBACK_URL_BYTES_MAX} bytes long")]
    UrlTooLong,
    #[error("callback_url must use https (http needs POSTHASTE_ALLOW_HTTP=true), not {0}")]
    Scheme(String),
    #[error(
        "callback_url must not contain a user name or a password: receivers authenticate Posthaste by its signature"
    )]
    UserInfo,
    #[error("callback_url must not have a fragment (the part after #), which is never sent")]
    Fragment,
    #[error("description must be at most {DESCRIPTION_CHARS_MAX} characters, none of them U+0000")]
    Description,
}

/// The URL to which deliveries are sent. Its syntax is validated here; the address is checked before every
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallbackUrl(String);

impl CallbackUrl {
    pub fn parse(text: &str, allow_http: bool) -> Result<Self, SubscriptionError> {
        if text.len() > CALLBACK_URL_BYTES_MAX {
            return Err(SubscriptionError::UrlTooLong);
        }
        let url = Url::parse(text).map_err(|error| SubscriptionError::NotAUrl(error.to_string()))?;
        match url.scheme() {
            "https" => {}
            "http" if allow_http => {}
            other => return Err(SubscriptionError::Scheme(other.to_owned())),
        }
        if !url.has_host() {
            return Err(SubscriptionError::NotAUrl("it has no host".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SubscriptionError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(SubscriptionError::Fragment);
        }
        let normal = String::from(url);
        if normal.len() > CALLBACK_URL_BYTES_MAX {
            return Err(SubscriptionError::UrlTooLong);
        }
        Ok(Self(normal))
    }

    /// Creates a URL from stored text, without validation.
    pub fn from_store(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A signing secret in its stored form, which may be encrypted. The debug output omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret(String);

impl SealedSecret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the stored form of the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedSecret(…)")
    }
}

/// A column of a subscription that stores a signing secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretColumn {
    Current,
    Previous,
}

impl SecretColumn {
    /// Returns the name of the column in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "secret",
            Self::Previous => "previous_secret",
        }
    }
}

/// The row and the column in which a secret is stored. An encrypted secret can be decrypted only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretPlace {
    pub secret_ref: SecretRef,
    pub column: SecretColumn,
}

/// The signing secrets of a subscription. The previous secret is also used until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets {
    pub secret_ref: SecretRef,
    pub current: SealedSecret,
    pub previous: Option<(SealedSecret, Timestamp)>,
}

impl Secrets {
    /// Returns the place of the secret in a column.
    pub const fn place(&self, column: SecretColumn) -> SecretPlace {
        SecretPlace { secret_ref: self.secret_ref, column }
    }

    /// Returns the previous secret, unless it has expired.
    pub fn live_previous(&self, now: Timestamp) -> Option<&SealedSecret> {
        self.previous.as_ref().filter(|(_, until)| now < *until).map(|(secret, _)| secret)
    }

    /// Returns the secrets that sign requests, each with its place: the current one, and the previous one until it
    /// expires.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = (SecretPlace, &SealedSecret)> {
        let current = (self.place(SecretColumn::Current), &self.current);
        let previous = self.live_previous(now).map(|secret| (self.place(SecretColumn::Previous), secret));
        std::iter::once(current).chain(previous)
    }
}

/// Checks the length and the characters of a subscription's description.
pub fn check_description(text: &str) -> Result<(), SubscriptionError> {
    if text.contains('\0') || text.chars().take(DESCRIPTION_CHARS_MAX + 1).count() > DESCRIPTION_CHARS_MAX {
        Err(SubscriptionError::Description)
    } else {
        Ok(())
    }
}

/// A valid subscription that has not been stored. It is stored as active and unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSubscription {
    pub event_type: EventType,
    pub callback_url: CallbackUrl,
    pub max_retry_limit: Option<u32>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
    pub secret_ref: SecretRef,
    pub secret: SealedSecret,
}

impl NewSubscription {
    /// Creates a subscription that uses the server's defaults for all optional fields.
    pub fn new(
        event_type: EventType,
        callback_url: CallbackUrl,
        secret_ref: SecretRef,
        secret: SealedSecret,
    ) -> Self {
        let (max_retry_limit, timeout, description) = (None, None, None);
        Self { event_type, callback_url, max_retry_limit, timeout, description, secret_ref, secret }
    }
}

/// A subscription without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub event_type: EventType,
    pub callback_url: CallbackUrl,
    pub active: bool,
    pub verified: bool,
    pub max_retry_limit: Option<u32>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// The state of a subscription. Only an active subscription receives deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Active,
    Paused,
    /// The callback URL is not verified. The subscription may also be paused.
    Unverified,
}

impl Standing {
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Unverified];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Unverified => "unverified",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == text)
    }

    pub const fn of(active: bool, verified: bool) -> Self {
        match (active, verified) {
            (_, false) => Self::Unverified,
            (false, true) => Self::Paused,
            (true, true) => Self::Active,
        }
    }
}

/// A change to a subscription. A field that is `None` is unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionPatch {
    pub event_type: Option<EventType>,
    pub callback_url: Option<CallbackUrl>,
    pub active: Option<bool>,
    pub max_retry_limit: Option<Option<u32>>,
    pub timeout: Option<Option<Duration>>,
    pub description: Option<Option<String>>,
}

impl SubscriptionPatch {
    /// Returns the subscription after the change, or `None` if no field differs. A new callback URL is
    /// unverified.
    pub fn apply(self, before: &Subscription, now: Timestamp) -> Option<Subscription> {
        let Self { event_type, callback_url, active, max_retry_limit, timeout, description } = self;
        let mut after = Subscription {
            event_type: event_type.unwrap_or_else(|| before.event_type.clone()),
            callback_url: callback_url.unwrap_or_else(|| before.callback_url.clone()),
            active: active.unwrap_or(before.active),
            max_retry_limit: max_retry_limit.unwrap_or(before.max_retry_limit),
            timeout: timeout.unwrap_or(before.timeout),
            description: description.unwrap_or_else(|| before.description.clone()),
            ..before.clone()
        };
        after.verified &= after.callback_url == before.callback_url;
        (after != *before).then_some(Subscription { updated_at: now, ..after })
    }
}

#[cfg(test)]
impl Subscription {
    pub(crate) fn example() -> Self {
        let at = Timestamp::from_micros(0);
        Self {
            id: SubscriptionId::from_store(3),
            event_type: EventType::from_store("order.paid".to_owned()),
            callback_url: CallbackUrl::from_store("https://example.com/hook".to_owned()),
            active: true,
            verified: true,
            max_retry_limit: None,
            timeout: None,
            description: None,
            created_at: at,
            updated_at: at,
            deleted_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_url_is_validated() {
        let check = |text: &str, allow_http: bool| CallbackUrl::parse(text, allow_http).map(|url| url.0);
        assert_eq!(check("https://example.com/hook", false).as_deref(), Ok("https://example.com/hook"));
        assert_eq!(check("HTTPS://EXAMPLE.com", false).as_deref(), Ok("https://example.com/"));
        assert_eq!(check("http://example.com/", true).as_deref(), Ok("http://example.com/"));
        let scheme = |text: &str| Err(SubscriptionError::Scheme(text.to_owned()));
        assert_eq!(check("http://example.com/", false), scheme("http"));
        assert_eq!(check("ftp://example.com/", true), scheme("ftp"));
        assert_eq!(check("https://user@example.com/", false), Err(SubscriptionError::UserInfo));
        assert_eq!(check("https://:pw@example.com/", false), Err(SubscriptionError::UserInfo));
        assert_eq!(check("https://example.com/#a", false), Err(SubscriptionError::Fragment));
        let long = format!("https://example.com/{}", "a".repeat(2_000));
        assert_eq!(check(&long, false), Err(SubscriptionError::UrlTooLong));
        for bad in ["", "example.com", "https://", "https:///", "/hook"] {
            assert!(matches!(check(bad, false), Err(SubscriptionError::NotAUrl(_))), "{bad}");
        }
    }

    #[test]
    fn a_patch_is_applied() {
        let now = Timestamp::from_micros(7);
        let before = Subscription { max_retry_limit: Some(3), ..Subscription::example() };
        let same_url = SubscriptionPatch {
            callback_url: Some(before.callback_url.clone()),
            active: Some(true),
            max_retry_limit: Some(Some(3)),
            ..SubscriptionPatch::default()
        };
        assert_eq!(same_url.apply(&before, now), None);
        let other_url = CallbackUrl::from_store("https://two.example/".to_owned());
        let patch = SubscriptionPatch {
            callback_url: Some(other_url.clone()),
            max_retry_limit: Some(None),
            ..SubscriptionPatch::default()
        };
        let after = Subscription {
            callback_url: other_url,
            verified: false,
            max_retry_limit: None,
            updated_at: now,
            ..before.clone()
        };
        assert_eq!(patch.apply(&before, now), Some(after));
    }

    #[test]
    fn previous_secret_is_used_until_it_expires() {
        let secret_ref = SecretRef::from_bits(7);
        let (current, previous) = (SealedSecret::new("current"), SealedSecret::new("previous"));
        let until = Timestamp::from_micros(5);
        let secrets = Secrets { secret_ref, current, previous: Some((previous, until)) };
        let live = |now| {
            let of = secrets.live(Timestamp::from_micros(now));
            of.map(|(place, secret)| (place.column.name(), secret.expose())).collect::<Vec<_>>()
        };
        assert_eq!(live(4), [("secret", "current"), ("previous_secret", "previous")]);
        assert_eq!(live(5), [("secret", "current")]);
    }

    #[test]
    fn secret_is_not_printed() {
        assert_eq!(format!("{:?}", SealedSecret::new("whsec_x")), "SealedSecret(…)");
    }
}
