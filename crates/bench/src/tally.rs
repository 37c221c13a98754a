//! Counts messages and measures their latency. The load generator records when a message is sent, the receiver
//! when it arrives.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The number of latency buckets. Each is 1/32 of an octave wide, which is accurate to about 2 %.
const CLASSES: usize = 1_024;
const PER_OCTAVE: f64 = 32.0;

#[derive(Debug)]
pub struct Tally {
    began: Instant,
    /// The time at which each message was sent, in microseconds since `began`, indexed by message number.
    sent_us: Box<[AtomicU64]>,
    /// The number of arrivals of each message, indexed by message number.
    times: Box<[AtomicU32]>,
    classes: Box<[AtomicU64]>,
    arrived: AtomicU64,
    expected: AtomicU64,
    first_us: AtomicU64,
    last_us: AtomicU64,
    all: Notify,
}

fn zeros<T: Default>(count: usize) -> Box<[T]> {
    (0..count).map(|_| T::default()).collect()
}

impl Tally {
    pub fn new(numbers: u32) -> Self {
        Self {
            began: Instant::now(),
            sent_us: zeros(numbers as usize),
            times: zeros(numbers as usize),
            classes: zeros(CLASSES),
            arrived: AtomicU64::new(0),
            expected: AtomicU64::new(u64::MAX),
            first_us: AtomicU64::new(u64::MAX),
            last_us: AtomicU64::new(0),
            all: Notify::new(),
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub fn sent(&self, number: u32) {
        if let Some(sent) = self.sent_us.get(number as usize) {
            sent.store(self.now_us(), Ordering::Relaxed);
        }
    }

    /// Records the arrival of a message. Ignores numbers out of range, which belong to another run.
    pub fn arrived(&self, number: u32) {
        let (Some(sent), Some(times)) = (self.sent_us.get(number as usize), self.times.get(number as usize))
        else {
            return;
        };
        let now = self.now_us();
        let latency_us = now.saturating_sub(sent.load(Ordering::Relaxed));
        self.classes[class_of(latency_us)].fetch_add(1, Ordering::Relaxed);
        times.fetch_add(1, Ordering::Relaxed);
        self.first_us.fetch_min(now, Ordering::Relaxed);
        self.last_us.fetch_max(now, Ordering::Relaxed);
        let arrived = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        if arrived >= self.expected.load(Ordering::Acquire) {
            self.all.notify_waiters();
        }
    }

    pub fn count(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Waits until `count` messages have arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if no message arrives for `stalled`.
    pub async fn wait_for(&self, count: u64, stalled: Duration) -> anyhow::Result<()> {
        self.expected.store(count, Ordering::Release);
        loop {
            let is_notified = self.all.notified();
            tokio::pin!(is_notified);
            is_notified.as_mut().enable();
            let before = self.count();
            if before >= count {
                return Ok(());
            }
            let late = tokio::time::timeout(stalled, is_notified).await.is_err();
            if late && self.count() == before {
                let s = stalled.as_secs();
                anyhow::bail!("{before} of {count} deliveries arrived, none in the last {s} s");
            }
        }
    }

    /// Returns the time between the first and the last arrival.
    pub fn span(&self) -> Duration {
        let (first, last) = (self.first_us.load(Ordering::Relaxed), self.last_us.load(Ordering::Relaxed));
        Duration::from_micros(last.saturating_sub(first))
    }

    /// Returns the number of duplicate arrivals, if `each` arrivals are expected per message.
    pub fn repeated(&self, each: u32) -> u64 {
        let over = |times: &AtomicU32| u64::from(times.load(Ordering::Relaxed).saturating_sub(each));
        self.times.iter().map(over).sum()
    }

    /// Returns a percentile of the latency in milliseconds. For p99, `share` is 0.99.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let counts: Vec<u64> = self.classes.iter().map(|class| class.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reached = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        upper_ms(reached.unwrap_or(0))
    }
}

fn class_of(latency_us: u64) -> usize {
    let octaves = (latency_us.max(1) as f64).log2();
    ((octaves * PER_OCTAVE) as usize).min(CLASSES - 1)
}

fn upper_ms(class: usize) -> f64 {
    ((class as f64 + 1.0) / PER_OCTAVE).exp2() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_accurate_within_four_percent() {
        let tally = Tally::new(0);
        for latency_us in 1..=10_000 {
            tally.classes[class_of(latency_us)].fetch_add(1, Ordering::Relaxed);
        }
        for (share, ms) in [(0.5, 5.0), (0.99, 9.9), (1.0, 10.0)] {
            let found = tally.percentile_ms(share);
            assert!((found / ms - 1.0).abs() < 0.04, "{share}: {found}");
        }
    }

    #[tokio::test]
    async fn waiting_ends_with_the_last_arrival_and_repetitions_are_counted() {
        let tally = Tally::new(3);
        for number in [0, 1, 1, 2, 9] {
            tally.sent(number);
            tally.arrived(number);
        }
        tally.wait_for(4, Duration::from_secs(60)).await.expect("all");
        assert_eq!((tally.count(), tally.repeated(1), tally.repeated(2)), (4, 1, 0));
        assert!(tally.wait_for(5, Duration::from_millis(1)).await.is_err());
    }
}
