//! Whose turn it is, and how many each may have.

use super::*;
use posthaste_core::outcome::Failure;
use posthaste_core::ports::AdmittedJob;
use posthaste_core::{EventId, JobId, SagaId};

const MAX: u32 = 2048;

fn sub(id: i64) -> SubscriptionId {
    SubscriptionId::from_store(id)
}

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(0).after(Duration::from_millis(ms))
}

fn admitted(jobs: &[(i64, u32)]) -> Admitted {
    let job = |id: i64| AdmittedJob {
        job_id: JobId::from_store(1),
        saga_id: SagaId::from_store(1),
        event_id: EventId::from_store(1),
        subscription_id: sub(id),
    };
    let jobs = jobs.iter().flat_map(|(id, count)| (0..*count).map(move |_| job(*id))).collect();
    Admitted { jobs, dead_lettered: Vec::new() }
}

fn results(id: i64, count: u32, failure: Option<Failure>) -> Vec<AppliedResult> {
    let result = AppliedResult {
        job_id: JobId::from_store(1),
        saga_id: SagaId::from_store(1),
        event_id: EventId::from_store(1),
        subscription_id: sub(id),
        error_code: failure.map(Failure::code),
        decision: Decision::Complete { attempt_count: 1 },
        saga_created_at: at_ms(0),
    };
    vec![result; count as usize]
}

fn quotas(flows: &Flows, jobs_max: u32) -> Vec<(i64, u32)> {
    let mut quotas: Vec<_> =
        flows.quotas(jobs_max).iter().map(|quota| (quota.subscription_id.get(), quota.jobs_max)).collect();
    quotas.sort_unstable();
    quotas
}

/// Everybody asked for gets all of his quota, and has more behind it.
fn admit_all(flows: &Flows, jobs_max: u32) -> Vec<(i64, u32)> {
    let given = flows.quotas(jobs_max);
    let jobs: Vec<_> = given.iter().map(|quota| (quota.subscription_id.get(), quota.jobs_max)).collect();
    flows.admitted(&given, &admitted(&jobs));
    jobs
}

fn ready(ids: &[i64]) -> Flows {
    let flows = Flows::new(MAX);
    flows.found_due(&ids.iter().map(|id| sub(*id)).collect::<Vec<_>>());
    let new = flows.to_count(at_ms(0));
    flows.counted(&new, &vec![0; new.len()], at_ms(0));
    flows
}

#[test]
fn shares_are_equal_and_what_one_cannot_use_goes_to_the_others() {
    let flows = ready(&[1, 2, 3]);
    assert_eq!(quotas(&flows, 1_000), [(1, 16), (2, 16), (3, 16)], "nobody gets more than his bound");
    assert_eq!(quotas(&flows, 9), [(1, 3), (2, 3), (3, 3)]);
    flows.counted(&[sub(2)], &[15], at_ms(0));
    assert_eq!(quotas(&flows, 9), [(1, 4), (2, 1), (3, 4)]);
    assert_eq!(quotas(&flows, 0), []);
}

#[test]
fn where_there_are_more_subscriptions_than_jobs_they_take_turns() {
    let flows = ready(&[1, 2, 3, 4, 5]);
    let mut turns = Vec::new();
    for _ in 0..5 {
        turns.extend(admit_all(&flows, 2));
    }
    turns.sort_unstable();
    assert_eq!(turns, [(1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (3, 1), (4, 1), (4, 1), (5, 1), (5, 1)]);
}

#[test]
fn one_that_is_full_or_drained_gets_nothing_until_something_changes() {
    let flows = ready(&[1, 2]);
    let given = flows.quotas(100);
    flows.admitted(&given, &admitted(&[(1, 16), (2, 3)]));
    assert_eq!(quotas(&flows, 100), [], "1 is full, 2 had no more");
    assert!(!flows.has_room());
    assert!(!flows.applied(&results(2, 3, None), at_ms(1)), "2 has room and nothing due");
    assert!(flows.applied(&results(1, 4, None), at_ms(1)), "1 waited for room");
    assert_eq!(quotas(&flows, 100), [(1, 4)]);
    flows.found_due(&[sub(2)]);
    assert_eq!(quotas(&flows, 100), [(1, 4), (2, 16)]);
}

#[test]
fn bounds_follow_the_answers() {
    let flows = ready(&[1, 2]);
    admit_all(&flows, 100);
    flows.applied(&results(1, 16, None), at_ms(1));
    flows.applied(&results(2, 16, Some(Failure::Timeout)), at_ms(1));
    assert_eq!(quotas(&flows, 1_000), [(1, 32), (2, 4)]);
    // A refusal is an answer; a name that cannot be resolved says nothing.
    let flows = ready(&[1, 2]);
    admit_all(&flows, 100);
    flows.applied(&results(1, 16, Some(Failure::Http(500))), at_ms(1));
    flows.applied(&results(2, 16, Some(Failure::DnsFailed)), at_ms(1));
    assert_eq!(quotas(&flows, 1_000), [(1, 32), (2, 16)]);
}

#[test]
fn a_result_that_changed_nothing_frees_nothing() {
    let flows = ready(&[1]);
    admit_all(&flows, 100);
    let mut stale = results(1, 5, None);
    for result in &mut stale {
        result.decision = Decision::Ignore(posthaste_core::saga::Ignored::NotItsJob);
    }
    assert!(!flows.applied(&stale, at_ms(1)));
    assert_eq!(quotas(&flows, 100), []);
}

#[test]
fn new_ones_are_counted_first_and_full_ones_now_and_then() {
    let flows = Flows::new(MAX);
    flows.found_due(&[sub(1)]);
    assert_eq!(flows.to_count(at_ms(0)), [sub(1)], "a process that died may have left some under way");
    flows.counted(&[sub(1)], &[10], at_ms(0));
    assert_eq!(admit_all(&flows, 100), [(1, 6)]);
    assert_eq!(flows.to_count(at_ms(999)), []);
    assert_eq!(flows.to_count(at_ms(1_000)), [sub(1)]);
    // As many as were thought: nobody else is at work.
    flows.counted(&[sub(1)], &[16], at_ms(1_000));
    assert_eq!(flows.to_count(at_ms(1_500)), []);
    // Fewer: somebody is, so look more often.
    flows.counted(&[sub(1)], &[12], at_ms(2_000));
    assert_eq!(admit_all(&flows, 100), [(1, 4)]);
    assert_eq!(flows.to_count(at_ms(2_020)), [sub(1)]);
}

#[test]
fn results_of_others_jobs_are_a_sign_of_others() {
    let flows = ready(&[1]);
    flows.applied(&results(1, 1, None), at_ms(10));
    admit_all(&flows, 100);
    assert_eq!(flows.to_count(at_ms(19)), []);
    assert_eq!(flows.to_count(at_ms(20)), [sub(1)]);
}
