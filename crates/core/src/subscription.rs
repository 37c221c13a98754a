//! Subscriptions: their fields, validation and changes. A subscription specifies which events are delivered to a
//! callback URL, and how.

use crate::envelope::Envelope;
use crate::filter::Filter;
use crate::identity::{SubscriptionName, Uid};
use crate::ids::{SecretRef, SubscriptionId};
use crate::metadata::Metadata;
use crate::pattern::EventTypePatterns;
use crate::request::{Auth, RequestHeaders};
use crate::signature::Signatures;
use crate::tenant::Tenant;
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

/// A column of a subscription that stores a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretColumn {
    Current,
    Previous,
    Older,
    /// The credentials of requests: see [`crate::request::Credentials`].
    Credentials,
}

impl SecretColumn {
    /// Returns the name of the column in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "secret",
            Self::Previous => "previous_secret",
            Self::Older => "older_secret",
            Self::Credentials => "credentials",
        }
    }
}

/// The row and the column in which a secret is stored. An encrypted secret can be decrypted only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretPlace {
    pub secret_ref: SecretRef,
    pub column: SecretColumn,
}

/// A replaced signing secret, and the time until which it is used.
pub type ExpiringSecret = (SealedSecret, Timestamp);

/// The secrets of a subscription. Requests are signed with the current signing secret, and with replaced ones until
/// they expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets {
    pub secret_ref: SecretRef,
    pub current: SealedSecret,
    pub previous: Option<ExpiringSecret>,
    /// The secret before `previous`.
    pub older: Option<ExpiringSecret>,
    pub credentials: Option<SealedSecret>,
}

impl Secrets {
    /// Returns the place of the secret in a column.
    pub const fn place(&self, column: SecretColumn) -> SecretPlace {
        SecretPlace { secret_ref: self.secret_ref, column }
    }

    /// Returns the replaced signing secrets, newest first, each with its column.
    pub fn replaced(&self) -> impl Iterator<Item = (SecretColumn, &ExpiringSecret)> {
        let previous = self.previous.as_ref().map(|secret| (SecretColumn::Previous, secret));
        previous.into_iter().chain(self.older.as_ref().map(|secret| (SecretColumn::Older, secret)))
    }

    /// Returns the secrets that sign requests, newest first, each with its place.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = (SecretPlace, &SealedSecret)> {
        let current = (self.place(SecretColumn::Current), &self.current);
        let replaced = self.replaced().filter(move |(_, (_, until))| now < *until);
        std::iter::once(current).chain(replaced.map(|(column, (secret, _))| (self.place(column), secret)))
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

/// The revision of a subscription, which every change increases.
pub type Revision = i64;

/// How a callback URL was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationMethod {
    /// The receiver returned a signed challenge.
    Challenge,
    /// The receiver allowed the origin in the handshake of CloudEvents (OPTIONS).
    Cloudevents,
    /// An administrator vouched for the URL.
    Asserted,
}

impl VerificationMethod {
    pub const ALL: [Self; 3] = [Self::Challenge, Self::Cloudevents, Self::Asserted];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Cloudevents => "cloudevents",
            Self::Asserted => "asserted",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }
}

/// The evidence that a callback URL was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerificationRecord {
    pub method: VerificationMethod,
    pub verified_at: Timestamp,
    /// The name of the API key with which the verification was requested.
    pub verified_by: Option<String>,
    /// The number of requests per minute that the receiver allows. `None` if it set no limit.
    pub allowed_per_minute: Option<u32>,
}

/// A valid subscription that has not been stored. It is stored as unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSubscription {
    pub tenant: Option<Tenant>,
    pub uid: Option<Uid>,
    pub name: Option<SubscriptionName>,
    pub metadata: Metadata,
    pub event_types: EventTypePatterns,
    pub filter: Option<Filter>,
    pub callback_url: CallbackUrl,
    pub active: bool,
    pub max_retry_limit: Option<u32>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
    pub signatures: Signatures,
    pub public_key: Option<String>,
    pub headers: RequestHeaders,
    pub auth: Option<Auth>,
    pub envelope: Envelope,
    pub secret_ref: SecretRef,
    pub secret: SealedSecret,
    pub credentials: Option<SealedSecret>,
}

impl NewSubscription {
    /// Creates a subscription that uses the server's defaults for all optional fields.
    pub fn new(
        event_types: EventTypePatterns,
        callback_url: CallbackUrl,
        secret_ref: SecretRef,
        secret: SealedSecret,
    ) -> Self {
        Self {
            tenant: None,
            uid: None,
            name: None,
            metadata: Metadata::default(),
            event_types,
            filter: None,
            callback_url,
            active: true,
            max_retry_limit: None,
            timeout: None,
            description: None,
            signatures: Signatures::default(),
            public_key: None,
            headers: RequestHeaders::default(),
            auth: None,
            envelope: Envelope::default(),
            secret_ref,
            secret,
            credentials: None,
        }
    }
}

/// A subscription without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub tenant: Option<Tenant>,
    /// The caller's own id, unique within the tenant among subscriptions that are not deleted.
    pub uid: Option<Uid>,
    pub name: Option<SubscriptionName>,
    pub metadata: Metadata,
    pub event_types: EventTypePatterns,
    pub filter: Option<Filter>,
    pub callback_url: CallbackUrl,
    pub active: bool,
    pub verified: bool,
    /// `None` if the URL is not verified, or was verified by a version that kept no record.
    pub verification: Option<VerificationRecord>,
    pub max_retry_limit: Option<u32>,
    pub timeout: Option<Duration>,
    pub description: Option<String>,
    pub signatures: Signatures,
    pub public_key: Option<String>,
    pub headers: RequestHeaders,
    pub auth: Option<Auth>,
    pub envelope: Envelope,
    pub revision: Revision,
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
    pub uid: Option<Option<Uid>>,
    pub name: Option<Option<SubscriptionName>>,
    pub metadata: Option<Metadata>,
    pub event_types: Option<EventTypePatterns>,
    pub filter: Option<Option<Filter>>,
    pub callback_url: Option<CallbackUrl>,
    pub active: Option<bool>,
    pub max_retry_limit: Option<Option<u32>>,
    pub timeout: Option<Option<Duration>>,
    pub description: Option<Option<String>>,
    pub signatures: Option<Signatures>,
    pub public_key: Option<Option<String>>,
    pub headers: Option<RequestHeaders>,
    pub auth: Option<Option<Auth>>,
    pub envelope: Option<Envelope>,
    /// The credentials in their stored form.
    pub credentials: Option<Option<SealedSecret>>,
}

impl SubscriptionPatch {
    /// Returns the subscription after the change, or `None` if no field differs and there are no new credentials. A new
    /// callback URL is unverified.
    pub fn apply(self, before: &Subscription, now: Timestamp) -> Option<Subscription> {
        let has_credentials = self.credentials.is_some();
        let mut after = Subscription {
            uid: self.uid.unwrap_or_else(|| before.uid.clone()),
            name: self.name.unwrap_or_else(|| before.name.clone()),
            metadata: self.metadata.unwrap_or_else(|| before.metadata.clone()),
            event_types: self.event_types.unwrap_or_else(|| before.event_types.clone()),
            filter: self.filter.unwrap_or_else(|| before.filter.clone()),
            callback_url: self.callback_url.unwrap_or_else(|| before.callback_url.clone()),
            active: self.active.unwrap_or(before.active),
            max_retry_limit: self.max_retry_limit.unwrap_or(before.max_retry_limit),
            timeout: self.timeout.unwrap_or(before.timeout),
            description: self.description.unwrap_or_else(|| before.description.clone()),
            signatures: self.signatures.unwrap_or_else(|| before.signatures.clone()),
            public_key: self.public_key.unwrap_or_else(|| before.public_key.clone()),
            headers: self.headers.unwrap_or_else(|| before.headers.clone()),
            auth: self.auth.unwrap_or_else(|| before.auth.clone()),
            envelope: self.envelope.unwrap_or(before.envelope),
            ..before.clone()
        };
        if after.callback_url != before.callback_url {
            (after.verified, after.verification) = (false, None);
        }
        let is_changed = after != *before || has_credentials;
        is_changed.then_some(Subscription { updated_at: now, revision: before.revision + 1, ..after })
    }
}

#[cfg(test)]
impl Subscription {
    pub(crate) fn example() -> Self {
        let at = Timestamp::from_micros(0);
        Self {
            id: SubscriptionId::from_store(3),
            tenant: None,
            uid: None,
            name: None,
            metadata: Metadata::default(),
            event_types: EventTypePatterns::from_store(vec!["order.paid".to_owned()]),
            filter: None,
            callback_url: CallbackUrl::from_store("https://example.com/hook".to_owned()),
            active: true,
            verified: true,
            verification: None,
            max_retry_limit: None,
            timeout: None,
            description: None,
            signatures: Signatures::default(),
            public_key: None,
            headers: RequestHeaders::default(),
            auth: None,
            envelope: Envelope::default(),
            revision: 1,
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
            revision: 2,
            updated_at: now,
            ..before.clone()
        };
        assert_eq!(patch.apply(&before, now), Some(after));
    }

    #[test]
    fn replaced_secrets_are_used_until_they_expire() {
        let expiring = |text: &str, until| Some((SealedSecret::new(text), Timestamp::from_micros(until)));
        let secrets = Secrets {
            secret_ref: SecretRef::from_bits(7),
            current: SealedSecret::new("current"),
            previous: expiring("previous", 5),
            older: expiring("older", 9),
            credentials: None,
        };
        let live = |now| {
            let of = secrets.live(Timestamp::from_micros(now));
            of.map(|(place, secret)| (place.column.name(), secret.expose())).collect::<Vec<_>>()
        };
        let (current, older) = (("secret", "current"), ("older_secret", "older"));
        assert_eq!(live(4), [current, ("previous_secret", "previous"), older]);
        assert_eq!(live(5), [current, older]);
        assert_eq!(live(9), [current]);
    }

    #[test]
    fn new_credentials_are_a_change() {
        let (before, now) = (Subscription::example(), Timestamp::from_micros(7));
        let patch = SubscriptionPatch { credentials: Some(None), ..SubscriptionPatch::default() };
        assert_eq!(patch.apply(&before, now).map(|after| after.revision), Some(2));
        assert_eq!(SubscriptionPatch::default().apply(&before, now), None);
    }

    #[test]
    fn secret_is_not_printed() {
        assert_eq!(format!("{:?}", SealedSecret::new("whsec_x")), "SealedSecret(…)");
    }
}
