//! Name resolution with a cache, a timeout and limits, on top of another resolver. A slow name server delays
//! only the names of its own domain: a domain has a share of the concurrent lookups, and all slow domains
//! together have a share. Concurrent lookups of a name are one lookup. A cached result is only a list of
//! addresses, which the sender checks at each use.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::{Resolve, Resolving};

/// The maximum time that a caller waits for a lookup.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// The time for which addresses are used again. The system resolver does not report the time to live of a
/// record, and most records live longer.
const FOUND_FOR: Duration = Duration::from_secs(30);
/// The time for which a failed lookup is not repeated.
const NOT_FOUND_FOR: Duration = Duration::from_secs(5);
/// The maximum number of cached results.
const NAMES_MAX: usize = 10_000;
/// The maximum number of concurrent lookups of domains that respond. Each lookup occupies a thread until the
/// system resolver returns; the runtime has 512 of them.
const LOOKUPS_MAX: usize = 192;
/// The maximum number of concurrent lookups of slow domains.
const SLOW_LOOKUPS_MAX: usize = 64;
/// The maximum number of concurrent lookups of one domain.
const LOOKUPS_PER_DOMAIN_MAX: usize = 4;
/// The time after a timeout for which a domain counts as slow.
const SLOW_FOR: Duration = Duration::from_secs(60);
/// The minimum time between two removals of expired entries.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Second-level labels below which registries of two-letter domains register names, as in `example.co.uk`.
const REGISTRY_LABELS: [&str; 12] =
    ["ac", "co", "com", "edu", "gob", "gov", "go", "mil", "ne", "net", "or", "org"];

type Found = Result<Vec<IpAddr>, io::ErrorKind>;

/// A resolver that caches and limits the lookups of another one. Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct CachingResolver {
    lookups: Arc<Lookups>,
}

struct Lookups {
    inner: Box<dyn Resolve>,
    permits: Arc<Semaphore>,
    slow_permits: Arc<Semaphore>,
    state: Mutex<State>,
}

struct State {
    names: HashMap<String, Name>,
    domains: HashMap<String, Domain>,
    swept_at: Instant,
}

enum Name {
    /// A running lookup. It has a result before it ends if it has timed out.
    Running(watch::Receiver<Option<Found>>),
    Known {
        found: Found,
        until: Instant,
    },
}

struct Domain {
    permits: Arc<Semaphore>,
    slow_until: Option<Instant>,
}

impl Default for Domain {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(LOOKUPS_PER_DOMAIN_MAX)), slow_until: None }
    }
}

impl Domain {
    fn is_slow(&self, now: Instant) -> bool {
        self.slow_until.is_some_and(|until| now < until)
    }

    /// Returns whether the domain has running or waiting lookups, or is known to be slow.
    fn is_needed(&self, now: Instant) -> bool {
        Arc::strong_count(&self.permits) > 1 || self.is_slow(now)
    }
}

impl fmt::Debug for CachingResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachingResolver").finish_non_exhaustive()
    }
}

impl CachingResolver {
    pub fn new(inner: impl Resolve) -> Self {
        let state = State { names: HashMap::new(), domains: HashMap::new(), swept_at: Instant::now() };
        let lookups = Lookups {
            inner: Box::new(inner),
            permits: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            slow_permits: Arc::new(Semaphore::new(SLOW_LOOKUPS_MAX)),
            state: Mutex::new(state),
        };
        Self { lookups: Arc::new(lookups) }
    }
}

impl Resolve for CachingResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let mut running = match self.lookups.find_or_start(name) {
                Name::Known { found, .. } => return found.map_err(io::Error::from),
                Name::Running(running) => running,
            };
            let aborted = |_| io::Error::other("the lookup was aborted");
            let found = running.wait_for(Option::is_some).await.map_err(aborted)?.clone();
            found.unwrap_or(Err(io::ErrorKind::Other)).map_err(io::Error::from)
        })
    }
}

impl Lookups {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached result or the running lookup of a name. Starts a lookup if there is neither.
    fn find_or_start(self: &Arc<Self>, name: &str) -> Name {
        let now = Instant::now();
        let mut state = self.lock();
        match state.names.get(name) {
            Some(Name::Known { found, until }) if now < *until => {
                return Name::Known { found: found.clone(), until: *until };
            }
            // An aborted lookup has dropped its sender.
            Some(Name::Running(running)) if running.has_changed().is_ok() => {
                return Name::Running(running.clone());
            }
            Some(_) | None => {}
        }
        state.sweep(now);
        let (sender, running) = watch::channel(None);
        state.names.insert(name.to_owned(), Name::Running(running.clone()));
        tokio::spawn(Arc::clone(self).look_up(name.to_owned(), sender));
        Name::Running(running)
    }

    async fn look_up(self: Arc<Self>, name: String, result: watch::Sender<Option<Found>>) {
        let (domain, until) = (domain_of(&name), Instant::now() + LOOKUP_MAX);
        let timed_out = Err(io::ErrorKind::TimedOut);
        let permits = timeout_at(until, self.acquire(domain)).await.ok().and_then(Result::ok);
        let Some(mut permits) = permits.filter(|_| Instant::now() < until) else {
            // Not cached: the reason is the number of other lookups.
            self.lock().names.remove(&name);
            result.send_replace(Some(timed_out));
            return;
        };
        let mut lookup = self.inner.resolve(&name);
        let found = match timeout_at(until, &mut lookup).await {
            Ok(found) => found,
            Err(_) => {
                result.send_replace(Some(timed_out));
                self.set_slow(domain, &mut permits);
                // The lookup cannot be cancelled, so its permits are held until it ends.
                lookup.await
            }
        };
        drop(permits);
        let found = found.map_err(|error| error.kind());
        self.lock().finish(&name, domain, &found);
        result.send_replace(Some(found));
    }

    /// Waits for a permit of the domain, and then for one of all domains that are as fast.
    async fn acquire(&self, domain: &str) -> Result<Permits, tokio::sync::AcquireError> {
        let of_domain = Arc::clone(&self.lock().domains.entry(domain.to_owned()).or_default().permits);
        let of_domain = of_domain.acquire_owned().await?;
        let is_slow = self.lock().domains.get(domain).is_some_and(|domain| domain.is_slow(Instant::now()));
        let of_all = if is_slow { &self.slow_permits } else { &self.permits };
        Ok(Permits { of_all: Arc::clone(of_all).acquire_owned().await?, _of_domain: of_domain })
    }

    /// Records that a lookup timed out. From then on it counts as one of the slow domains, if these have a
    /// permit left.
    fn set_slow(&self, domain: &str, permits: &mut Permits) {
        if let Some(domain) = self.lock().domains.get_mut(domain) {
            domain.slow_until = Some(Instant::now() + SLOW_FOR);
        }
        if let Ok(slow) = Arc::clone(&self.slow_permits).try_acquire_owned() {
            permits.of_all = slow;
        }
    }
}

/// The permits of one lookup.
struct Permits {
    of_all: OwnedSemaphorePermit,
    _of_domain: OwnedSemaphorePermit,
}

impl State {
    /// Caches the result of a lookup, unless the cache is full.
    fn finish(&mut self, name: &str, domain: &str, found: &Found) {
        let now = Instant::now();
        let until = now + if found.is_ok() { FOUND_FOR } else { NOT_FOUND_FOR };
        if self.names.len() > NAMES_MAX {
            self.names.remove(name);
        } else {
            self.names.insert(name.to_owned(), Name::Known { found: found.clone(), until });
        }
        if self.domains.get(domain).is_some_and(|domain| !domain.is_needed(now)) {
            self.domains.remove(domain);
        }
    }

    fn sweep(&mut self, now: Instant) {
        if now.duration_since(self.swept_at) < SWEEP_EVERY {
            return;
        }
        self.swept_at = now;
        self.names.retain(|_, name| match name {
            Name::Known { until, .. } => now < *until,
            Name::Running(running) => running.has_changed().is_ok(),
        });
        self.domains.retain(|_, domain| domain.is_needed(now));
    }
}

/// Returns the part of a name that its owner registered, approximately: the last two labels, or three below a
/// registry such as `co.uk`.
fn domain_of(name: &str) -> &str {
    let mut labels = name.rsplit('.');
    let (top, second) = (labels.next().unwrap_or_default(), labels.next().unwrap_or_default());
    let is_registry = top.len() == 2 && REGISTRY_LABELS.contains(&second);
    let dots = if is_registry { 2 } else { 1 };
    let start = name.rmatch_indices('.').nth(dots).map_or(0, |(at, dot)| at + dot.len());
    name.get(start..).unwrap_or(name)
}

#[cfg(test)]
mod tests;
