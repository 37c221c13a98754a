//! Checks that a job is claimed by one worker at a time, and that only the holder of the lease can report.

use crate::fixtures::{
    LEASE, MANY, T0, actor, at, claim, delivered, failed, job_ids, leases, token, worker_id,
};
use crate::harness::{Engine, Harness};
use posthaste_core::Timestamp;
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::ports::{
    Claim, CleanerStore as _, JobReport, Report, Stores, SubscriptionStore as _, WorkerStore as _,
};
use std::collections::HashMap;
use std::time::Duration;

pub async fn sixteen_claimers_share_ten_thousand_jobs<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 10_000).await;
    h.route_all(T0).await;
    assert!(h.engine == Engine::PostgresCut || h.admit(subscription, T0).await.jobs.len() == 10_000);
    h.admit(subscription, T0).await;
    let claimer = |number: u64, now: Timestamp| async move {
        let mut held = Vec::new();
        loop {
            let claim = Claim {
                worker_id: worker_id(number),
                token: token(),
                lease: LEASE,
                from: None,
                jobs_max: 97,
            };
            let jobs = h.claim_all(&claim, now).await;
            if jobs.is_empty() {
                return held;
            }
            held.extend(jobs.into_iter().map(|job| (job.job_id, claim.token)));
        }
    };
    let all = futures_util::future::join_all((0..16).map(|number| claimer(number, T0))).await;
    // A claimer that finds all rows locked stops early; the last one claims the rest.
    let rest = claimer(99, T0).await;
    let mut holders = HashMap::new();
    for (job, token) in all.into_iter().flatten().chain(rest) {
        assert!(holders.insert(job, token).is_none(), "{job} was claimed twice");
    }
    // A claim whose response was lost leases jobs that no claimer knows of.
    assert!(holders.len() == 10_000 || h.engine == Engine::PostgresCut, "{} were claimed", holders.len());
    assert_eq!(
        h.direct.number("SELECT count(*) FROM webhook_delivery_jobs WHERE status = 'Leased'").await,
        10_000
    );
    // Every returned token matches its row, so each report is accepted.
    for chunk in holders.iter().collect::<Vec<_>>().chunks(1_000) {
        let reports: Vec<_> = chunk
            .iter()
            .map(|(job_id, token)| JobReport {
                job_id: **job_id,
                token: **token,
                outcome: AttemptOutcome::Delivered { status: 204 },
                duration: Duration::from_millis(1),
            })
            .collect();
        let answers = h.sure(async || h.store.worker().report_jobs(reports.clone(), at(1)).await).await;
        assert!(answers.iter().all(|answer| *answer == Report::Accepted));
    }
    // Only the jobs from lost responses are reset when their leases expire.
    let expired = at(61);
    while !h
        .sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await)
        .await
        .is_empty()
    {}
    let pending = "SELECT id FROM webhook_delivery_jobs WHERE status = 'Pending'";
    let back = h.direct.texts(pending).await;
    assert!(back.iter().all(|id| !holders.keys().any(|held| held.to_string() == *id)));
    assert_eq!(holders.len() + back.len(), 10_000);
}

pub async fn the_oldest_job_is_claimed_first<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    for admitted_at in [at(10), at(20)] {
        h.publish("a", 2).await;
        h.route_all(T0).await;
        h.admit(subscription, admitted_at).await;
    }
    let first = h.claim_all(&claim(2), at(30)).await;
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|job| job.claimable_since == at(10) && job.attempt == 1), "{first:?}");
    assert!(first.iter().all(|job| job.lease_until == at(30).after(LEASE)));
    let then = h.claim_all(&claim(MANY), at(30)).await;
    assert_eq!(then.len(), 2);
    assert!(then.iter().all(|job| job.claimable_since == at(20)), "{then:?}");
    assert!(h.claim_all(&claim(MANY), at(31)).await.is_empty(), "leased jobs are not claimed again");
}

pub async fn a_report_after_the_lease_was_lost_is_refused<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 1).await;
    h.route_all(T0).await;
    let (jobs, zombie) = h.start_attempts(subscription, T0).await;
    let expired = at(61);
    h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await).await;
    let job = jobs[0].job_id.get();
    let before = h.row("webhook_delivery_jobs", job).await;
    let report = vec![delivered(&jobs[0], zombie)];
    let answer = h.sure(async || h.store.worker().report_jobs(report.clone(), expired).await).await;
    assert_eq!(answer, [Report::LeaseLost]);
    assert_eq!(h.row("webhook_delivery_jobs", job).await, before, "a lost lease changes nothing");
    // The same holds while another worker holds the lease, and after that worker has reported.
    let holder = claim(MANY);
    let again = h.claim_all(&holder, expired).await;
    assert_eq!(job_ids(&again), job_ids(&jobs));
    let answer = h.sure(async || h.store.worker().report_jobs(report.clone(), expired).await).await;
    assert_eq!(answer, [Report::LeaseLost]);
    let real = vec![failed(&again[0], holder.token, Failure::Http(503))];
    assert_eq!(
        h.sure(async || h.store.worker().report_jobs(real.clone(), expired).await).await,
        [Report::Accepted]
    );
    let before = h.row("webhook_delivery_jobs", job).await;
    assert_eq!(
        h.sure(async || h.store.worker().report_jobs(report.clone(), expired).await).await,
        [Report::LeaseLost]
    );
    assert_eq!(h.row("webhook_delivery_jobs", job).await, before);
    assert_eq!(
        h.sure(async || h.store.worker().release_jobs(job_ids(&jobs), zombie, expired).await).await,
        0
    );
}

pub async fn a_repeated_report_is_accepted_and_changes_nothing<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let reports = vec![delivered(&jobs[0], token), failed(&jobs[1], token, Failure::Timeout)];
    let accepted = [Report::Accepted, Report::Accepted];
    assert_eq!(h.sure(async || h.store.worker().report_jobs(reports.clone(), at(1)).await).await, accepted);
    let before = h.direct.rows("SELECT * FROM webhook_delivery_jobs ORDER BY id").await;
    assert_eq!(h.sure(async || h.store.worker().report_jobs(reports.clone(), at(2)).await).await, accepted);
    let applied = h.apply_all(at(3)).await.len();
    assert!(applied == 2 || h.engine == Engine::PostgresCut, "{applied} results were applied");
    assert_eq!(h.sure(async || h.store.worker().report_jobs(reports.clone(), at(4)).await).await, accepted);
    assert_eq!(h.direct.rows("SELECT * FROM webhook_delivery_jobs ORDER BY id").await, before);
    h.apply_all(at(5)).await;
    assert_eq!(h.direct.number("SELECT sum(attempt_count) FROM webhook_delivery_sagas").await, 2);
    let columns =
        "SELECT status, response_status, error_code, duration_ms FROM webhook_delivery_jobs ORDER BY id";
    let rows = h.direct.rows(columns).await;
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(rows[0], [text("Completed"), text("200"), None, text("7")]);
    assert_eq!(rows[1], [text("Failed"), None, text("TIMEOUT"), text("7")]);
    h.check_invariants().await;
}

/// Sends more reports than fit in one statement, including one with a lost lease, one retry and one duplicate.
pub async fn a_lost_lease_does_not_affect_other_reports<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 100).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let known = vec![delivered(&jobs[10], token)];
    h.sure(async || h.store.worker().report_jobs(known.clone(), at(1)).await).await;
    let mut reports: Vec<JobReport> = jobs.iter().map(|job| delivered(job, token)).collect();
    reports[50] = delivered(&jobs[50], crate::fixtures::token());
    reports[70] = failed(&jobs[70], token, Failure::Timeout);
    reports.push(reports[90].clone());
    let answers = h.sure(async || h.store.worker().report_jobs(reports.clone(), at(2)).await).await;
    for (place, answer) in answers.iter().enumerate() {
        let expected = if place == 50 { Report::LeaseLost } else { Report::Accepted };
        assert_eq!(*answer, expected, "report {place}");
    }
    assert_eq!(answers.len(), reports.len());
    let count = async |status| {
        let sql = format!("SELECT count(*) FROM webhook_delivery_jobs WHERE status = '{status}'");
        h.direct.number(&sql).await
    };
    assert_eq!([count("Completed").await, count("Failed").await, count("Leased").await], [98, 1, 1]);
    assert_eq!(h.direct.number("SELECT count(*) FROM finished_jobs").await, 99);
    h.check_invariants().await;
}

pub async fn a_release_does_not_count_as_a_reset<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 3).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let released = h.sure(async || h.store.worker().release_jobs(job_ids(&jobs), token, at(1)).await).await;
    assert!(released == 3 || h.engine == Engine::PostgresCut, "{released}");
    let sql = "SELECT count(*) FROM webhook_delivery_jobs WHERE status = 'Pending' AND lease_resets = 0";
    assert_eq!(h.direct.number(sql).await, 3);
    assert_eq!(h.claim_all(&claim(MANY), at(2)).await.len(), 3);
}

pub async fn events_and_targets_are_loaded_once_each<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    let ids = h.publish("a", 2).await;
    let twice = vec![ids[0], ids[0], ids[1]];
    assert_eq!(h.sure(async || h.store.worker().load_events(twice.clone()).await).await.len(), 2);
    let targets =
        h.sure(async || h.store.worker().load_targets(vec![subscription, subscription]).await).await;
    assert_eq!(targets.len(), 1);
    assert!(targets[0].verified);
    assert_eq!(targets[0].secrets.current.expose(), "secret-1");
    assert_eq!(targets[0].secrets.previous, None);
}

/// Checks that the normal claim skips suspects. Suspects that are not claimed stay `Pending`, so no reset is
/// counted for them.
pub async fn suspects_are_claimed_one_by_one_and_oldest_first<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 3).await;
    h.route_all(T0).await;
    h.admit(subscription, T0).await;
    assert_eq!(h.claim_suspect(&claim(1), T0).await, None);
    for now in [T0, at(100)] {
        assert_eq!(h.claim_all(&claim(MANY), now).await.len(), 3);
        let expired = now.after(LEASE + Duration::from_micros(1));
        h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, expired).await).await;
    }
    h.publish("a", 2).await;
    h.route_all(at(200)).await;
    h.admit(subscription, at(200)).await;
    assert_eq!(h.claim_all(&claim(MANY), at(200)).await.len(), 2, "suspects are skipped");
    let pending = async || {
        let sql = "SELECT count(*) FROM webhook_delivery_jobs WHERE status = 'Pending' AND lease_resets = 2";
        h.direct.number(sql).await
    };
    let mut claimed = Vec::new();
    for left in [2, 1, 0] {
        let holder = claim(1);
        let job = h.claim_suspect(&holder, at(200)).await.expect("a suspect");
        assert!(job.suspect && job.attempt == 1 && !claimed.contains(&job.job_id), "{job:?}");
        assert_eq!(pending().await, left);
        let report = vec![delivered(&job, holder.token)];
        let answers = h.sure(async || h.store.worker().report_jobs(report.clone(), at(201)).await).await;
        assert_eq!(answers, [Report::Accepted]);
        claimed.push(job.job_id);
    }
    assert_eq!(h.claim_suspect(&claim(1), at(202)).await, None);
    h.check_invariants().await;
}

/// Checks that a job is not sent after its subscription was deleted: the worker loads no target for it.
pub async fn a_subscription_deleted_after_admission_is_not_loaded<S: Stores>(h: &Harness<S>) {
    let (deleted, kept) = (h.subscribe("a").await, h.subscribe("a").await);
    h.publish("a", 1).await;
    h.route_all(T0).await;
    h.start_attempts(deleted, T0).await;
    assert!(h.calm.subscriptions().delete_subscription(deleted, actor(), at(1)).await.expect("a result"));
    let targets = h.sure(async || h.store.worker().load_targets(vec![deleted, kept]).await).await;
    let loaded: Vec<_> = targets.iter().map(|target| target.subscription_id).collect();
    assert_eq!(loaded, [kept]);
}
