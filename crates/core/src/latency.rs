//! Latency histograms with fixed buckets. Each upper bound is 1.5 times the previous one. Counts of several
//! processes and intervals can be added, and percentiles are computed from the sums.

use std::time::Duration;

/// The upper bound of the first bucket, in microseconds.
const FIRST_US: f64 = 1_000.0;
const GROWTH: f64 = 1.5;
/// The number of buckets. The last bucket counts all latencies above the bound of the previous bucket, which is
/// about an hour.
pub const BUCKETS: usize = 39;

/// Returns the upper bound of a bucket. Returns the lower bound for the last bucket, which has no upper bound.
pub fn upper_bound(bucket: usize) -> Duration {
    let exponent = u32::try_from(bucket.min(BUCKETS - 2)).unwrap_or(0);
    Duration::from_secs_f64(FIRST_US * GROWTH.powi(i32::try_from(exponent).unwrap_or(0)) / 1e6)
}

/// Returns the index of the bucket for a latency.
pub fn bucket(took: Duration) -> usize {
    (0..BUCKETS - 1).find(|bucket| took <= upper_bound(*bucket)).unwrap_or(BUCKETS - 1)
}

/// Returns the name of the counter for a bucket.
pub fn counter(bucket: usize) -> String {
    format!("{COUNTER_PREFIX}{bucket:02}")
}

/// The prefix of the names of bucket counters. No other counter has this prefix.
pub const COUNTER_PREFIX: &str = "latency_";

/// Returns the index of the bucket for a counter name, or `None` if the counter is not a bucket counter.
pub fn bucket_of(counter: &str) -> Option<usize> {
    counter.strip_prefix(COUNTER_PREFIX)?.parse().ok().filter(|bucket| *bucket < BUCKETS)
}

/// Returns the percentile `share` (0 to 1), rounded up to a bucket bound, or `None` if all counts are 0.
/// Between 1 ms and an hour, rounding adds at most 50 %.
pub fn percentile(counts: &[u64; BUCKETS], share: f64) -> Option<Duration> {
    let all: u64 = counts.iter().sum();
    if all == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count that large is exact enough")]
    let rank = share.clamp(0.0, 1.0) * all as f64;
    let mut below = 0;
    let place = counts.iter().position(|count| {
        below += count;
        #[expect(clippy::cast_precision_loss, reason = "a count that large is exact enough")]
        let reached = below as f64;
        reached >= rank && below > 0
    });
    place.map(upper_bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_a_millisecond_to_an_hour() {
        for (took_ms, expected) in
            [(0, 0), (1, 0), (2, 2), (1_000, 18), (60_000, 28), (3_600_000, 38), (100_000_000, 38)]
        {
            assert_eq!(bucket(Duration::from_millis(took_ms)), expected, "{took_ms} ms");
        }
        assert!((3_200..3_600).contains(&upper_bound(BUCKETS - 1).as_secs()));
        for place in 0..BUCKETS {
            assert_eq!(bucket_of(&counter(place)), Some(place));
        }
        assert_eq!((bucket_of("latency_39"), bucket_of("events_routed")), (None, None));
    }

    #[test]
    fn percentiles_are_computed_from_counts() {
        let mut counts = [0; BUCKETS];
        assert_eq!(percentile(&counts, 0.5), None);
        counts[3] = 90;
        counts[10] = 9;
        counts[20] = 1;
        for (share, place) in [(0.0, 3), (0.5, 3), (0.9, 3), (0.91, 10), (0.99, 10), (1.0, 20)] {
            assert_eq!(percentile(&counts, share), Some(upper_bound(place)), "{share}");
        }
    }
}
