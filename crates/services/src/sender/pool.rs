//! The pool of idle connections. Connections are kept for a few seconds for the next request to the same
//! origin, with a limit per host and in total. A background task closes expired connections while the pool is
//! not empty.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::idle_limit::IdleLimit;

/// The interval of the background task. Each run closes the connections that would expire before the next
/// run.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// The maximum number of hosts in the pool.
const HOSTS_MAX: usize = 10_000;

/// The limits for idle connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    pub idle_max: Duration,
    pub idle_per_host_max: usize,
    pub idle_total_max: usize,
    /// Whether the first connection to a host must be idle for a minimum time before it is reused. Disabled
    /// only by tests that count connections.
    pub rest_at_new_hosts: bool,
}

impl Default for KeepAlive {
    /// Returns the default limits. The idle time is four seconds, because common servers close idle
    /// connections after five. The limit per host equals the total, because pooled connections were in use at
    /// the same time and will be again. With a limit of 128, draining a backlog to one host opened a new
    /// connection for 44 of 100 deliveries.
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
    /// The idle connections, oldest first.
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

/// A pooled connection, and the time for which it was idle.
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

    /// Removes and returns the most recently used connection, so that surplus connections expire. For a new
    /// host, uses the connection that was idle longest. Returns `None` if no connection can be reused.
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

    /// Returns a connection to the pool. `offered` is the idle time that the receiver allows, if it sent one.
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
        // Closed after the lock is released, so that the system call does not block other tasks.
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

    /// Closes connections that expire by `until`. Returns whether any hosts remain in the pool.
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
    /// Removes the oldest connection of any host. The linear search is acceptable because a full pool is
    /// rare. If no connection were removed, a busy host without a pooled connection would open a new one for
    /// every request.
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
        let peer = listener.local_addr().expect("an address");
        let tcp = TcpStream::connect(peer).await.expect("a connection");
        let track = Track::new();
        let channel = Channel::Plain(Socket::new(tcp, track.clone()));
        Connection::open(Stream::new(channel, track.clone()), track, peer).await.expect("a connection")
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
    async fn connection_to_a_new_host_is_idle_for_a_minimum_time() {
        let (pool, _listener) = pool_of_two(KeepAlive::default()).await;
        let put_at = Instant::now();
        assert!(pool.take(ORIGIN, put_at - Duration::from_secs(1)).is_none(), "not idle long enough");
        assert!(pool.take("http://other.example:80", put_at).is_none());
        let reused = pool.take(ORIGIN, put_at + Duration::from_secs(1)).expect("a connection");
        pool.answered(ORIGIN, reused.idle);
        assert!(pool.take(ORIGIN, Instant::now()).is_some(), "reused at once after a response");
        assert!(pool.take(ORIGIN, Instant::now()).is_none(), "there were two");
    }

    #[tokio::test]
    async fn expired_connection_is_not_reused() {
        let (pool, listener) = pool_of_two(KeepAlive::default()).await;
        assert!(pool.take(ORIGIN, Instant::now() + Duration::from_secs(4)).is_none());
        pool.put(ORIGIN, connection(&listener).await, Some(Duration::from_secs(2)));
        pool.answered(ORIGIN, Duration::ZERO);
        assert!(pool.take(ORIGIN, Instant::now() + Duration::from_secs(2)).is_none(), "the receiver's limit");
        assert!(pool.take(ORIGIN, Instant::now() + Duration::from_secs(1)).is_some(), "the other one");
    }

    #[tokio::test]
    async fn limit_of_a_host_applies_to_new_idle_connections() {
        let (pool, listener) = pool_of_two(KeepAlive::default()).await;
        pool.found_closed(ORIGIN, Duration::from_secs(2));
        pool.put(ORIGIN, connection(&listener).await, None);
        let untils: Vec<_> =
            pool.lock().hosts[ORIGIN].idle.iter().map(|idle| idle.until - idle.since).collect();
        assert_eq!(untils, [4, 4, 1].map(Duration::from_secs));
        pool.found_closed(ORIGIN, Duration::ZERO);
        pool.put(ORIGIN, connection(&listener).await, None);
        assert_eq!(pool.lock().idle_total, 3, "not kept if the host closes at once");
    }

    #[tokio::test]
    async fn background_task_ends_when_the_pool_is_empty() {
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
