//! Checks that an expired lease is reset once, and that a job fails after a limited number of resets.

use crate::fixtures::{LEASE, MANY, T0, at, claim, delivered, leases};
use crate::harness::{Engine, Harness};
use posthaste_core::job::ExpiredLease;
use posthaste_core::ports::{CleanerStore as _, LeaseTake, Report, Stores, WorkerStore as _};
use std::time::Duration;

pub async fn a_job_is_either_reported_or_reset<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 400).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    assert_eq!(jobs.len(), 400);
    let expired = at(61);
    let report = async {
        let mut accepted = Vec::new();
        for chunk in jobs.chunks(10) {
            let reports: Vec<_> = chunk.iter().map(|job| delivered(job, token)).collect();
            let answers = h.sure(async || h.store.worker().report_jobs(reports.clone(), expired).await).await;
            accepted.extend(
                chunk
                    .iter()
                    .zip(answers)
                    .filter(|(_, answer)| *answer == Report::Accepted)
                    .map(|(job, _)| job.job_id),
            );
        }
        accepted
    };
    let clean = async {
        let mut reset = Vec::new();
        loop {
            let part =
                h.sure(async || h.store.cleaner().reset_expired_leases(leases(7), 3, expired).await).await;
            if part.is_empty() {
                return reset;
            }
            reset.extend(part.into_iter().map(|lease| lease.job_id));
        }
    };
    let (accepted, reset) = tokio::join!(report, clean);
    if h.engine != Engine::PostgresCut {
        assert!(accepted.iter().all(|job| !reset.contains(job)), "a job was reported and reset");
    }
    h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await).await;
    let count = |status: &'static str| async move {
        let sql = format!("SELECT count(*) FROM webhook_delivery_jobs WHERE status = '{status}'");
        h.direct.number(&sql).await
    };
    let completed = i64::try_from(accepted.len()).expect("a count");
    assert_eq!((count("Completed").await, count("Pending").await), (completed, 400 - completed));
    assert_eq!(h.direct.number("SELECT count(*) FROM finished_jobs").await, completed);
    h.apply_all(expired).await;
    h.check_invariants().await;
}

pub async fn the_cleaner_is_idempotent_and_stops_at_the_limit<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe_with("a", Some(2)).await;
    h.publish("a", 1).await;
    h.route_all(T0).await;
    h.admit(subscription, T0).await;
    let resets = "SELECT lease_resets FROM webhook_delivery_jobs ORDER BY id LIMIT 1";
    for round in 0..4_u32 {
        let now = at(u64::from(round) * 100);
        // After the second reset, the job is suspect, and the normal claim skips it.
        let is_suspect = round >= 2;
        let normal = h.claim_all(&claim(MANY), now).await;
        assert_eq!(normal.len(), usize::from(!is_suspect), "round {round}");
        assert_eq!(h.claim_suspect(&claim(1), now).await.is_some(), is_suspect, "round {round}");
        // A lease is still valid at its exact end.
        let until = at(u64::from(round) * 100 + 60);
        let early =
            h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, until).await).await;
        assert_eq!(early, [], "round {round}");
        let expired = at(u64::from(round) * 100 + 61);
        let first =
            h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await).await;
        if h.engine != Engine::PostgresCut {
            let expected = if round < 3 {
                ExpiredLease::GiveBack { lease_resets: round + 1, suspect: round >= 1 }
            } else {
                ExpiredLease::Fail { lease_resets: round + 1 }
            };
            assert_eq!(first.iter().map(|lease| lease.outcome).collect::<Vec<_>>(), [expected]);
            assert_eq!(first[0].worker_id.as_deref(), Some("worker-1"));
        }
        assert_eq!(
            h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await).await,
            [],
            "no second reset"
        );
        assert_eq!(h.direct.number(resets).await, i64::from(round) + 1);
    }
    let last = h.direct.rows("SELECT status, error_code FROM webhook_delivery_jobs").await;
    assert_eq!(last, [[Some("Failed".to_owned()), Some("LEASE_EXPIRED".to_owned())]]);
    // The attempt is counted now, and the delivery is retried.
    h.apply_all(at(400)).await;
    let saga =
        h.direct.rows("SELECT status, attempt_count, final_error_code FROM webhook_delivery_sagas").await;
    assert_eq!(saga, [["PendingRetry", "1", "LEASE_EXPIRED"].map(|text| Some(text.to_owned()))]);
    // The next job starts as a suspect and remains one after its first reset.
    h.admit(subscription, at(1_000)).await;
    for now in [at(1_000), at(1_100)] {
        assert!(h.claim_all(&claim(MANY), now).await.is_empty());
        let job = h.claim_suspect(&claim(1), now).await.expect("a suspect");
        assert_eq!((job.attempt, job.suspect, job.lease_until), (2, true, now.after(LEASE)));
        let expired = job.lease_until.after(Duration::from_micros(1));
        h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await).await;
    }
    h.check_invariants().await;
}

pub async fn leases_before_the_low_water_mark_are_skipped<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    h.admit(subscription, T0).await;
    // One lease expires at 60 s, the other at 70 s.
    assert_eq!(h.claim_all(&claim(1), T0).await.len(), 1);
    assert_eq!(h.claim_all(&claim(1), at(10)).await.len(), 1);
    let leased = "SELECT count(*) FROM webhook_delivery_jobs WHERE status = 'Leased'";
    for (from, left) in [(71, 2), (61, 1), (60, 0)] {
        let take = LeaseTake { from: Some(at(from)), ..leases(MANY) };
        h.sure(async || h.store.cleaner().reset_expired_leases(take, 3, at(100)).await).await;
        assert_eq!(h.direct.number(leased).await, left, "from {from}");
    }
}

pub async fn a_lease_beyond_the_maximum_counts_as_expired<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    h.admit(subscription, T0).await;
    // The first lease is claimed by a correct clock, the second by one that is an hour fast.
    assert_eq!(h.claim_all(&claim(1), T0).await.len(), 1);
    assert_eq!(h.claim_all(&claim(1), at(3_600)).await.len(), 1);
    h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, at(1)).await).await;
    let resets = "SELECT lease_resets FROM webhook_delivery_jobs WHERE status = 'Pending'";
    assert_eq!(h.direct.number(resets).await, 1);
    assert_eq!(
        h.direct.number("SELECT count(*) FROM webhook_delivery_jobs WHERE status = 'Leased'").await,
        1
    );
}
