//! Decides which due sagas start an attempt: the oldest sagas of each subscription, up to its quota. The stores
//! read the due sagas, write the [`Admission`], and return the jobs that they created.

use crate::ids::{EventId, JobId, SagaId, SubscriptionId};
use crate::ports::{Admitted, AdmittedJob, DeadLetteredSaga, DueSince, Quota};
use crate::retry::RetryPolicy;
use crate::saga::{self, Decision, SagaSignal, SagaState};
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// A saga that is waiting for an attempt, with the attempt limit of its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSaga {
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    pub state: SagaState,
    pub max_retry_limit: Option<u32>,
}

/// An attempt to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub saga_id: SagaId,
    pub event_id: EventId,
    pub subscription_id: SubscriptionId,
    pub attempt_at: Timestamp,
    pub suspect: bool,
}

/// The sagas that start an attempt or are dead-lettered. Both lists are sorted by saga id, because sagas are
/// always locked in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    pub starts: Vec<Start>,
    pub dead_lettered: Vec<DeadLetteredSaga>,
    /// The smallest `next_attempt_at` for each subscription.
    pub fetched: Vec<DueSince>,
}

impl Admission {
    pub const fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.dead_lettered.is_empty()
    }

    /// Returns the admitted jobs, given the jobs that were created. No job is created for a saga whose attempt
    /// already has one.
    pub fn carried_out(self, created: impl IntoIterator<Item = (JobId, SagaId)>) -> Admitted {
        let job = |(job_id, saga_id)| {
            let place = self.starts.binary_search_by_key(&saga_id, |start| start.saga_id).ok()?;
            let &Start { event_id, subscription_id, .. } = self.starts.get(place)?;
            Some(AdmittedJob { job_id, saga_id, event_id, subscription_id })
        };
        let jobs = created.into_iter().filter_map(job).collect();
        Admitted { jobs, dead_lettered: self.dead_lettered, fetched: self.fetched }
    }
}

/// Returns the non-zero quotas, sorted by subscription and without duplicates, so that all orchestrators lock
/// subscriptions in the same order.
pub fn distinct(mut quotas: Vec<Quota>) -> Vec<Quota> {
    quotas.retain(|quota| quota.jobs_max > 0);
    quotas.sort_unstable_by_key(|quota| quota.subscription_id);
    quotas.dedup_by_key(|quota| quota.subscription_id);
    quotas
}

/// Decides which due sagas start an attempt and which are dead-lettered. For each subscription, `due` must
/// contain at least the `jobs_max` oldest sagas of each waiting state, or all of them.
pub fn decide(quotas: &[Quota], mut due: Vec<DueSaga>, policy: RetryPolicy, now: Timestamp) -> Admission {
    due.sort_by_key(|saga| saga.state.next_attempt_at);
    let mut left: BTreeMap<SubscriptionId, u32> =
        quotas.iter().map(|quota| (quota.subscription_id, quota.jobs_max)).collect();
    let mut fetched = BTreeMap::new();
    let mut admission = Admission::default();
    for DueSaga { saga_id, event_id, subscription_id, state, max_retry_limit } in due {
        let Some(left) = left.get_mut(&subscription_id).filter(|left| **left > 0) else { continue };
        match saga::step(&state, &SagaSignal::Due, &policy.with_limit(max_retry_limit), now) {
            Decision::StartAttempt { attempt_at, suspect } => {
                admission.starts.push(Start { saga_id, event_id, subscription_id, attempt_at, suspect });
            }
            Decision::DeadLetter { .. } => {
                admission.dead_lettered.push(DeadLetteredSaga { saga_id, event_id, subscription_id });
            }
            Decision::Complete { .. } | Decision::Retry { .. } | Decision::Ignore(_) => continue,
        }
        *left -= 1;
        fetched.entry(subscription_id).or_insert(state.next_attempt_at);
    }
    admission.starts.sort_unstable_by_key(|start| start.saga_id);
    admission.dead_lettered.sort_unstable_by_key(|saga| saga.saga_id);
    admission.fetched =
        fetched.into_iter().map(|(subscription_id, since)| DueSince { subscription_id, since }).collect();
    admission
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::ErrorCode;
    use crate::saga::SagaStatus::{self, InProgress, Pending, PendingRetry};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn quota(subscription: i64, jobs_max: u32) -> Quota {
        Quota { subscription_id: SubscriptionId::from_store(subscription), jobs_max, from: None }
    }

    /// A saga: its id, subscription, status, attempt count, and the second at which it is due.
    type Row = (i64, i64, SagaStatus, u32, i64);

    fn due((id, subscription, status, attempt_count, second): Row) -> DueSaga {
        DueSaga {
            saga_id: SagaId::from_store(id),
            event_id: EventId::from_store(id + 100),
            subscription_id: SubscriptionId::from_store(subscription),
            state: SagaState { status, attempt_count, ..SagaState::fresh(at(second)) },
            max_retry_limit: (subscription == 9).then_some(2),
        }
    }

    fn check(quotas: &[(i64, u32)], rows: &[Row], started: &[i64], ended: &[i64], fetched: &[(i64, i64)]) {
        let quotas: Vec<Quota> = quotas.iter().map(|(id, jobs_max)| quota(*id, *jobs_max)).collect();
        let sagas = rows.iter().copied().map(due).collect();
        let admission = decide(&quotas, sagas, RetryPolicy::WEBHOOK, at(100));
        let starts: Vec<i64> = admission.starts.iter().map(|start| start.saga_id.get()).collect();
        let letters: Vec<i64> = admission.dead_lettered.iter().map(|saga| saga.saga_id.get()).collect();
        let lowest: Vec<_> =
            admission.fetched.iter().map(|due| (due.subscription_id.get(), due.since)).collect();
        let fetched: Vec<_> = fetched.iter().map(|(id, second)| (*id, at(*second))).collect();
        assert_eq!((starts, letters, lowest), (started.to_vec(), ended.to_vec(), fetched), "{rows:?}");
        assert_eq!(admission.is_empty(), started.is_empty() && ended.is_empty());
    }

    #[test]
    fn oldest_of_both_waiting_states_are_admitted_up_to_the_quota() {
        let (new, again) = (Pending, PendingRetry);
        check(&[(1, 5)], &[], &[], &[], &[]);
        // The order of the input does not matter; the result is sorted by id.
        let mixed = [(4, 1, new, 0, 40), (3, 1, new, 0, 10), (2, 1, again, 1, 30), (1, 1, again, 1, 20)];
        check(&[(1, 1)], &mixed, &[3], &[], &[(1, 10)]);
        check(&[(1, 2)], &mixed, &[1, 3], &[], &[(1, 10)]);
        check(&[(1, 3)], &mixed, &[1, 2, 3], &[], &[(1, 10)]);
        check(&[(1, 9)], &mixed, &[1, 2, 3, 4], &[], &[(1, 10)]);
        // Each subscription has its own quota. A subscription without a quota gets no jobs.
        let two = [(1, 1, new, 0, 5), (2, 1, new, 0, 6), (3, 2, new, 0, 7), (4, 3, new, 0, 1)];
        check(&[(1, 1), (2, 8)], &two, &[1, 3], &[], &[(1, 5), (2, 7)]);
        // A first attempt is always due. Retries that are not due and sagas with an active job do not use the
        // quota.
        let early = [(1, 1, InProgress, 0, 1), (2, 1, again, 1, 101), (3, 1, new, 0, 500)];
        check(&[(1, 1)], &early, &[3], &[], &[(1, 500)]);
        // The limit of subscription 9 is 2 attempts. A dead-lettered saga also uses the quota.
        let limited = [(1, 9, again, 2, 1), (2, 9, again, 1, 2), (3, 9, again, 3, 3), (4, 9, new, 0, 4)];
        check(&[(9, 3)], &limited, &[2], &[1, 3], &[(9, 1)]);
    }

    #[test]
    fn attempt_after_an_expired_lease_is_suspect() {
        let mut saga = due((1, 1, PendingRetry, 1, 7));
        saga.state.final_error_code = ErrorCode::parse("LEASE_EXPIRED").ok();
        let admission = decide(&[quota(1, 1)], vec![saga], RetryPolicy::WEBHOOK, at(100));
        assert!(
            matches!(admission.starts[..], [Start { attempt_at, suspect: true, .. }] if attempt_at == at(7))
        );
    }

    #[test]
    fn only_jobs_that_were_created_are_admitted() {
        let sagas = (1..=3).map(|id| due((id, 1, Pending, 0, id))).collect();
        let admission = decide(&[quota(1, 3)], sagas, RetryPolicy::WEBHOOK, at(100));
        let pair = |job, saga| (JobId::from_store(job), SagaId::from_store(saga));
        let admitted = admission.carried_out([pair(70, 3), pair(71, 1), pair(72, 4)]);
        let jobs = admitted.jobs.iter().map(|job| (job.job_id.get(), job.saga_id.get(), job.event_id.get()));
        assert_eq!(jobs.collect::<Vec<_>>(), [(70, 3, 103), (71, 1, 101)]);
        assert_eq!(admitted.fetched.len(), 1);
    }

    #[test]
    fn quotas_are_distinct_and_in_order() {
        let quotas = distinct(vec![quota(3, 1), quota(1, 2), quota(2, 0), quota(3, 1)]);
        assert_eq!(quotas, [quota(1, 2), quota(3, 1)]);
    }
}
