//! Tests of the state machine of a delivery, with tables of cases and random walks.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn job(raw: i64) -> JobId {
    JobId::from_store(raw)
}

fn failed(raw: i64, code: &str) -> JobResult {
    let error_code = ErrorCode::parse(code).expect("a code");
    JobResult { job_id: job(raw), outcome: JobOutcome::Failed { error_code, retry_after: None } }
}

fn completed(raw: i64) -> JobResult {
    JobResult { job_id: job(raw), outcome: JobOutcome::Completed }
}

#[test]
fn only_legal_transitions_are_allowed() {
    use SagaStatus::{Completed, DeadLettered, InProgress, Pending, PendingRetry};
    let legal = [
        (Pending, Pending),
        (Pending, InProgress),
        (InProgress, InProgress),
        (InProgress, Completed),
        (InProgress, PendingRetry),
        (InProgress, DeadLettered),
        (PendingRetry, PendingRetry),
        (PendingRetry, InProgress),
        (PendingRetry, DeadLettered),
    ];
    for from in SagaStatus::ALL {
        for to in SagaStatus::ALL {
            assert_eq!(from.may_become(to), legal.contains(&(from, to)), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn attempt_after_an_expired_lease_starts_as_a_suspect() {
    for (code, suspect) in [("LEASE_EXPIRED", true), ("HTTP_500", false)] {
        let mut saga = SagaState::fresh(T0);
        let decision = step(&saga, &SagaSignal::Due, &RetryPolicy::WEBHOOK, T0);
        saga = saga.after(&decision, job(1));
        let decision = step(&saga, &SagaSignal::JobFinished(&failed(1, code)), &RetryPolicy::WEBHOOK, T0);
        saga = saga.after(&decision, job(1));
        let attempt_at = saga.next_attempt_at;
        let decision = step(&saga, &SagaSignal::Due, &RetryPolicy::WEBHOOK, attempt_at);
        assert_eq!(decision, Decision::StartAttempt { attempt_at, suspect }, "{code}");
    }
}

#[test]
fn saga_is_dead_lettered_after_five_attempts_with_backoff() {
    let policy = RetryPolicy::WEBHOOK;
    let mut saga = SagaState::fresh(T0);
    let mut now = T0;
    let mut gaps_s = Vec::new();
    for attempt in 1..=5_i64 {
        let decision = step(&saga, &SagaSignal::Due, &policy, now);
        assert_eq!(decision, Decision::StartAttempt { attempt_at: now, suspect: false });
        saga = saga.after(&decision, job(attempt));
        let decision = step(&saga, &SagaSignal::JobFinished(&failed(attempt, "HTTP_500")), &policy, now);
        saga = saga.after(&decision, job(attempt));
        if saga.status == SagaStatus::PendingRetry {
            gaps_s.push(saga.next_attempt_at.since(now).as_secs());
            let early = saga.next_attempt_at.before(Duration::from_micros(1));
            assert_eq!(step(&saga, &SagaSignal::Due, &policy, early), Decision::Ignore(Ignored::NotDue));
            now = saga.next_attempt_at;
        }
    }
    assert_eq!(gaps_s, [30, 60, 120, 240]);
    assert_eq!((saga.status, saga.attempt_count), (SagaStatus::DeadLettered, 5));
}

#[test]
fn lowered_limit_dead_letters_a_waiting_saga_without_counting_an_attempt() {
    let error = ErrorCode::parse("TIMEOUT").ok();
    let saga = SagaState {
        status: SagaStatus::PendingRetry,
        attempt_count: 3,
        next_attempt_at: T0,
        final_error_code: error.clone(),
        current_job_id: None,
    };
    let lowered = RetryPolicy { attempts_max: 2, ..RetryPolicy::WEBHOOK };
    let early = T0.before(Duration::from_micros(1));
    assert_eq!(step(&saga, &SagaSignal::Due, &lowered, early), Decision::Ignore(Ignored::NotDue));
    let expected = Decision::DeadLetter { attempt_count: 3, error_code: error };
    assert_eq!(step(&saga, &SagaSignal::Due, &lowered, T0), expected);
}

#[test]
fn success_keeps_the_last_error() {
    let policy = RetryPolicy::WEBHOOK;
    let mut saga = SagaState::fresh(T0);
    saga = saga.clone().after(&step(&saga, &SagaSignal::Due, &policy, T0), job(1));
    let finished = failed(1, "HTTP_503");
    saga = saga.clone().after(&step(&saga, &SagaSignal::JobFinished(&finished), &policy, T0), job(1));
    let due = saga.next_attempt_at;
    saga = saga.clone().after(&step(&saga, &SagaSignal::Due, &policy, due), job(2));
    let finished = completed(2);
    saga = saga.clone().after(&step(&saga, &SagaSignal::JobFinished(&finished), &policy, due), job(2));
    assert_eq!((saga.status, saga.attempt_count), (SagaStatus::Completed, 2));
    assert_eq!(saga.final_error_code.as_ref().map(ErrorCode::as_str), Some("HTTP_503"));
}

/// One step of a random walk.
#[derive(Debug, Clone)]
enum WalkStep {
    Due,
    /// A result of an earlier job, which may already be applied. `back` counts back from the latest job, which
    /// is 0.
    Result {
        back: i64,
        success: bool,
        retry_after_s: Option<u64>,
    },
    Wait {
        seconds: u64,
    },
    Limit {
        attempts_max: u32,
    },
}

fn walk_step() -> impl Strategy<Value = WalkStep> {
    prop_oneof![
        3 => Just(WalkStep::Due),
        4 => (0..3_i64, any::<bool>(), proptest::option::of(0..10_000_u64)).prop_map(
            |(back, success, retry_after_s)| WalkStep::Result { back, success, retry_after_s }
        ),
        2 => (0..4000_u64).prop_map(|seconds| WalkStep::Wait { seconds }),
        1 => (1..8_u32).prop_map(|attempts_max| WalkStep::Limit { attempts_max }),
    ]
}

proptest! {
    #[test]
    fn no_illegal_state_is_reachable(walk in proptest::collection::vec(walk_step(), 1..80)) {
        let mut policy = RetryPolicy::WEBHOOK;
        let mut saga = SagaState::fresh(T0);
        let mut now = T0;
        let mut jobs_created = 0_i64;
        let mut applied: HashSet<JobId> = HashSet::new();
        for walk_step in walk {
            let before = saga.clone();
            let result;
            let signal = match walk_step {
                WalkStep::Wait { seconds } => {
                    now = now.after(Duration::from_secs(seconds));
                    continue;
                }
                WalkStep::Limit { attempts_max } => {
                    policy = policy.with_limit(Some(attempts_max));
                    continue;
                }
                WalkStep::Due => SagaSignal::Due,
                WalkStep::Result { back, success, retry_after_s } => {
                    let retry_after = retry_after_s.map(Duration::from_secs);
                    let error_code = ErrorCode::parse("HTTP_500").expect("a code");
                    let outcome = if success {
                        JobOutcome::Completed
                    } else {
                        JobOutcome::Failed { error_code, retry_after }
                    };
                    result = JobResult { job_id: job(jobs_created - back), outcome };
                    SagaSignal::JobFinished(&result)
                }
            };
            let decision = step(&saga, &signal, &policy, now);
            if let Decision::StartAttempt { attempt_at, .. } = decision {
                jobs_created += 1;
                prop_assert_eq!(attempt_at, before.next_attempt_at);
                prop_assert!(attempt_at <= now);
                prop_assert!(before.attempt_count < policy.attempts_max || before.attempt_count == 0);
            }
            saga = saga.after(&decision, job(jobs_created));

            if let (SagaSignal::JobFinished(result), false) = (&signal, matches!(decision, Decision::Ignore(_))) {
                prop_assert!(applied.insert(result.job_id), "a result counted twice");
            }
            if before == saga {
                prop_assert!(matches!(decision, Decision::Ignore(_)));
            } else {
                prop_assert!(before.status.may_become(saga.status) && before.status != saga.status);
            }
            prop_assert!(!before.status.is_terminal() || before == saga);
            prop_assert_eq!(saga.attempt_count as usize, applied.len());
            prop_assert_eq!(saga.current_job_id.is_some(), saga.status == SagaStatus::InProgress);
            if saga.status == SagaStatus::PendingRetry && before.status == SagaStatus::InProgress {
                prop_assert!(saga.next_attempt_at > before.next_attempt_at);
                prop_assert!(saga.next_attempt_at > now);
            }
        }
    }
}
