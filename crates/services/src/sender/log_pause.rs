//! Limits how often a recurring fault is logged. Each fault has its own [`LogPause`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The minimum time between two log lines about the same fault.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct LogPause(Mutex<Option<Instant>>);

impl LogPause {
    /// Runs `log`, unless it ran within the last minute.
    pub(super) fn run(&self, log: impl FnOnce()) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= PAUSE) {
            *last = Some(Instant::now());
            drop(last);
            log();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeated_faults_are_logged_once_per_minute() {
        let (pause, mut logged) = (LogPause::default(), 0);
        for (advance_s, expected) in [(0, 1), (0, 1), (59, 1), (1, 2), (59, 2), (60, 3)] {
            tokio::time::advance(Duration::from_secs(advance_s)).await;
            pause.run(|| logged += 1);
            assert_eq!(logged, expected);
        }
    }
}
