//! Idle connections, kept for a few seconds for the next request to the same origin. Bounded for each
//! host and in total. A sweeper runs while anything is kept, and closes what nobody came for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::idle_limit::IdleLimit;

/// How often the sweeper looks. It closes what would grow too old before it looks again.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// The most hosts that anything is known of.
const HOSTS_MAX: usize = 10_000;

/// How many connections may idle, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    pub idle_max: Duration,
    pub idle_per_host_max: usize,
    pub idle_total_max: usize,
    /// Whether a host must first show that it keeps connections open. Only tests that count connections
    /// have a reason to say no.
    pub rest_at_new_hosts: bool,
}

impl Default for KeepAlive {
    /// Four seconds, because common servers hang up after five. As many for one host as for all: those that
    /// come back were in use together a moment ago, and will be again. With 128 of them, draining a backlog to
    /// one host connected anew for 44 deliveries of 100.
    fn default() -> Self {
        Self {
            idle_max: Duration::from_secs(4),
            idle_per_host_max: 1_024,
            idle_total_max: 1_024,
            rest_at_new_hosts: true,
        }
    }
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
    until: Instant,
}

#[derive(Debug)]
struct Host {
    /// The oldest first.
    idle: VecDeque<Idle>,
    idle_limit: IdleLimit,
}

#[derive(Debug, Default)]
struct IdleConnections {
    hosts: HashMap<String, Host>,
    idle_total: usize,
    sweeping: bool,
}

#[derive(Debug)]
pub(super) struct Pool {
    keep_alive: KeepAlive,
    kept: Mutex<IdleConnections>,
}

/// A connection out of the pool, and how long it had been idle.
#[derive(Debug)]
pub(super) struct Reused {
    pub(super) connection: Connection,
    pub(super) idle: Duration,
}

impl Pool {
    pub(super) fn new(keep_alive: KeepAlive) -> Self {
        Self { keep_alive, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, so that those beyond the need grow old and go. At a new host
    /// the one that has rested longest.
    pub(super) fn take(&self, origin: &str, now: Instant) -> Option<Reused> {
        let mut kept = self.lock();
        let host = kept.hosts.get_mut(origin)?;
        host.idle_limit.used(now);
        let rest =
            if self.keep_alive.rest_at_new_hosts { host.idle_limit.min_idle() } else { Duration::ZERO };
        let taken = if rest.is_zero() {
            host.idle.pop_back()?
        } else if host.idle.front().is_some_and(|oldest| now.duration_since(oldest.since) >= rest) {
            host.idle.pop_front()?
        } else {
            return None;
        };
        kept.idle_total -= 1;
        drop(kept);
        let idle = now.duration_since(taken.since);
        (now < taken.until).then_some(Reused { connection: taken.connection, idle })
    }

    /// Keeps a connection for the next request. `offered` is how long the receiver says it keeps it.
    pub(super) fn put(self: &Arc<Self>, origin: &str, connection: Connection, offered: Option<Duration>) {
        let now = Instant::now();
        let mut kept = self.lock();
        let known = kept.hosts.contains_key(origin);
        if !known && kept.hosts.len() >= HOSTS_MAX {
            return;
        }
        let surplus =
            if kept.idle_total < self.keep_alive.idle_total_max { None } else { kept.take_oldest() };
        if !known {
            kept.hosts
                .insert(origin.to_owned(), Host { idle: VecDeque::new(), idle_limit: IdleLimit::new(now) });
        }
        let Some(host) = kept.hosts.get_mut(origin) else { return };
        host.idle_limit.used(now);
        let keep =
            self.keep_alive.idle_max.min(host.idle_limit.keep_max()).min(offered.unwrap_or(Duration::MAX));
        if keep.is_zero() || host.idle.len() >= self.keep_alive.idle_per_host_max {
            return;
        }
        host.idle.push_back(Idle { connection, since: now, until: now + keep });
        kept.idle_total += 1;
        if !std::mem::replace(&mut kept.sweeping, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        drop(kept);
        // Closed only now: no system call while others wait for the lock.
        drop(surplus);
    }

    pub(super) fn answered(&self, origin: &str, idle: Duration) {
        if let Some(host) = self.lock().hosts.get_mut(origin) {
            host.idle_limit.answered_after(idle);
        }
    }

    pub(super) fn found_closed(&self, origin: &str, idle: Duration) {
        if let Some(host) = self.lock().hosts.get_mut(origin) {
            host.idle_limit.closed_after(idle, Instant::now());
        }
    }

    /// Closes what is too old by `until`. Answers whether there is anything left to look after.
    fn close_old(&self, now: Instant, until: Instant) -> bool {
        let mut old = Vec::new();
        let mut kept = self.lock();
        kept.hosts.retain(|_, host| {
            let (stay, go): (_, VecDeque<_>) =
                std::mem::take(&mut host.idle).into_iter().partition(|idle| idle.until > until);
            host.idle = stay;
            old.extend(go);
            !host.idle.is_empty() || !host.idle_limit.is_forgotten(now)
        });
        kept.idle_total -= old.len();
        kept.sweeping = !kept.hosts.is_empty();
        kept.sweeping
    }
}

impl IdleConnections {
    /// Looks at every host, which is worth it: a full pool is rare, and a busy host that found no place
    /// would connect anew for every request.
    fn take_oldest(&mut self) -> Option<Idle> {
        let since = |host: &Host| host.idle.front().map(|idle| idle.since);
        let hosts = self.hosts.values_mut().filter(|host| !host.idle.is_empty());
        let oldest = hosts.min_by_key(|host| since(host))?.idle.pop_front();
        self.idle_total -= usize::from(oldest.is_some());
        oldest
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = Instant::now();
        if !pool.close_old(now, now + SWEEP_EVERY) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::wire::{Channel, Socket, Stream, Track};
    use tokio::net::{TcpListener, TcpStream};

    const ORIGIN: &str = "http://receiver.example:80";

    async fn connection(listener: &TcpListener) -> Connection {
        let tcp = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
        let track = Track::new();
        let channel = Channel::Plain(Socket::new(tcp, track.clone()));
        Connection::open(Stream::new(channel, track.clone()), track).await.expect("a connection")
    }

    async fn pool_of_two(keep_alive: KeepAlive) -> (Arc<Pool>, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let pool = Arc::new(Pool::new(keep_alive));
        for _ in 0..2 {
            pool.put(ORIGIN, connection(&listener).await, None);
        }
        (pool, listener)
    }

    #[tokio::test]
    async fn at_a_new_host_a_connection_rests_first() {
        let (pool, _listener) = pool_of_two(KeepAlive::default()).await;
        let put_at = Instant::now();
        assert!(pool.take(ORIGIN, put_at - Duration::from_secs(1)).is_none(), "not yet");
        assert!(pool.take("http://other.example:80", put_at).is_none());
        let rested = pool.take(ORIGIN, put_at + Duration::from_secs(1)).expect("a connection");
        pool.answered(ORIGIN, rested.idle);
        assert!(pool.take(ORIGIN, Instant::now()).is_some(), "once one has answered, at once");
        assert!(pool.take(ORIGIN, Instant::now()).is_none(), "there were two");
    }

    #[tokio::test]
    async fn none_is_used_beyond_its_time() {
        let (pool, listener) = pool_of_two(KeepAlive::default()).await;
        assert!(pool.take(ORIGIN, Instant::now() + Duration::from_secs(4)).is_none());
        pool.put(ORIGIN, connection(&listener).await, Some(Duration::from_secs(2)));
        pool.answered(ORIGIN, Duration::ZERO);
        assert!(pool.take(ORIGIN, Instant::now() + Duration::from_secs(2)).is_none(), "as was offered");
        assert!(pool.take(ORIGIN, Instant::now() + Duration::from_secs(1)).is_some(), "the other one");
    }

    #[tokio::test]
    async fn a_host_that_hung_up_is_believed_for_a_while() {
        let (pool, listener) = pool_of_two(KeepAlive::default()).await;
        pool.found_closed(ORIGIN, Duration::from_secs(2));
        pool.put(ORIGIN, connection(&listener).await, None);
        let untils: Vec<_> =
            pool.lock().hosts[ORIGIN].idle.iter().map(|idle| idle.until - idle.since).collect();
        assert_eq!(untils, [4, 4, 1].map(Duration::from_secs));
        pool.found_closed(ORIGIN, Duration::ZERO);
        pool.put(ORIGIN, connection(&listener).await, None);
        assert_eq!(pool.lock().idle_total, 3, "and is not kept at all if it hangs up at once");
    }

    #[tokio::test]
    async fn the_sweep_ends_when_nothing_is_left() {
        let (pool, _listener) = pool_of_two(KeepAlive::default()).await;
        let now = Instant::now();
        assert!(pool.close_old(now, now));
        assert_eq!(pool.lock().idle_total, 2);
        assert!(pool.close_old(now, now + Duration::from_secs(4)), "the host is still known");
        assert_eq!(pool.lock().idle_total, 0);
        let later = Instant::now() + crate::sender::idle_limit::REMEMBERED;
        assert!(!pool.close_old(later, later));
        assert!(pool.lock().hosts.is_empty() && !pool.lock().sweeping);
    }
}
