//! Tests the cache, the timeout and the limits of lookups with virtual time.

use super::*;
use std::net::Ipv4Addr;

const FAST: IpAddr = IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8));
const SECOND: Duration = Duration::from_secs(1);

/// A resolver that counts lookups. Names that contain `slow` wait for a permit of `release`, names that contain
/// `missing` do not exist, and all others are resolved at once.
#[derive(Clone)]
struct Counting {
    asked: Arc<Mutex<Vec<String>>>,
    release: Arc<Semaphore>,
}

impl Counting {
    fn new() -> Self {
        Self { asked: Arc::default(), release: Arc::new(Semaphore::new(0)) }
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("the list").len()
    }
}

impl Resolve for Counting {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.asked.lock().expect("the list").push(name.to_owned());
        Box::pin(async move {
            if name.contains("slow") {
                self.release.acquire().await.expect("a permit").forget();
            }
            if name.contains("missing") { Err(io::ErrorKind::NotFound.into()) } else { Ok(vec![FAST]) }
        })
    }
}

/// Starts a lookup, and returns a handle for its result and the time that it took.
fn start(
    resolver: &CachingResolver,
    name: impl Into<String>,
) -> tokio::task::JoinHandle<(io::Result<Vec<IpAddr>>, Duration)> {
    let (resolver, name) = (resolver.clone(), name.into());
    tokio::spawn(async move {
        let began = Instant::now();
        (resolver.resolve(&name).await, began.elapsed())
    })
}

/// Runs all other tasks until they wait.
async fn settle() {
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
    }
}

/// Asserts that a name is resolved without waiting.
async fn assert_resolves_at_once(resolver: &CachingResolver, name: &str) {
    let (found, took) = start(resolver, name).await.expect("a result");
    assert_eq!((found.ok(), took), (Some(vec![FAST]), Duration::ZERO), "{name}");
}

#[tokio::test(start_paused = true)]
async fn results_are_cached_and_concurrent_lookups_shared() {
    let inner = Counting::new();
    let resolver = CachingResolver::new(inner.clone());
    let both = [start(&resolver, "a.example"), start(&resolver, "a.example")];
    for one in both {
        assert_eq!(one.await.expect("a result").0.expect("addresses"), [FAST]);
    }
    assert_eq!(inner.asked(), 1);
    // (seconds since the previous row, name, lookups so far)
    for (advance_s, name, asked) in [
        (0, "a.example", 1),
        (29, "a.example", 1),
        (1, "a.example", 2),
        (0, "missing.example", 3),
        (4, "missing.example", 3),
        (1, "missing.example", 4),
    ] {
        tokio::time::advance(SECOND * advance_s).await;
        let found = resolver.resolve(name).await;
        assert_eq!(found.is_ok(), name == "a.example");
        assert_eq!(inner.asked(), asked, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_times_out_and_is_not_repeated_meanwhile() {
    let inner = Counting::new();
    let resolver = CachingResolver::new(inner.clone());
    let (found, took) = start(&resolver, "slow.example").await.expect("a result");
    assert_eq!((found.map_err(|error| error.kind()), took), (Err(io::ErrorKind::TimedOut), LOOKUP_MAX));
    tokio::time::advance(SECOND * 20).await;
    let (found, took) = start(&resolver, "slow.example").await.expect("a result");
    assert_eq!((found.is_err(), took, inner.asked()), (true, Duration::ZERO, 1), "it still runs");
    inner.release.add_permits(1);
    settle().await;
    assert_resolves_at_once(&resolver, "slow.example").await;
    assert_eq!(inner.asked(), 1, "the late result is used");
}

#[tokio::test(start_paused = true)]
async fn a_slow_domain_delays_only_itself() {
    let inner = Counting::new();
    let resolver = CachingResolver::new(inner.clone());
    let waiting: Vec<_> = (0..500).map(|n| start(&resolver, format!("n{n}.slow.example"))).collect();
    settle().await;
    assert_eq!(inner.asked(), LOOKUPS_PER_DOMAIN_MAX);
    assert_resolves_at_once(&resolver, "www.fast.example").await;
    for one in waiting {
        let (found, took) = one.await.expect("a result");
        assert!(found.is_err() && took == LOOKUP_MAX, "{took:?}");
    }
    assert_eq!(inner.asked(), LOOKUPS_PER_DOMAIN_MAX + 1, "the others got no permit");
    inner.release.add_permits(LOOKUPS_PER_DOMAIN_MAX);
    settle().await;
    assert_eq!(resolver.lookups.permits.available_permits(), LOOKUPS_MAX);
    assert_eq!(resolver.lookups.slow_permits.available_permits(), SLOW_LOOKUPS_MAX);
    assert_resolves_at_once(&resolver, "n0.slow.example").await;
}

#[tokio::test(start_paused = true)]
async fn slow_domains_have_a_share_of_all_lookups() {
    let inner = Counting::new();
    let resolver = CachingResolver::new(inner.clone());
    let burst = |names: usize| -> Vec<_> {
        (0..200).flat_map(|domain| (0..names).map(move |n| format!("n{n}.slow{domain}.example"))).collect()
    };
    let _waiting: Vec<_> = burst(1).into_iter().map(|name| start(&resolver, name)).collect();
    settle().await;
    assert_eq!(inner.asked(), LOOKUPS_MAX, "they are not known to be slow yet");
    tokio::time::advance(LOOKUP_MAX).await;
    settle().await;
    assert_eq!(resolver.lookups.permits.available_permits(), SLOW_LOOKUPS_MAX);
    assert_resolves_at_once(&resolver, "www.fast.example").await;
    inner.release.add_permits(LOOKUPS_MAX);
    settle().await;
    let before = inner.asked();
    let _waiting: Vec<_> = burst(5).into_iter().map(|name| start(&resolver, name)).collect();
    settle().await;
    let of_new_domains = 8 * LOOKUPS_PER_DOMAIN_MAX;
    assert_eq!(inner.asked() - before, SLOW_LOOKUPS_MAX + of_new_domains);
    assert_resolves_at_once(&resolver, "api.fast.example").await;
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let resolver = CachingResolver::new(Counting::new());
    for n in 0..NAMES_MAX + 100 {
        resolver.resolve(&format!("n{n}.example{n}")).await.expect("addresses");
    }
    settle().await;
    assert_eq!(resolver.lookups.lock().names.len(), NAMES_MAX);
    assert!(resolver.lookups.lock().domains.is_empty());
    tokio::time::advance(FOUND_FOR).await;
    resolver.resolve("later.example").await.expect("addresses");
    assert_eq!(resolver.lookups.lock().names.len(), 1);
}

#[test]
fn domains_are_what_their_owners_registered() {
    for (name, domain) in [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("hooks.example.co.uk", "example.co.uk"),
        ("example.com.au", "example.com.au"),
        ("co.uk", "co.uk"),
        ("a.abc.de", "abc.de"),
        ("a.co.example", "co.example"),
        ("intranet", "intranet"),
        ("", ""),
    ] {
        assert_eq!(domain_of(name), domain, "{name}");
    }
}
