//! Tests of the limits and of the times at which jobs in flight are counted.

use super::*;
use posthaste_core::outcome::Failure;
use posthaste_core::saga::{Decision, Ignored};
use posthaste_core::{EventId, JobId, SagaId};

const MAX: u32 = 2048;

fn sub(id: i64) -> SubscriptionId {
    SubscriptionId::from_store(id)
}

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(0).after(Duration::from_millis(ms))
}

fn admit(in_flight: &InFlight, id: i64, count: usize) {
    let job = AdmittedJob {
        job_id: JobId::from_store(1),
        saga_id: SagaId::from_store(1),
        event_id: EventId::from_store(1),
        subscription_id: sub(id),
    };
    in_flight.admitted(&vec![job; count]);
}

fn results(id: i64, count: usize, failure: Option<Failure>) -> Vec<AppliedResult> {
    let result = AppliedResult {
        job_id: JobId::from_store(1),
        saga_id: SagaId::from_store(1),
        event_id: EventId::from_store(1),
        subscription_id: sub(id),
        error_code: failure.map(Failure::code),
        decision: Decision::Complete { attempt_count: 1 },
        saga_created_at: at_ms(0),
    };
    vec![result; count]
}

fn free(in_flight: &InFlight, ids: &[i64]) -> Vec<u32> {
    in_flight.free(ids.iter().map(|id| sub(*id)))
}

fn to_count(in_flight: &InFlight, id: i64, ms: u64) -> bool {
    !in_flight.to_count([sub(id)].into_iter(), at_ms(ms)).is_empty()
}

/// Creates counts for subscriptions without jobs in flight.
fn counted(ids: &[i64]) -> InFlight {
    let in_flight = InFlight::new(MAX);
    let ids: Vec<_> = ids.iter().map(|id| sub(*id)).collect();
    in_flight.counted(&ids, &vec![0; ids.len()], Duration::ZERO, at_ms(0));
    in_flight
}

#[test]
fn results_free_capacity_of_a_full_subscription() {
    let in_flight = counted(&[1, 2]);
    admit(&in_flight, 1, 16);
    admit(&in_flight, 2, 3);
    assert_eq!(free(&in_flight, &[1, 2, 3]), [0, 13, 16]);
    assert!(!in_flight.applied(&results(2, 3, None), at_ms(1)), "2 was not full");
    assert!(in_flight.applied(&results(1, 4, None), at_ms(1)));
    assert_eq!(free(&in_flight, &[1, 2]), [4, 16]);
}

#[test]
fn limit_grows_with_responses_and_shrinks_with_timeouts() {
    // An HTTP error is a response; a DNS failure does not affect the limit.
    let rows = [
        (None, 32),
        (Some(Failure::Http(500)), 32),
        (Some(Failure::Timeout), 4),
        (Some(Failure::DnsFailed), 16),
    ];
    for (failure, expected) in rows {
        let in_flight = counted(&[1]);
        admit(&in_flight, 1, 16);
        in_flight.applied(&results(1, 16, failure), at_ms(1));
        assert_eq!(free(&in_flight, &[1]), [expected], "{failure:?}");
    }
}

#[test]
fn ignored_result_frees_no_capacity() {
    let in_flight = counted(&[1]);
    admit(&in_flight, 1, 16);
    let mut stale = results(1, 5, None);
    for result in &mut stale {
        result.decision = Decision::Ignore(Ignored::NotItsJob);
    }
    assert!(!in_flight.applied(&stale, at_ms(1)));
    assert_eq!(free(&in_flight, &[1]), [0]);
}

#[test]
fn new_subscriptions_are_counted_at_once_and_full_ones_every_second() {
    let in_flight = InFlight::new(MAX);
    assert!(to_count(&in_flight, 1, 0), "a process that died may have left jobs in flight");
    in_flight.counted(&[sub(1)], &[10], Duration::ZERO, at_ms(0));
    assert!(!to_count(&in_flight, 1, 5_000), "it has room");
    admit(&in_flight, 1, 6);
    assert!(!to_count(&in_flight, 1, 999) && to_count(&in_flight, 1, 1_000));
    // The count is as expected: no other orchestrator is active.
    in_flight.counted(&[sub(1)], &[16], Duration::ZERO, at_ms(1_000));
    assert!(!to_count(&in_flight, 1, 1_500));
    // The count is lower than expected: another orchestrator is active.
    in_flight.counted(&[sub(1)], &[12], Duration::ZERO, at_ms(2_000));
    admit(&in_flight, 1, 4);
    assert!(!to_count(&in_flight, 1, 2_019) && to_count(&in_flight, 1, 2_020));
}

#[test]
fn results_of_jobs_admitted_elsewhere_reveal_another_orchestrator() {
    let in_flight = counted(&[1]);
    in_flight.applied(&results(1, 1, None), at_ms(10));
    admit(&in_flight, 1, 16);
    assert!(!to_count(&in_flight, 1, 19) && to_count(&in_flight, 1, 20));
}

#[test]
fn slow_count_is_repeated_every_second() {
    let in_flight = counted(&[1]);
    in_flight.applied(&results(1, 1, None), at_ms(10));
    admit(&in_flight, 1, 16);
    in_flight.counted(&[sub(1)], &[16], Duration::from_secs(30), at_ms(1_000));
    assert!(!to_count(&in_flight, 1, 1_999) && to_count(&in_flight, 1, 2_000));
    assert!(to_count(&in_flight, 2, 1_000), "a new subscription is counted at once");
}
