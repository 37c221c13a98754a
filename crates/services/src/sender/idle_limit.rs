//! Learns how long a host keeps idle connections open. If a receiver closes a connection while a request is
//! being written, the attempt is lost, so an idle time that failed once is not used again. Pure: times are
//! arguments.

use std::time::Duration;

use tokio::time::Instant;

/// The minimum idle time before a connection is reused if the host has never responded on a reused
/// connection. A host that closes connections after every response has done so by then.
const MIN_IDLE: Duration = Duration::from_millis(20);
/// The time for which limits, and hosts without requests, are remembered.
pub(super) const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimit {
    /// The longest idle time after which a reused connection got a response.
    survived: Option<Duration>,
    /// The maximum idle time, and the time at which it was set.
    limit: Option<(Duration, Instant)>,
    used_at: Instant,
}

impl IdleLimit {
    pub(super) const fn new(now: Instant) -> Self {
        Self { survived: None, limit: None, used_at: now }
    }

    /// Returns the minimum idle time before a connection may be reused.
    pub(super) const fn min_idle(&self) -> Duration {
        match self.survived {
            Some(_) => Duration::ZERO,
            None => MIN_IDLE,
        }
    }

    /// Returns the maximum idle time after which a connection may be reused.
    pub(super) fn keep_max(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |(keep, _)| keep)
    }

    /// Records a response on a connection that was idle for `idle`.
    pub(super) fn answered_after(&mut self, idle: Duration) {
        self.survived = self.survived.max(Some(idle));
    }

    /// Records that a connection was found closed after being idle for `idle`. If longer idle times have
    /// worked, a single failure sets no limit (the receiver may have restarted), but halves the idle time
    /// that is known to work.
    pub(super) fn closed_after(&mut self, idle: Duration, now: Instant) {
        match self.survived {
            Some(survived) if idle <= survived => self.survived = Some(idle / 2),
            Some(_) | None => {
                let keep = (idle / 2).max(self.survived.unwrap_or_default());
                self.limit = Some((keep.min(self.keep_max()), now));
            }
        }
    }

    pub(super) fn used(&mut self, now: Instant) {
        self.used_at = now;
        if self.limit.is_some_and(|(_, since)| now.duration_since(since) >= REMEMBERED) {
            (self.survived, self.limit) = (None, None);
        }
    }

    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        now.duration_since(self.used_at) >= REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn connections_to_a_new_host_wait_until_one_was_reused() {
        let mut idle_limit = IdleLimit::new(Instant::now());
        assert_eq!((idle_limit.min_idle(), idle_limit.keep_max()), (MIN_IDLE, Duration::MAX));
        idle_limit.answered_after(ms(25));
        assert_eq!((idle_limit.min_idle(), idle_limit.keep_max()), (Duration::ZERO, Duration::MAX));
    }

    #[test]
    fn closed_connections_set_a_limit_and_a_single_restart_does_not() {
        let now = Instant::now();
        // Idle times that worked, idle times after which the connection was closed, and the expected maximum.
        let rows: &[(&[u64], &[u64], Duration)] = &[
            (&[], &[1000], ms(500)),
            (&[], &[1000, 600], ms(300)),
            (&[], &[600, 1000], ms(300)),
            (&[700], &[1000], ms(700)),
            (&[10, 700, 20], &[1000], ms(700)),
            (&[700], &[700], Duration::MAX),
            (&[700], &[500, 400], ms(250)),
            (&[700], &[5], Duration::MAX),
            (&[], &[0], Duration::ZERO),
        ];
        for (survived, closed, keep) in rows {
            let mut idle_limit = IdleLimit::new(now);
            survived.iter().for_each(|idle| idle_limit.answered_after(ms(*idle)));
            closed.iter().for_each(|idle| idle_limit.closed_after(ms(*idle), now));
            assert_eq!(idle_limit.keep_max(), *keep, "{survived:?} {closed:?}");
        }
    }

    #[test]
    fn limits_and_hosts_are_forgotten() {
        let now = Instant::now();
        let mut idle_limit = IdleLimit::new(now);
        idle_limit.answered_after(ms(1));
        idle_limit.closed_after(ms(10), now);
        idle_limit.used(now + REMEMBERED - ms(1));
        assert_eq!((idle_limit.min_idle(), idle_limit.keep_max()), (Duration::ZERO, ms(5)));
        assert!(!idle_limit.is_forgotten(now + REMEMBERED));
        idle_limit.used(now + REMEMBERED);
        assert_eq!((idle_limit.min_idle(), idle_limit.keep_max()), (MIN_IDLE, Duration::MAX));
        assert!(idle_limit.is_forgotten(now + REMEMBERED + REMEMBERED));
    }
}
