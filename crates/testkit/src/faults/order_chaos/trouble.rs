//! Injects broker faults drawn from the seed, in addition to the faults of [`crate::faults::chaos::plan`]: the
//! broker crashes and restarts, or refuses the credentials for a while.

use super::operator::Operator;
use crate::broker::TestBroker;
use crate::random::Random;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Crash,
    Revoked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub at: Duration,
    pub lasts: Duration,
    pub trouble: Trouble,
}

/// The average interval between fault windows, which alternate between the two kinds.
const EVERY: Duration = Duration::from_secs(6);
const SHORTEST_MS: u64 = 300;
const LONGEST_MS: u64 = 1_500;

pub fn draw(seed: u64, load: Duration) -> Vec<Window> {
    let mut random = Random::new(!seed);
    let count = (load.as_millis() / EVERY.as_millis()).max(2) as u32;
    let slot = load / count;
    let mut window = |number: u32| {
        let lasts = Duration::from_millis(SHORTEST_MS + random.below(LONGEST_MS - SHORTEST_MS));
        let room_us = slot.saturating_sub(lasts).as_micros() as u64;
        let at = slot * number + Duration::from_micros(random.below(room_us.max(1)));
        let trouble = if number.is_multiple_of(2) { Trouble::Crash } else { Trouble::Revoked };
        Window { at, lasts, trouble }
    };
    (0..count).map(&mut window).collect()
}

/// Applies the fault windows. After each window, the operator resumes the lane, which would otherwise probe the
/// broker only after half a minute.
pub async fn make(broker: Arc<TestBroker>, operator: Operator, windows: Vec<Window>, began: Instant) {
    for window in windows {
        tokio::time::sleep_until((began + window.at).into()).await;
        match window.trouble {
            Trouble::Crash => broker.crash(),
            Trouble::Revoked => broker.set_trusting(false),
        }
        tokio::time::sleep(window.lasts).await;
        match window.trouble {
            Trouble::Crash => broker.come_back().await,
            Trouble::Revoked => broker.set_trusting(true),
        }
        operator.resume().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_do_not_overlap_and_are_reproducible() {
        for seed in 0..200 {
            let windows = draw(seed, Duration::from_secs(30));
            assert_eq!(windows, draw(seed, Duration::from_secs(30)));
            assert_eq!(windows.len(), 5);
            assert!(windows.windows(2).all(|pair| pair[0].at + pair[0].lasts <= pair[1].at), "{windows:?}");
            assert!(
                [Trouble::Crash, Trouble::Revoked]
                    .iter()
                    .all(|kind| windows.iter().any(|window| window.trouble == *kind))
            );
        }
    }
}
