//! Authenticates and authorizes requests before their body is read. Results of key lookups are cached for one second;
//! unknown keys are rate-limited per client address.

use crate::attempts::Exhausted;
use crate::peer::PeerAddress;
use crate::problem::{Problem, ProblemKind};
use crate::state::ApiState;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};
use posthaste_core::KeyId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{ApiKey, KeyHash, KeyRole, KeyStore as _, Stores};
use posthaste_core::tenant::Tenant;
use posthaste_services::metrics::AuthFailure;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// The time for which a valid key is cached. Another process may accept a revoked key for this long.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// The maximum number of cached valid keys.
const REMEMBERED_MAX: usize = 1_000;
/// The minimum interval between updates of a key's `last_used_at`.
const TOUCHED_EVERY: Duration = Duration::from_secs(60);
/// The maximum length of a key, in bytes. Longer keys are rejected without a query.
pub(crate) const KEY_BYTES_MAX: usize = 500;
/// The time for which an unknown key is cached.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// The maximum number of cached unknown keys.
const UNKNOWN_MAX: usize = 10_000;
/// The number of unknown keys that a client address may present in a burst. A person who mistypes a key needs a few. A
/// program that repeats one wrong key is rejected by the cache and uses at most one token per second.
pub(crate) const UNKNOWN_KEYS_BURST: u32 = 20;
/// The time after which a client address may present one more unknown key.
pub(crate) const UNKNOWN_KEYS_REFILL: Duration = Duration::from_secs(1);

/// Returns the hash under which a key is stored and looked up.
pub fn key_hash(key: &str) -> KeyHash {
    KeyHash(Sha256::digest(key.as_bytes()).into())
}

/// The id of the key that authenticated a request, for its log line. `None` for the root key, which has no row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller(pub(crate) Option<KeyId>);

/// The holder of a valid key: `POSTHASTE_ROOT_KEY` or a key stored in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    Root,
    Key(ApiKey),
}

impl Holder {
    pub(crate) const fn role(&self) -> KeyRole {
        match self {
            Self::Root => KeyRole::Root,
            Self::Key(key) => key.role,
        }
    }

    pub(crate) const fn key_id(&self) -> Option<KeyId> {
        match self {
            Self::Root => None,
            Self::Key(key) => Some(key.id),
        }
    }

    /// Returns the objects that the key may see and change.
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::Root => Scope::default(),
            Self::Key(key) => Scope::of(key.tenant.clone()),
        }
    }

    /// Returns the actor to record in the audit.
    pub(crate) fn actor(&self, address: Option<IpAddr>) -> Actor {
        match self {
            Self::Root => Actor::root(address),
            Self::Key(key) => Actor::key(key.id, key.name.clone(), address),
        }
    }
}

/// The objects that a key may see and change: those of one tenant, or of all tenants. Handlers get it as an extension
/// of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scope(Option<Tenant>);

impl Scope {
    pub(crate) const fn of(tenant: Option<Tenant>) -> Self {
        Self(tenant)
    }

    /// Returns the tenant to which the key is bound, or `None` if it may see all tenants.
    pub(crate) const fn tenant(&self) -> Option<&Tenant> {
        self.0.as_ref()
    }

    /// Returns whether the key may see an object of `owner`.
    pub(crate) fn allows(&self, owner: Option<&Tenant>) -> bool {
        self.0.is_none() || self.0.as_ref() == owner
    }

    /// Returns the tenant by which a list is filtered, or `None` if no object can match: the key is bound to a tenant
    /// and the filter asks for another one.
    pub(crate) fn restrict(&self, filter: Option<Tenant>) -> Option<Option<Tenant>> {
        match (&self.0, filter) {
            (None, filter) => Some(filter),
            (Some(bound), None) => Some(Some(bound.clone())),
            (Some(bound), Some(filter)) => (*bound == filter).then_some(Some(filter)),
        }
    }
}

/// Whether keys that are bound to a tenant may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundKeys {
    /// The operation concerns the installation as a whole.
    Refused,
    /// The handler applies the [`Scope`] of the key to everything that it reads and changes.
    Scoped,
}

/// The way in which a key was presented. Used as a metric label and a log field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presented {
    ApiKey,
    SignIn,
    Session,
}

impl Presented {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::SignIn => "sign_in",
            Self::Session => "session",
        }
    }

    pub(crate) const fn unknown(self) -> AuthFailure {
        AuthFailure { kind: self.as_str(), reason: "unknown" }
    }

    pub(crate) const fn rate_limited(self) -> AuthFailure {
        AuthFailure { kind: self.as_str(), reason: "rate_limited" }
    }
}

/// Calls the next handler if the key of the request has the required role, and is not bound to a tenant unless `bound`
/// allows it. Adds the [`Actor`] and the [`Scope`] to the request as extensions.
pub(crate) async fn admit<S: Stores>(
    api: Arc<ApiState<S>>,
    needs: KeyRole,
    bound: BoundKeys,
    mut request: Request,
    next: Next,
) -> Response {
    let address = peer(request.extensions());
    match authorize(&api, needs, bound, client(&request), request.headers()).await {
        Ok(holder) => {
            let caller = Caller(holder.key_id());
            request.extensions_mut().insert(holder.actor(address));
            request.extensions_mut().insert(holder.scope());
            let counted = api.responses.count(next.run(request).await);
            let mut response = counted.unwrap_or_else(Problem::into_response);
            response.extensions_mut().insert(caller);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Returns the client address of a request, or the unspecified address if the request has none, as in tests without a
/// server.
pub(crate) fn client(request: &Request) -> PeerAddress {
    let unknown = PeerAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    request.extensions().get::<PeerAddress>().copied().unwrap_or(unknown)
}

async fn authorize<S: Stores>(
    api: &Arc<ApiState<S>>,
    needs: KeyRole,
    bound: BoundKeys,
    client: PeerAddress,
    headers: &HeaderMap,
) -> Result<Holder, Problem> {
    let hash = bearer(headers).map(key_hash)?;
    let holder = check_key(api, hash, client, Presented::ApiKey).await?;
    let holder =
        holder.ok_or_else(|| unauthorized("the API key is unknown or was revoked: use a valid one"))?;
    if !may(holder.role(), needs) {
        let (role, needs) = (holder.role().as_str(), needs.as_str());
        let detail = format!("this call requires a key of role {needs} or root, not {role}");
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    if bound == BoundKeys::Refused && holder.scope().tenant().is_some() {
        let detail = "this call concerns all tenants: use a key that is not bound to a tenant";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok(holder)
}

/// Returns the holder of a key, or `None` if the key is unknown.
///
/// # Errors
///
/// Returns a problem with status 429 if the address has presented too many unknown keys. Keys that were valid within
/// the last minute are exempt, so that one client cannot lock out other clients behind the same address.
pub(crate) async fn check_key<S: Stores>(
    api: &Arc<ApiState<S>>,
    hash: KeyHash,
    client: PeerAddress,
    presented: Presented,
) -> Result<Option<Holder>, Problem> {
    let now = Instant::now();
    if let Some(holder) = api.known_keys.get(hash, now) {
        return Ok(Some(holder));
    }
    if api.unknown_keys.contains(hash, now) {
        api.metrics.auth_failures.get_or_create(&presented.unknown()).inc();
        return Ok(None);
    }
    if !api.known_keys.was_known(hash, now)
        && let Err(exhausted) = api.unknown_attempts.check(client, now)
    {
        api.metrics.auth_failures.get_or_create(&presented.rate_limited()).inc();
        return Err(too_many(exhausted));
    }
    let found = find(api, hash).await?;
    if found.is_none() {
        let now = Instant::now();
        api.unknown_keys.insert(hash, now);
        api.unknown_attempts.record_failure(client, now);
        api.metrics.auth_failures.get_or_create(&presented.unknown()).inc();
        // The rate limit bounds the number of these log lines.
        tracing::warn!(client = %client.0, kind = presented.as_str(), "unknown key refused");
    }
    Ok(found)
}

pub(crate) fn too_many(exhausted: Exhausted) -> Problem {
    let detail = "this address has sent too many unknown keys: try again after the time in Retry-After";
    Problem {
        retry_after_s: Some(exhausted.retry_after_s),
        ..Problem::of(ProblemKind::TooManyRequests, detail)
    }
}

/// Returns the client address of a request, for the audit.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<PeerAddress>().map(|PeerAddress(address)| *address)
}

/// Returns whether `hash` is the hash of `POSTHASTE_ROOT_KEY`, which is not stored in the database.
fn is_root<S: Stores>(api: &ApiState<S>, hash: KeyHash) -> bool {
    api.root_key.is_some_and(|root| bool::from(root.0.ct_eq(&hash.0)))
}

/// Returns whether a key with the role `role` may call an operation that requires the role `needs`.
pub(crate) const fn may(role: KeyRole, needs: KeyRole) -> bool {
    match role {
        KeyRole::Root => true,
        KeyRole::Admin => matches!(needs, KeyRole::Admin | KeyRole::Viewer),
        KeyRole::Operator => matches!(needs, KeyRole::Operator | KeyRole::Viewer),
        KeyRole::Viewer => matches!(needs, KeyRole::Viewer),
        KeyRole::Ingest => matches!(needs, KeyRole::Ingest),
        KeyRole::Orders => matches!(needs, KeyRole::Orders),
    }
}

fn unauthorized(detail: &str) -> Problem {
    Problem::of(ProblemKind::Unauthorized, detail)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = value.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    key.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))
        .ok_or_else(|| unauthorized("an API key is required: send the header authorization: Bearer <key>"))
}

/// Returns the holder of a key from the cache or the store, or `None` if the key is unknown or revoked.
pub(crate) async fn find<S: Stores>(
    api: &Arc<ApiState<S>>,
    hash: KeyHash,
) -> Result<Option<Holder>, Problem> {
    let now = Instant::now();
    if let Some(holder) = api.known_keys.get(hash, now) {
        return Ok(Some(holder));
    }
    if is_root(api, hash) {
        api.known_keys.put(hash, Holder::Root, now);
        return Ok(Some(Holder::Root));
    }
    let Some(key) = api.keys.find_key(hash).await? else { return Ok(None) };
    let id = key.id;
    let holder = Holder::Key(key);
    if api.known_keys.put(hash, holder.clone(), now) {
        let api = Arc::clone(api);
        // Runs in a separate task, so that the request neither waits for the update nor fails with it.
        tokio::spawn(async move {
            if let Err(error) = api.keys.touch_key(id, api.clock.now()).await {
                tracing::debug!(key_id = %id, %error, "last use of a key could not be recorded");
            }
        });
    }
    Ok(Some(holder))
}

/// A cache of the hashes of unknown keys.
#[derive(Debug, Default)]
pub(crate) struct UnknownKeys(Mutex<HashMap<[u8; 32], Instant>>);

impl UnknownKeys {
    fn contains(&self, hash: KeyHash, now: Instant) -> bool {
        let unknown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.get(&hash.0).is_some_and(|missed| now.saturating_duration_since(*missed) < UNKNOWN_FOR)
    }

    fn insert(&self, hash: KeyHash, now: Instant) {
        let mut unknown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unknown.len() >= UNKNOWN_MAX {
            unknown.retain(|_, missed| now.saturating_duration_since(*missed) < UNKNOWN_FOR);
        }
        if unknown.len() >= UNKNOWN_MAX {
            unknown.clear();
        }
        unknown.insert(hash.0, now);
    }
}

/// A cache of valid keys, indexed by hash.
#[derive(Debug, Default)]
pub(crate) struct KeyCache(Mutex<HashMap<[u8; 32], Known>>);

#[derive(Debug)]
struct Known {
    holder: Holder,
    found: Instant,
    touched: Instant,
}

impl KeyCache {
    /// Returns whether a key was valid within the last minute. The key may have been revoked since.
    fn was_known(&self, hash: KeyHash, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&hash.0).is_some_and(|known| now.saturating_duration_since(known.found) < TOUCHED_EVERY)
    }

    fn get(&self, hash: KeyHash, now: Instant) -> Option<Holder> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&hash.0)?;
        (now.saturating_duration_since(known.found) < REMEMBERED_FOR).then(|| known.holder.clone())
    }

    /// Inserts a key. Returns whether its `last_used_at` is due for an update.
    fn put(&self, hash: KeyHash, holder: Holder, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, known| now.saturating_duration_since(known.found) < TOUCHED_EVERY);
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        let before = known.get(&hash.0).map(|known| known.touched);
        let touched = before.filter(|touched| now.saturating_duration_since(*touched) < TOUCHED_EVERY);
        known.insert(hash.0, Known { holder, found: now, touched: touched.unwrap_or(now) });
        touched.is_none()
    }

    /// Removes a key from the cache, so that this process rejects it immediately.
    pub(crate) fn forget(&self, id: KeyId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, known| known.holder.key_id() != Some(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::Timestamp;

    fn key(id: i64) -> Holder {
        let created_at = Timestamp::from_micros(0);
        let (last_used_at, revoked_at, name) = (None, None, "test".to_owned());
        Holder::Key(ApiKey {
            id: KeyId::from_store(id),
            name,
            role: KeyRole::Viewer,
            tenant: None,
            created_at,
            last_used_at,
            revoked_at,
        })
    }

    #[test]
    fn a_key_is_cached_for_a_second_and_its_use_recorded_once_a_minute() {
        let (cache, hash, begin) = (KeyCache::default(), key_hash("one"), Instant::now());
        let after = |ms| begin + Duration::from_millis(ms);
        assert_eq!(cache.get(hash, begin), None);
        assert!(cache.put(hash, key(1), begin));
        assert_eq!(cache.get(hash, after(999)), Some(key(1)));
        assert_eq!(cache.get(hash, after(1_000)), None);
        assert!(!cache.put(hash, key(1), after(30_000)));
        assert!(cache.put(hash, key(1), after(60_000)));
        cache.forget(KeyId::from_store(1));
        assert_eq!(cache.get(hash, after(60_000)), None);
    }

    #[test]
    fn the_cache_of_keys_is_bounded() {
        let (cache, now) = (KeyCache::default(), Instant::now());
        for id in 1..=3_000 {
            cache.put(key_hash(&id.to_string()), key(id), now);
        }
        assert!(cache.0.lock().expect("the map").len() <= REMEMBERED_MAX);
    }

    #[test]
    fn an_unknown_key_is_cached_for_a_second() {
        let (unknown, begin) = (UnknownKeys::default(), Instant::now());
        let after = |ms| begin + Duration::from_millis(ms);
        assert!(!unknown.contains(key_hash("one"), begin));
        unknown.insert(key_hash("one"), begin);
        assert!(unknown.contains(key_hash("one"), after(999)) && !unknown.contains(key_hash("two"), begin));
        assert!(!unknown.contains(key_hash("one"), after(1_000)));
        for number in 0..2 * UNKNOWN_MAX {
            unknown.insert(key_hash(&number.to_string()), begin);
        }
        assert!(unknown.0.lock().expect("the map").len() <= UNKNOWN_MAX);
    }
}
