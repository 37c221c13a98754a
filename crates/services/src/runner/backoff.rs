//! Computes the pause after a failed step, and logs once each time a service starts to fail or recovers.

use crate::step::Progress;
use posthaste_core::ports::StoreError;
use std::any::Any;
use std::error::Error;
use std::time::{Duration, Instant};

/// The maximum pause while the store is unavailable. It bounds the delay until a recovery is noticed.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The outcome of one call to a step.
#[derive(Debug)]
pub(super) enum StepOutcome {
    Done(Progress),
    Failed(StoreError),
    Panicked(String),
}

#[derive(Debug)]
pub(super) struct Backoff {
    pause_max: Duration,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    kind: &'static str,
    since: Instant,
    failures: u32,
    pause: Duration,
}

impl Backoff {
    pub(super) const fn new(pause_max: Duration) -> Self {
        Self { pause_max, failing: None }
    }

    /// Records the outcome of a step. Returns its progress, or `Err` with the time to pause.
    pub(super) fn after(
        &mut self,
        service: &'static str,
        outcome: StepOutcome,
    ) -> Result<Progress, Duration> {
        match outcome {
            // The store was not used and may still be unavailable, so the service remains in the failing
            // state.
            StepOutcome::Done(Progress::Unasked) => Ok(Progress::Unasked),
            StepOutcome::Done(progress) => {
                if let Some(failing) = self.failing.take() {
                    let (failures, failing_s) = (failing.failures, seconds(failing.since.elapsed()));
                    tracing::info!(service, failures, failing_s, "recovered, resuming");
                }
                Ok(progress)
            }
            StepOutcome::Failed(error) => {
                let kind = kind(&error);
                if self.is_news(kind) {
                    let (passing, cause) = (error.is_passing(), chain(&error));
                    if passing || matches!(error, StoreError::OutcomeUnknown { .. }) {
                        tracing::warn!(service, cause, "store unavailable, backing off");
                    } else {
                        tracing::error!(service, cause, "store error needs an operator, backing off");
                    }
                }
                Err(self.pause(kind))
            }
            StepOutcome::Panicked(text) => {
                // Every panic is logged, because it is a bug. The pause limits the rate of these messages.
                tracing::error!(service, panic = text, "step panicked, backing off");
                Err(self.pause("panic"))
            }
        }
    }

    fn is_news(&self, kind: &'static str) -> bool {
        self.failing.as_ref().is_none_or(|failing| failing.kind != kind)
    }

    fn pause(&mut self, kind: &'static str) -> Duration {
        let first = PAUSE_FIRST.min(self.pause_max);
        let failing = self.failing.get_or_insert_with(|| Failing {
            kind,
            since: Instant::now(),
            failures: 0,
            pause: first,
        });
        failing.kind = kind;
        failing.failures += 1;
        let pause = failing.pause;
        failing.pause = (pause * 2).min(self.pause_max);
        pause
    }
}

/// Returns `span` in seconds, truncated to milliseconds for readability.
fn seconds(span: Duration) -> f64 {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

const fn kind(error: &StoreError) -> &'static str {
    match error {
        // An outage causes either error, depending on when the connection broke.
        StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. } => "unavailable",
        StoreError::Busy { .. } => "busy",
        StoreError::Full { .. } => "full",
        StoreError::Refused { .. } => "refused",
        StoreError::Unreadable { .. } => "unreadable",
        StoreError::Unusable { .. } => "unusable",
    }
}

/// Formats an error and its sources on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> StepOutcome {
        StepOutcome::Failed(StoreError::Unavailable { doing: "testing", source: "no route".into() })
    }

    #[test]
    fn pauses_grow_to_their_maximum_and_reset_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(300));
        let mut pauses = Vec::new();
        for _ in 0..5 {
            pauses.push(backoff.after("test", unavailable()).expect_err("a pause").as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 300, 300]);
        assert_eq!(backoff.after("test", StepOutcome::Done(Progress::Idle)), Ok(Progress::Idle));
        assert_eq!(backoff.after("test", unavailable()), Err(Duration::from_millis(50)));
        let panicked = StepOutcome::Panicked("ouch".to_owned());
        assert_eq!(backoff.after("test", panicked), Err(Duration::from_millis(100)));
    }

    #[test]
    fn each_kind_of_failure_is_logged_once() {
        let mut backoff = Backoff::new(PAUSE_MAX);
        assert!(backoff.is_news("unavailable"));
        let _ = backoff.after("test", unavailable());
        assert!(!backoff.is_news("unavailable") && backoff.is_news("full"));
        let _ = backoff.after("test", StepOutcome::Done(Progress::More));
        assert!(backoff.is_news("unavailable"));
    }

    #[test]
    fn step_that_did_not_use_the_store_does_not_reset_the_backoff() {
        let mut backoff = Backoff::new(Duration::from_millis(300));
        let _ = backoff.after("test", unavailable());
        assert_eq!(backoff.after("test", StepOutcome::Done(Progress::Unasked)), Ok(Progress::Unasked));
        assert!(!backoff.is_news("unavailable"), "the recovery was not logged");
        assert_eq!(backoff.after("test", unavailable()), Err(PAUSE_FIRST * 2));
        let _ = backoff.after("test", StepOutcome::Done(Progress::Idle));
        assert!(backoff.is_news("unavailable"));
    }

    #[test]
    fn durations_are_truncated_to_milliseconds() {
        for (micros, expected) in [(50_600, "0.05"), (12_345_678, "12.345"), (3_000_000, "3")] {
            assert_eq!(seconds(Duration::from_micros(micros)).to_string(), expected);
        }
    }

    #[test]
    fn error_and_its_sources_are_written_on_one_line() {
        let error = StoreError::Unavailable { doing: "testing", source: "no route".into() };
        assert_eq!(chain(&error), "store unavailable while testing, no change was made: no route");
    }
}
