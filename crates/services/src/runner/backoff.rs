//! How a service fares: how long to pause after a failure, and the one log line for each change.

use crate::step::Progress;
use posthaste_core::ports::StoreError;
use std::any::Any;
use std::error::Error;
use std::time::{Duration, Instant};

/// The longest pause while the store is away: so long it may go unnoticed that it is back.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// What one call of a step came to.
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

    /// Takes a turn's end into account; answers how to go on, or how long to pause.
    pub(super) fn after(
        &mut self,
        service: &'static str,
        outcome: StepOutcome,
    ) -> Result<Progress, Duration> {
        match outcome {
            // The store may be as far away as before: the ailment and its pauses stay.
            StepOutcome::Done(Progress::Unasked) => Ok(Progress::Unasked),
            StepOutcome::Done(progress) => {
                if let Some(failing) = self.failing.take() {
                    let (failures, away_s) = (failing.failures, seconds(failing.since.elapsed()));
                    tracing::info!(service, failures, away_s, "works again");
                }
                Ok(progress)
            }
            StepOutcome::Failed(error) => {
                let kind = kind(&error);
                if self.is_news(kind) {
                    let (passing, cause) = (error.is_passing(), chain(&error));
                    if passing || matches!(error, StoreError::OutcomeUnknown { .. }) {
                        tracing::warn!(service, cause, "pauses, and tries again until it works");
                    } else {
                        tracing::error!(service, cause, "cannot go on until somebody mends this");
                    }
                }
                Err(self.pause(kind))
            }
            StepOutcome::Panicked(text) => {
                // Each one is told: it is a fault of ours, and the pause bounds how many there are.
                tracing::error!(service, panic = text, "a step panicked; it is tried again after a pause");
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

/// Seconds to the millisecond, for people.
fn seconds(span: Duration) -> f64 {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
}

const fn kind(error: &StoreError) -> &'static str {
    match error {
        // The same outage shows as either, depending on the moment it struck.
        StoreError::Unavailable { .. } | StoreError::OutcomeUnknown { .. } => "away",
        StoreError::Busy { .. } => "busy",
        StoreError::Full { .. } => "full",
        StoreError::Refused { .. } => "refused",
        StoreError::Unreadable { .. } => "unreadable",
        StoreError::Unusable { .. } => "unusable",
    }
}

/// An error with its causes, on one line.
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

    fn away() -> StepOutcome {
        StepOutcome::Failed(StoreError::Unavailable { doing: "testing", source: "no route".into() })
    }

    #[test]
    fn pauses_grow_to_their_bound_and_start_anew_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(300));
        let mut pauses = Vec::new();
        for _ in 0..5 {
            pauses.push(backoff.after("test", away()).expect_err("a pause").as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 300, 300]);
        assert_eq!(backoff.after("test", StepOutcome::Done(Progress::Idle)), Ok(Progress::Idle));
        assert_eq!(backoff.after("test", away()), Err(Duration::from_millis(50)));
        let panicked = StepOutcome::Panicked("ouch".to_owned());
        assert_eq!(backoff.after("test", panicked), Err(Duration::from_millis(100)));
    }

    #[test]
    fn a_state_is_news_once() {
        let mut backoff = Backoff::new(PAUSE_MAX);
        assert!(backoff.is_news("away"));
        let _ = backoff.after("test", away());
        assert!(!backoff.is_news("away") && backoff.is_news("full"));
        let _ = backoff.after("test", StepOutcome::Done(Progress::More));
        assert!(backoff.is_news("away"));
    }

    #[test]
    fn a_step_that_did_not_ask_the_store_ends_no_ailment() {
        let mut backoff = Backoff::new(Duration::from_millis(300));
        let _ = backoff.after("test", away());
        assert_eq!(backoff.after("test", StepOutcome::Done(Progress::Unasked)), Ok(Progress::Unasked));
        assert!(!backoff.is_news("away"), "nobody said that it works again");
        assert_eq!(backoff.after("test", away()), Err(PAUSE_FIRST * 2));
        let _ = backoff.after("test", StepOutcome::Done(Progress::Idle));
        assert!(backoff.is_news("away"));
    }

    #[test]
    fn times_are_told_to_the_millisecond() {
        for (micros, expected) in [(50_600, "0.05"), (12_345_678, "12.345"), (3_000_000, "3")] {
            assert_eq!(seconds(Duration::from_micros(micros)).to_string(), expected);
        }
    }

    #[test]
    fn the_causes_stand_on_one_line() {
        let error = StoreError::Unavailable { doing: "testing", source: "no route".into() };
        assert_eq!(chain(&error), "the store could not be reached while testing; nothing was done: no route");
    }
}
