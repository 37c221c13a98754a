//! Tests of the serving order, the quotas, and the positions from which sagas are read.

use super::*;
use posthaste_core::ports::AdmittedJob;
use posthaste_core::{EventId, JobId, SagaId};
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_micros(0);

fn sub(id: i64) -> SubscriptionId {
    SubscriptionId::from_store(id)
}

fn at_ms(ms: u64) -> Timestamp {
    NOW.after(Duration::from_millis(ms))
}

fn due(id: i64, since_ms: u64) -> DueSince {
    DueSince { subscription_id: sub(id), since: at_ms(since_ms) }
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

fn queue(ids: &[i64]) -> (DueQueue, InFlight) {
    let mut queue = DueQueue::default();
    ids.iter().for_each(|id| queue.add(due(*id, 0)));
    (queue, InFlight::new(2048))
}

fn quotas(queue: &DueQueue, in_flight: &InFlight, jobs_max: u32) -> Vec<(i64, u32)> {
    let mut quotas: Vec<_> = queue
        .quotas(in_flight, jobs_max)
        .iter()
        .map(|quota| (quota.subscription_id.get(), quota.jobs_max))
        .collect();
    quotas.sort_unstable();
    quotas
}

#[test]
fn shares_are_equal_and_unused_shares_go_to_the_others() {
    let (queue, in_flight) = queue(&[1, 2, 3]);
    assert_eq!(quotas(&queue, &in_flight, 1_000), [(1, 16), (2, 16), (3, 16)], "none above its limit");
    assert_eq!(quotas(&queue, &in_flight, 9), [(1, 3), (2, 3), (3, 3)]);
    in_flight.counted(&[sub(2)], &[15], Duration::ZERO, NOW);
    assert_eq!(quotas(&queue, &in_flight, 9), [(1, 4), (2, 1), (3, 4)]);
    assert_eq!(quotas(&queue, &in_flight, 0), []);
}

#[test]
fn subscriptions_take_turns_when_there_are_more_of_them_than_jobs() {
    let (mut queue, in_flight) = queue(&[1, 2, 3, 4, 5]);
    let mut turns = Vec::new();
    for _ in 0..5 {
        let given = queue.quotas(&in_flight, 2);
        let jobs: Vec<_> = given.iter().map(|quota| (quota.subscription_id.get(), quota.jobs_max)).collect();
        in_flight.admitted(&admitted(&jobs).jobs);
        queue.served(&given, &admitted(&jobs), NOW);
        turns.extend(jobs);
    }
    turns.sort_unstable();
    assert_eq!(turns, [(1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (3, 1), (4, 1), (4, 1), (5, 1), (5, 1)]);
}

#[test]
fn subscription_that_does_not_use_its_quota_leaves_the_queue() {
    let (mut queue, in_flight) = queue(&[1, 2]);
    let given = queue.quotas(&in_flight, 100);
    let admitted = admitted(&[(1, 16), (2, 3)]);
    in_flight.admitted(&admitted.jobs);
    queue.served(&given, &admitted, NOW);
    assert_eq!(queue.subscriptions().collect::<Vec<_>>(), [sub(1)]);
    assert_eq!(quotas(&queue, &in_flight, 100), [], "1 is full");
    queue.add(due(2, 1));
    assert_eq!(quotas(&queue, &in_flight, 100), [(2, 13)]);
}

#[test]
fn sagas_are_read_from_the_smallest_time_fetched_recently() {
    let (mut queue, in_flight) = queue(&[]);
    let from = |queue: &DueQueue| queue.quotas(&in_flight, 100).first().expect("a quota").from;
    let fetched = |queue: &mut DueQueue, ms: u64, now: u64| {
        let fetched = vec![due(1, ms)];
        queue.served(&[], &Admitted { fetched, ..Admitted::default() }, at_ms(now));
    };
    queue.add(due(1, 900));
    assert_eq!(from(&queue), Some(at_ms(900)));
    for (ms, now) in [(950, 1_000), (1_050, 1_100), (1_060, 1_150), (1_150, 1_200)] {
        fetched(&mut queue, ms, now);
    }
    assert_eq!(from(&queue), Some(at_ms(1_050)));
    queue.add(due(1, 1_190));
    assert_eq!(from(&queue), Some(at_ms(1_050)), "ahead of the position");
    queue.add(due(1, 300));
    assert_eq!(from(&queue), Some(at_ms(300)), "behind it");
}

#[test]
fn saga_behind_the_read_position_would_be_missed() {
    let (mut queue, in_flight) = queue(&[]);
    queue.add(due(1, 500));
    let recent = at_ms(900);
    // Subscription, due time in ms, and whether only a scan finds the saga.
    for (id, since_ms, expected) in [(1, 499, true), (1, 500, false), (2, 899, true), (2, 900, false)] {
        assert_eq!(queue.would_miss(due(id, since_ms), recent), expected, "{id} since {since_ms}");
    }
    let given = queue.quotas(&in_flight, 100);
    queue.served(&given, &Admitted::default(), at_ms(1_000));
    assert!(queue.would_miss(due(1, 600), recent), "no longer queued");
}
