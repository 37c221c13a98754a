//! Tests that the checker detects a violation of each rule.

use super::*;
use crate::faults::chaos::evidence::Disturbance;
use std::time::Duration;

const fn second(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn saga(id: i64, pair: Pair, status: &str, attempt_count: i64) -> SagaRow {
    SagaRow { id, pair, status: status.to_owned(), attempt_count }
}

fn job(id: i64, saga_id: i64, status: &str) -> JobRow {
    JobRow { id, saga_id, status: status.to_owned(), lease_resets: 0 }
}

fn request(pair: Pair, at: Duration, answer: Option<u16>) -> Request {
    Request { pair, at, answer }
}

/// Creates valid evidence of three deliveries: one succeeds at the first attempt, one at the second, and one is
/// dead-lettered.
fn sound() -> Evidence {
    Evidence {
        expected: [(1, 1), (1, 2), (2, 1)].into(),
        sagas: vec![
            saga(1, (1, 1), "Completed", 1),
            saga(2, (1, 2), "Completed", 2),
            saga(3, (2, 1), "DeadLettered", 1),
        ],
        jobs: vec![job(1, 1, "Completed"), job(2, 2, "Failed"), job(3, 2, "Completed"), job(4, 3, "Failed")],
        dead_letters: vec![3],
        requests: vec![
            request((1, 1), second(100), Some(200)),
            request((1, 2), second(100), Some(500)),
            request((1, 2), second(101), Some(204)),
            request((2, 1), second(100), None),
        ],
        lease: second(8),
        ..Evidence::default()
    }
}

/// A change that makes valid evidence invalid.
type Break<'a> = &'a dyn Fn(&mut Evidence);

/// Applies a change to valid evidence and returns the violated rules.
fn rules(break_it: impl Fn(&mut Evidence)) -> Vec<Rule> {
    let mut evidence = sound();
    break_it(&mut evidence);
    let mut rules: Vec<Rule> = check(&evidence).iter().map(|complaint| complaint.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn valid_evidence_has_no_violations() {
    assert_eq!(check(&sound()), []);
    assert_eq!(check(&Evidence::default()), []);
}

#[test]
fn every_violation_is_detected() {
    let rows: [(&[Rule], Break); 13] = [
        (&[Rule::SagaMissing], &|all| all.expected.extend([(9, 9)])),
        (&[Rule::SagaTwice], &|all| {
            all.sagas.push(saga(9, (1, 1), "Completed", 1));
            all.jobs.push(job(9, 9, "Completed"));
        }),
        (&[Rule::Unasked], &|all| all.requests.push(request((9, 9), second(1), Some(200)))),
        (&[Rule::Unasked, Rule::CompletedUnanswered], &|all| {
            all.sagas.push(saga(9, (9, 9), "Completed", 0));
        }),
        (&[Rule::SagaUnfinished], &|all| all.sagas[0].status = "PendingRetry".to_owned()),
        (&[Rule::CompletedUnanswered], &|all| all.requests[0].answer = Some(500)),
        (&[Rule::CompletedUnanswered], &|all| all.requests.retain(|one| one.pair != (1, 1))),
        (&[Rule::DeadLetters], &|all| all.dead_letters.clear()),
        (&[Rule::DeadLetters], &|all| all.dead_letters.extend([3, 1])),
        (&[Rule::JobActive, Rule::AttemptCount], &|all| all.jobs[0].status = "Leased".to_owned()),
        (&[Rule::JobActive, Rule::TwoJobsActive], &|all| {
            all.jobs.extend([job(8, 1, "Pending"), job(9, 1, "Leased")]);
        }),
        (&[Rule::AttemptCount], &|all| all.sagas[1].attempt_count = 3),
        (&[Rule::LeftOver], &|all| all.unrouted = 1),
    ];
    for (number, (expected, break_it)) in rows.iter().enumerate() {
        assert_eq!(rules(break_it), *expected, "row {number}");
    }
    assert_eq!(rules(|all| all.unapplied = 1), [Rule::LeftOver]);
}

fn doubled(all: &mut Evidence) {
    all.requests.push(request((1, 1), second(110), Some(200)));
}

fn disturb(all: &mut Evidence, from: u64, until: u64, server: bool) {
    all.disturbances.push(Disturbance { from: second(from), until: second(until), server });
}

#[test]
fn an_extra_request_without_a_fault_is_a_violation() {
    let both = [Rule::ExtraBeyondDisturbances, Rule::ExtraBeyondLeases];
    assert_eq!(rules(doubled), both);
    // A fault outside all leases does not explain the request, nor does a reset without a fault.
    for (from, until) in [(10, 91), (119, 130)] {
        let rules = rules(|all| {
            doubled(all);
            disturb(all, from, until, false);
            all.jobs[0].lease_resets = 1;
        });
        assert_eq!(rules, [Rule::ExtraBeyondDisturbances], "{from} to {until}");
    }
    // A fault without a lost lease does not explain the request either.
    let unlost = rules(|all| {
        doubled(all);
        disturb(all, 101, 102, false);
    });
    assert_eq!(unlost, [Rule::ExtraBeyondLeases]);
}

#[test]
fn an_extra_request_after_a_fault_is_allowed() {
    for (from, until, server, lease_resets) in [(99, 99, false, 1), (80, 200, false, 1), (108, 109, true, 0)]
    {
        let rules = rules(|all| {
            doubled(all);
            disturb(all, from, until, server);
            all.jobs[0].lease_resets = lease_resets;
        });
        assert_eq!(rules, [], "{from} to {until}");
    }
    // One fault explains one request, not two.
    let twice = rules(|all| {
        doubled(all);
        doubled(all);
        disturb(all, 101, 102, false);
        all.jobs[0].lease_resets = 2;
    });
    assert_eq!(twice, [Rule::ExtraBeyondDisturbances]);
}
