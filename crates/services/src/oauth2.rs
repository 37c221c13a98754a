//! Access tokens for deliveries to receivers that require OAuth 2.0 client credentials (RFC 6749, section 4.4).
//! The worker and the API ask for a token before each request. The [`TokenCache`] fetches tokens through the
//! [`Sender`] and its address policy, one request at a time for the same credentials, and keeps them until shortly
//! before they expire.
//!
//! The client authenticates with HTTP Basic only (section 2.3.1), which every token endpoint must support for
//! clients with a secret. The same section advises against sending the secret in the body, and falling back to it
//! would pass the secret to an endpoint that has just refused it.

mod response;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use posthaste_core::Timestamp;
use posthaste_core::outcome::Failure;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

use crate::egress::Destination;
use crate::lru::LruMap;
use crate::sender::{AGENT, OutgoingRequest, ReadUpTo, Sender};

/// The time limit for fetching a token.
const FETCH_DEADLINE: Duration = Duration::from_secs(10);
/// The time for which a failed fetch is not repeated, so that a token endpoint that hangs or refuses us does not get
/// a request for each delivery. A token younger than this is not replaced, for the same reason.
const REFETCH_AFTER: Duration = Duration::from_secs(5);
/// The maximum number of credentials for which a token or an error is remembered.
const ENTRIES_MAX: usize = 1_000;
/// The maximum size of the response of a token endpoint, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;

/// The reason why there is no access token. The messages contain no part of the response except its error code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the request to the token endpoint failed: {}", .0.code())]
    NoResponse(Failure),
    #[error("the token endpoint did not respond within {} s", FETCH_DEADLINE.as_secs())]
    Hung,
    #[error("the token endpoint returned status {status}{}", in_parentheses(.error.as_deref()))]
    Refused { status: u16, error: Option<String> },
    #[error("the response of the token endpoint broke off")]
    BrokenOff,
    #[error("the response of the token endpoint is longer than {RESPONSE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the token endpoint returned HTML instead of JSON: check token_url")]
    Html,
    #[error("the response of the token endpoint is not a JSON object")]
    NotJson,
    #[error("the response of the token endpoint has no access_token")]
    NoToken,
    #[error(
        "the access_token of the token endpoint must be 1 to {} visible ASCII characters",
        response::TOKEN_BYTES_MAX
    )]
    BadToken,
    #[error("the token_type of the token endpoint must be bearer")]
    NotBearer,
    #[error("the expires_in of the token endpoint must be a number of seconds that is not negative")]
    BadLifetime,
    #[error("no access token was received before the deadline of the request")]
    Deadline,
    #[error("the request to the token endpoint was aborted")]
    Aborted,
}

fn in_parentheses(code: Option<&str>) -> String {
    code.map_or_else(String::new, |code| format!(" ({code})"))
}

impl TokenError {
    /// Returns the failure to report for an attempt without a token.
    pub const fn failure(&self) -> Failure {
        Failure::AuthFailed
    }
}

/// The credentials of a client at a token endpoint.
#[derive(Clone, Copy)]
pub struct ClientCredentials<'a> {
    pub token_url: &'a str,
    pub client_id: &'a str,
    pub client_secret: &'a str,
    pub scope: Option<&'a str>,
    pub audience: Option<&'a str>,
}

/// Omits the secret, and the URL, which may contain a token.
impl fmt::Debug for ClientCredentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// An access token, in the form of an `Authorization` header. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(Arc<str>);

impl AccessToken {
    /// Returns the value of the `Authorization` header: `Bearer` and the token.
    pub fn authorization(&self) -> &str {
        &self.0
    }
}

/// Omits the token.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccessToken").finish_non_exhaustive()
    }
}

/// The digest of all parts of the credentials, including the secret.
type CredentialsKey = [u8; 32];
type Fetched = Result<AccessToken, TokenError>;

#[derive(Debug, Clone)]
enum Entry {
    Fetching(watch::Receiver<Option<Fetched>>),
    Fetched { token: AccessToken, since: Instant, until: Instant },
    Failed { error: TokenError, until: Instant },
}

/// Fetches and caches access tokens. Cheap to clone; clones share the cache.
#[derive(Debug, Clone)]
pub struct TokenCache {
    sender: Sender,
    entries: Arc<Mutex<LruMap<CredentialsKey, Entry>>>,
}

impl TokenCache {
    pub fn new(sender: Sender) -> Self {
        Self { sender, entries: Arc::new(Mutex::new(LruMap::new(ENTRIES_MAX))) }
    }

    /// Returns a token from the cache, or waits for a new one until `until`. The fetch has its own deadline and
    /// continues if this caller no longer waits. `now` is the current time; a token is kept from then on.
    ///
    /// # Errors
    ///
    /// Returns the error of a fetch that failed up to [`REFETCH_AFTER`] ago without another request.
    pub async fn token(
        &self,
        credentials: &ClientCredentials<'_>,
        now: Instant,
        until: Instant,
    ) -> Result<AccessToken, TokenError> {
        let mut fetching = match self.find_or_fetch(credentials, now) {
            Entry::Fetched { token, .. } => return Ok(token),
            Entry::Failed { error, .. } => return Err(error),
            Entry::Fetching(fetching) => fetching,
        };
        match timeout_at(until, fetching.wait_for(Option::is_some)).await {
            Ok(Ok(fetched)) => fetched.clone().unwrap_or(Err(TokenError::Aborted)),
            Ok(Err(_)) => Err(TokenError::Aborted),
            Err(_) => Err(TokenError::Deadline),
        }
    }

    /// Removes a token that a receiver refused with status 401, so that the next request fetches a new one. Has no
    /// effect if the token was replaced already, or is so new that another one would be refused too.
    pub fn invalidate(&self, credentials: &ClientCredentials<'_>, refused: &AccessToken, now: Instant) {
        let key = credentials.key();
        let mut entries = self.lock();
        if let Some(Entry::Fetched { token, since, .. }) = entries.get(&key)
            && token == refused
            && now.duration_since(*since) >= REFETCH_AFTER
        {
            entries.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruMap<CredentialsKey, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry that is valid at `now`. If there is none, starts a fetch.
    fn find_or_fetch(&self, credentials: &ClientCredentials<'_>, now: Instant) -> Entry {
        let key = credentials.key();
        let mut entries = self.lock();
        if let Some(valid) = entries.get(&key).filter(|entry| entry.is_valid(now)) {
            return valid.clone();
        }
        let (fetched, fetching) = watch::channel(None);
        entries.insert(key, Entry::Fetching(fetching.clone()));
        drop(entries);
        let to = self.sender.aim(credentials.token_url);
        tokio::spawn(self.clone().fetch(key, to, credentials.request(), now, fetched));
        Entry::Fetching(fetching)
    }

    async fn fetch(
        self,
        key: CredentialsKey,
        to: Result<Destination, Failure>,
        request: OutgoingRequest,
        now: Instant,
        fetched: watch::Sender<Option<Fetched>>,
    ) {
        let began = Instant::now();
        let answer = match &to {
            // The time would be needed for a date in `Retry-After`, which is not used.
            Ok(to) => {
                let exchange = self.sender.send(to, request, Timestamp::from_micros(0)).await;
                response::read(&exchange, FETCH_DEADLINE)
            }
            Err(failure) => Err(TokenError::NoResponse(*failure)),
        };
        let (entry, result) = match answer {
            Ok(response::Token { token, keep }) => {
                (Entry::Fetched { token: token.clone(), since: now, until: now + keep }, Ok(token))
            }
            Err(error) => {
                let token_endpoint = to.as_ref().map_or("", |to| to.origin.as_str());
                tracing::warn!(token_endpoint, %error, "no access token, attempts that need it fail");
                let until = now + began.elapsed() + REFETCH_AFTER;
                (Entry::Failed { error: error.clone(), until }, Err(error))
            }
        };
        // Stored before the waiting callers are woken up, so that none of them can start another fetch.
        self.lock().insert(key, entry);
        fetched.send_replace(Some(result));
    }
}

impl Entry {
    fn is_valid(&self, now: Instant) -> bool {
        match self {
            // An aborted fetch has dropped its sender.
            Self::Fetching(fetching) => fetching.has_changed().is_ok(),
            Self::Fetched { until, .. } | Self::Failed { until, .. } => now < *until,
        }
    }
}

impl ClientCredentials<'_> {
    /// Each part is preceded by its length, so that no two credentials have the same digest.
    fn key(&self) -> CredentialsKey {
        let mut digest = Context::new(&SHA256);
        let required = [self.token_url, self.client_id, self.client_secret].map(Some);
        for part in required.into_iter().chain([self.scope, self.audience]) {
            digest.update(&part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            digest.update(part.unwrap_or_default().as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest.finish().as_ref());
        key
    }

    fn request(&self) -> OutgoingRequest {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(mut basic) = HeaderValue::try_from(self.basic()) {
            basic.set_sensitive(true);
            headers.insert(AUTHORIZATION, basic);
        }
        let optional = [("scope", self.scope), ("audience", self.audience)];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let fields = [("grant_type", "client_credentials")].into_iter().chain(optional);
        let answer = ReadUpTo::Body { bytes_max: RESPONSE_BYTES_MAX };
        OutgoingRequest::form(headers, fields, answer, FETCH_DEADLINE)
    }

    /// Returns the value of the `Authorization` header. The id and the secret are form-encoded first.
    fn basic(&self) -> String {
        let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(self.client_id), encode(self.client_secret));
        format!("Basic {}", STANDARD.encode(pair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::EgressPolicy;
    use crate::sender::{KeepAlive, Trust};

    const CREDENTIALS: ClientCredentials<'static> = ClientCredentials {
        token_url: "https://login.example/token?key=hidden",
        client_id: "s6BhdRkqt3",
        client_secret: "gX1fBat3bV",
        scope: None,
        audience: None,
    };

    #[test]
    fn client_authenticates_with_encoded_id_and_secret() {
        // The example of RFC 6749, section 2.3.1.
        assert_eq!(CREDENTIALS.basic(), "Basic czZCaGRSa3F0MzpnWDFmQmF0M2JW");
        let special = ClientCredentials { client_id: "a:b c", client_secret: "ä+%", ..CREDENTIALS };
        assert_eq!(special.basic(), format!("Basic {}", STANDARD.encode("a%3Ab+c:%C3%A4%2B%25")));
    }

    #[test]
    fn each_part_of_the_credentials_is_part_of_the_key() {
        let others = [
            ClientCredentials { token_url: "https://login.example/", ..CREDENTIALS },
            ClientCredentials { client_id: "s6BhdRkqt", client_secret: "3gX1fBat3bV", ..CREDENTIALS },
            ClientCredentials { client_secret: "gX1fBat3bv", ..CREDENTIALS },
            ClientCredentials { scope: Some(""), ..CREDENTIALS },
            ClientCredentials { scope: Some("a"), ..CREDENTIALS },
            ClientCredentials { audience: Some("a"), ..CREDENTIALS },
        ];
        let mut keys: Vec<_> = others.iter().chain([&CREDENTIALS]).map(ClientCredentials::key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
    }

    #[test]
    fn secrets_are_not_displayed() {
        let token = AccessToken("Bearer hidden".into());
        let shown = format!("{CREDENTIALS:?} {token:?} {:?}", CREDENTIALS.request());
        assert!(!shown.contains("hidden") && !shown.contains("gX1fBat3bV"), "{shown}");
    }

    /// The clock jumps to the next deadline whenever all tasks wait, so the test takes no time.
    #[tokio::test(start_paused = true)]
    async fn endpoint_that_hangs_is_remembered_and_delays_no_caller_beyond_its_deadline() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let token_url = format!("http://{}/", listener.local_addr().expect("an address"));
        let credentials = ClientCredentials { token_url: &token_url, ..CREDENTIALS };
        let policy = EgressPolicy {
            allow_http: true,
            allow_cidrs: vec!["127.0.0.0/8".parse().expect("a network")],
            ..EgressPolicy::default()
        };
        let sender = Sender::new(policy, Trust::nobody(), KeepAlive::default()).expect("a sender");
        let (cache, start) = (TokenCache::new(sender), Instant::now());
        let ask = |at: u64, wait: u64| {
            let now = start + Duration::from_secs(at);
            let (cache, credentials) = (&cache, &credentials);
            async move {
                let began = Instant::now();
                let token = cache.token(credentials, now, began + Duration::from_secs(wait)).await;
                (token.err(), began.elapsed().as_secs())
            }
        };
        let (impatient, patient) = tokio::join!(ask(0, 2), ask(0, 60));
        assert_eq!(impatient, (Some(TokenError::Deadline), 2));
        assert_eq!(patient, (Some(TokenError::Hung), 10));
        assert_eq!(ask(10, 60).await, (Some(TokenError::Hung), 0), "remembered");
        assert_eq!(ask(14, 60).await, (Some(TokenError::Hung), 0));
        assert_eq!(ask(16, 60).await, (Some(TokenError::Hung), 10), "fetched again");
    }
}
