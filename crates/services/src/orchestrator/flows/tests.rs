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
    Admitted { jobs, ..Admitted::default() }
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
    let mut quotas: Vec<_> = flows
        .quotas(jobs_max, at_ms(0))
        .iter()
        .map(|quota| (quota.subscription_id.get(), quota.jobs_max))
        .collect();
    quotas.sort_unstable();
    quotas
}

/// Everybody asked for gets all of his quota, and has more behind it.
fn admit_all(flows: &Flows, jobs_max: u32) -> Vec<(i64, u32)> {
    let given = flows.quotas(jobs_max, at_ms(0));
    let jobs: Vec<_> = given.iter().map(|quota| (quota.subscription_id.get(), quota.jobs_max)).collect();
    flows.admitted(&given, &admitted(&jobs));
    jobs
}

fn ready(ids: &[i64]) -> Flows {
    let flows = Flows::new(MAX);
    flows.found_due(ids.iter().map(|id| sub(*id)));
    let new = flows.to_count(at_ms(0));
    flows.counted(&new, &vec![0; new.len()], Duration::ZERO, at_ms(0));
    flows
}

#[test]
fn shares_are_equal_and_what_one_cannot_use_goes_to_the_others() {
    let flows = ready(&[1, 2, 3]);
    assert_eq!(quotas(&flows, 1_000), [(1, 16), (2, 16), (3, 16)], "nobody gets more than his bound");
    assert_eq!(quotas(&flows, 9), [(1, 3), (2, 3), (3, 3)]);
    flows.counted(&[sub(2)], &[15], Duration::ZERO, at_ms(0));
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
    let given = flows.quotas(100, at_ms(0));
    flows.admitted(&given, &admitted(&[(1, 16), (2, 3)]));
    assert_eq!(quotas(&flows, 100), [], "1 is full, 2 had no more");
    assert!(!flows.has_room());
    assert!(!flows.applied(&results(2, 3, None), at_ms(1)), "2 has room and nothing due");
    assert!(flows.applied(&results(1, 4, None), at_ms(1)), "1 waited for room");
    assert_eq!(quotas(&flows, 100), [(1, 4)]);
    flows.found_due([sub(2)]);
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
    flows.found_due([sub(1)]);
    assert_eq!(flows.to_count(at_ms(0)), [sub(1)], "a process that died may have left some under way");
    flows.counted(&[sub(1)], &[10], Duration::ZERO, at_ms(0));
    assert_eq!(admit_all(&flows, 100), [(1, 6)]);
    assert_eq!(flows.to_count(at_ms(999)), []);
    assert_eq!(flows.to_count(at_ms(1_000)), [sub(1)]);
    // As many as were thought: nobody else is at work.
    flows.counted(&[sub(1)], &[16], Duration::ZERO, at_ms(1_000));
    assert_eq!(flows.to_count(at_ms(1_500)), []);
    // Fewer: somebody is, so look more often.
    flows.counted(&[sub(1)], &[12], Duration::ZERO, at_ms(2_000));
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

#[test]
fn due_sagas_are_looked_for_from_where_the_last_were_taken() {
    let flows = ready(&[1]);
    let from = |now| flows.quotas(100, at_ms(now)).first().expect("a quota").from;
    let reach = |ms| {
        let reached = vec![(sub(1), at_ms(ms))];
        flows.admitted(&[], &Admitted { reached, ..Admitted::default() });
    };
    assert_eq!(from(1_000), None, "at first there may be anything");
    reach(900);
    reach(850);
    assert_eq!(from(1_000), Some(at_ms(800)), "a little before, for clocks that differ");
    assert_eq!(from(500), Some(at_ms(400)), "the clock was set back");
    flows.found_due([sub(1)]);
    assert_eq!(from(1_000), Some(at_ms(800)));
    flows.found_due_since(&[(sub(1), at_ms(950))]);
    assert_eq!(from(1_000), Some(at_ms(800)), "what a scan found is ahead");
    flows.found_due_since(&[(sub(1), at_ms(500))]);
    assert_eq!(from(1_000), Some(at_ms(400)), "or was left behind");
    reach(700);
    assert_eq!(from(1_000), Some(at_ms(600)));
}

#[test]
fn a_count_that_took_long_is_not_repeated_soon() {
    let flows = ready(&[1]);
    admit_all(&flows, 100);
    flows.counted(&[sub(1)], &[16], Duration::from_millis(200), at_ms(1_000));
    assert_eq!(flows.to_count(at_ms(4_999)), []);
    assert_eq!(flows.to_count(at_ms(5_000)), [sub(1)]);
    flows.found_due([sub(2)]);
    assert_eq!(flows.to_count(at_ms(1_000)), [sub(2)], "one that is new is counted at once");
}
