//! What we know of how long a host keeps an idle connection open. A receiver that hangs up just as a
//! request is written costs an attempt that nothing can repair, so what was once seen is not tried
//! again. Pure: times come in as arguments.

use std::time::Duration;

use tokio::time::Instant;

/// How long a connection rests before its first reuse at a host that has never answered on one: those
/// that hang up after every answer have done so by then.
const MIN_IDLE: Duration = Duration::from_millis(20);
/// How long a lesson is remembered, and a host that nobody writes to.
pub(super) const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimit {
    /// The longest idleness after which a connection still answered.
    survived: Option<Duration>,
    /// The longest idleness we let a connection have, since when.
    limit: Option<(Duration, Instant)>,
    used_at: Instant,
}

impl IdleLimit {
    pub(super) const fn new(now: Instant) -> Self {
        Self { survived: None, limit: None, used_at: now }
    }

    /// How old an idle connection must be to be used.
    pub(super) const fn min_idle(&self) -> Duration {
        match self.survived {
            Some(_) => Duration::ZERO,
            None => MIN_IDLE,
        }
    }

    /// How old an idle connection may get.
    pub(super) fn keep_max(&self) -> Duration {
        self.limit.map_or(Duration::MAX, |(keep, _)| keep)
    }

    /// A connection that had been idle this long gave an answer.
    pub(super) fn answered_after(&mut self, idle: Duration) {
        self.survived = self.survived.max(Some(idle));
    }

    /// A connection that had been idle this long turned out to be closed. Where longer idleness has
    /// been survived, once is no habit (the receiver was restarted, say), but what we knew counts less.
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
    fn a_new_host_rests_until_it_has_answered_once() {
        let mut idle_limit = IdleLimit::new(Instant::now());
        assert_eq!((idle_limit.min_idle(), idle_limit.keep_max()), (MIN_IDLE, Duration::MAX));
        idle_limit.answered_after(ms(25));
        assert_eq!((idle_limit.min_idle(), idle_limit.keep_max()), (Duration::ZERO, Duration::MAX));
    }

    #[test]
    fn closings_teach_and_a_single_restart_does_not() {
        let now = Instant::now();
        // (idle times survived, idle times found closed) → how long connections are then kept
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
    fn lessons_and_hosts_are_forgotten() {
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
