//! Who calls, and whether they may: before a body is read or a store is asked for anything else. A key
//! that was found is remembered for a moment, so that a busy caller costs no query for each request.

use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use posthaste_core::KeyId;
use posthaste_core::ports::{ApiKey, KeyHash, KeyRole, KeyStore as _, Stores};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// How long a revoked key may still be taken.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// How many keys are remembered at once.
const REMEMBERED_MAX: usize = 1_000;
/// How often the use of a key is noted.
const TOUCHED_EVERY: Duration = Duration::from_secs(60);
/// The longest key that is looked at.
pub(crate) const KEY_BYTES_MAX: usize = 500;

/// What a key is known by.
pub fn key_hash(key: &str) -> KeyHash {
    KeyHash(Sha256::digest(key.as_bytes()).into())
}

/// The key behind a request, for its log line; the root key of the settings has no row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller(pub(crate) Option<KeyId>);

pub(crate) async fn admit<S: Stores>(
    api: Arc<ApiState<S>>,
    needs: KeyRole,
    request: Request,
    next: Next,
) -> Response {
    match authorize(&api, needs, request.headers()).await {
        Ok(caller) => {
            let counted = api.responses.count(next.run(request).await);
            let mut response = counted.unwrap_or_else(Problem::into_response);
            response.extensions_mut().insert(caller);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

async fn authorize<S: Stores>(
    api: &Arc<ApiState<S>>,
    needs: KeyRole,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    let hash = bearer(headers).map(key_hash)?;
    if is_root(api, hash) {
        return Ok(Caller(None));
    }
    let key =
        find(api, hash).await?.ok_or_else(|| unauthorized("this API key is not known, or was revoked"))?;
    if !may(key.role, needs) {
        let (role, needs) = (key.role.as_str(), needs.as_str());
        let detail =
            format!("a key of role {role} may not do this: use one of role {needs} (root may do all)");
        return Err(Problem::new(403, "Not allowed", detail));
    }
    Ok(Caller(Some(key.id)))
}

/// The root key of the settings, which no table holds.
pub(crate) fn is_root<S: Stores>(api: &ApiState<S>, hash: KeyHash) -> bool {
    api.root_key.is_some_and(|root| bool::from(root.0.ct_eq(&hash.0)))
}

/// Whether a key of one role may make a call that is meant for another.
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
    Problem::new(401, "No valid API key", detail)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = value.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    key.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))
        .ok_or_else(|| unauthorized("send an API key in the header: authorization: Bearer <key>"))
}

pub(crate) async fn find<S: Stores>(
    api: &Arc<ApiState<S>>,
    hash: KeyHash,
) -> Result<Option<ApiKey>, Problem> {
    let now = Instant::now();
    if let Some(key) = api.known_keys.get(hash, now) {
        return Ok(Some(key));
    }
    let found = api.keys.find_key(hash).await?;
    if let Some(key) = &found
        && api.known_keys.put(hash, key.clone(), now)
    {
        let (api, id) = (Arc::clone(api), key.id);
        // The caller does not wait for it, and its failure is no reason to refuse him.
        tokio::spawn(async move {
            if let Err(error) = api.keys.touch_key(id, api.clock.now()).await {
                tracing::debug!(key_id = %id, %error, "the use of a key could not be noted");
            }
        });
    }
    Ok(found)
}

/// Keys that were found a moment ago.
#[derive(Debug, Default)]
pub(crate) struct KeyCache(Mutex<HashMap<[u8; 32], Known>>);

#[derive(Debug)]
struct Known {
    key: ApiKey,
    found: Instant,
    touched: Instant,
}

impl KeyCache {
    fn get(&self, hash: KeyHash, now: Instant) -> Option<ApiKey> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&hash.0)?;
        (now.saturating_duration_since(known.found) < REMEMBERED_FOR).then(|| known.key.clone())
    }

    /// Answers whether the use of the key should be noted.
    fn put(&self, hash: KeyHash, key: ApiKey, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, known| now.saturating_duration_since(known.found) < TOUCHED_EVERY);
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        let before = known.get(&hash.0).map(|known| known.touched);
        let touched = before.filter(|touched| now.saturating_duration_since(*touched) < TOUCHED_EVERY);
        known.insert(hash.0, Known { key, found: now, touched: touched.unwrap_or(now) });
        touched.is_none()
    }

    /// A key that was revoked here is refused here at once.
    pub(crate) fn forget(&self, id: KeyId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, known| known.key.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::Timestamp;

    fn key(id: i64) -> ApiKey {
        let created_at = Timestamp::from_micros(0);
        let (last_used_at, revoked_at, name) = (None, None, "test".to_owned());
        ApiKey {
            id: KeyId::from_store(id),
            name,
            role: KeyRole::Viewer,
            created_at,
            last_used_at,
            revoked_at,
        }
    }

    #[test]
    fn a_key_is_remembered_for_a_moment_and_noted_once_a_minute() {
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
    fn no_number_of_keys_fills_the_memory() {
        let (cache, now) = (KeyCache::default(), Instant::now());
        for id in 1..=3_000 {
            cache.put(key_hash(&id.to_string()), key(id), now);
        }
        assert!(cache.0.lock().expect("the map").len() <= REMEMBERED_MAX);
    }
}
