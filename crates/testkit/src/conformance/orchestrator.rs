//! Checks that sagas follow the state machine, that each has at most one active job, and that no subscription starves.

use crate::fixtures::{MANY, POLICY, T0, actor, at, claim, delivered, failed, leases, quota};
use crate::harness::{Engine, Harness};
use crate::random::Random;
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::ports::{
    AppliedResult, CleanerStore as _, DueSince, JobReport, OrchestratorStore as _, Quota, ResultTake, Stores,
    SubscriptionStore as _, Updated, WaitPage, WorkerStore as _,
};
use posthaste_core::saga::{Decision, Ignored};
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

const JOBS: &str = "SELECT count(*) FROM webhook_delivery_jobs";

pub async fn two_orchestrators_create_one_job_for_each_saga<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 1_000).await;
    h.route_all(T0).await;
    let admit = || async {
        let mut made = Vec::new();
        loop {
            let admitted = h
                .sure(async || {
                    h.store.orchestrator().admit_due_sagas(quota(subscription, 33), POLICY, T0).await
                })
                .await;
            if admitted.jobs.is_empty() {
                return made;
            }
            made.extend(admitted.jobs);
        }
    };
    let (one, two) = tokio::join!(admit(), admit());
    let rest = admit().await;
    assert_eq!(h.direct.number(JOBS).await, 1_000);
    if h.engine != Engine::PostgresCut {
        assert_eq!(one.len() + two.len() + rest.len(), 1_000);
    }
    let moved = "SELECT count(*) FROM webhook_delivery_sagas g JOIN webhook_delivery_jobs j
        ON j.id = g.current_job_id AND j.saga_id = g.id AND j.attempt_at = g.next_attempt_at
        WHERE g.status = 'InProgress' AND j.status = 'Pending'";
    assert_eq!(h.direct.number(moved).await, 1_000);
    h.check_invariants().await;
}

/// Runs all components concurrently with unsynchronized clocks, while leases held by workers expire.
pub async fn a_saga_never_has_two_active_jobs<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe_with("a", Some(3)).await;
    h.publish("a", 60).await;
    h.route_all(T0).await;
    let actor = |seed: u64| async move {
        let mut random = Random::new(seed);
        for round in 0..30_u64 {
            let now = at(round * 200);
            match random.below(4) {
                0 => {
                    h.sure(async || {
                        h.store.orchestrator().admit_due_sagas(quota(subscription, 20), POLICY, now).await
                    })
                    .await;
                }
                1 => {
                    let claim = claim(20);
                    let jobs = h.claim_all(&claim, now).await;
                    let mut report = |job| {
                        if random.below(3) == 0 {
                            delivered(job, claim.token)
                        } else {
                            failed(job, claim.token, Failure::Http(500))
                        }
                    };
                    let reports: Vec<_> = jobs.iter().map(&mut report).collect();
                    h.sure(async || h.store.worker().report_jobs(reports.clone(), now).await).await;
                }
                2 => {
                    h.sure(async || h.store.cleaner().reset_expired_leases(leases(20), 3, now).await).await;
                }
                _ => {
                    let take = ResultTake { from: None, results_max: 20 };
                    h.sure(async || h.store.orchestrator().apply_job_results(take, POLICY, now).await).await;
                }
            }
        }
    };
    futures_util::future::join_all((1..=6).map(actor)).await;
    h.check_invariants().await;
    // Every saga reaches a terminal state.
    for round in 0..20_u64 {
        let now = at(100_000 + round * 4_000);
        h.sure(async || h.store.cleaner().reset_expired_leases(leases(MANY), 3, now).await).await;
        h.fail_attempts(subscription, now).await;
    }
    let unfinished =
        "SELECT count(*) FROM webhook_delivery_sagas WHERE status NOT IN ('Completed', 'DeadLettered')";
    assert_eq!(h.direct.number(unfinished).await, 0);
    h.check_invariants().await;
    let again = "INSERT INTO webhook_delivery_jobs (saga_id, attempt_at, lease_until, created_at)
        SELECT saga_id, attempt_at, lease_until, created_at FROM webhook_delivery_jobs";
    assert!(h.direct.try_rows(again).await.is_err(), "the database itself refuses the same attempt");
}

pub async fn a_result_applied_twice_counts_once<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 40).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let reports: Vec<_> = jobs.iter().map(|job| failed(job, token, Failure::Http(500))).collect();
    h.sure(async || h.store.worker().report_jobs(reports.clone(), at(1)).await).await;
    tokio::join!(h.apply_all(at(1)), h.apply_all(at(1)), h.apply_all(at(1)));
    h.apply_all(at(1)).await;
    let sagas = "SELECT * FROM webhook_delivery_sagas ORDER BY id";
    let before = h.direct.rows(sagas).await;
    assert_eq!(h.direct.number("SELECT sum(attempt_count) FROM webhook_delivery_sagas").await, 40);
    // Queue the same results again, before and after the next attempt starts.
    let again =
        "INSERT INTO finished_jobs (job_id) SELECT id FROM webhook_delivery_jobs WHERE status = 'Failed'";
    h.direct.run(again).await;
    h.apply_all(at(2)).await;
    assert_eq!(h.direct.rows(sagas).await, before);
    h.start_attempts(subscription, at(31)).await;
    let before = h.direct.rows(sagas).await;
    h.direct.run(again).await;
    h.apply_all(at(32)).await;
    assert_eq!(h.direct.rows(sagas).await, before);
    assert_eq!(h.direct.number("SELECT count(*) FROM finished_jobs").await, 0);
    h.check_invariants().await;
}

/// Uses connections that do not break, because a result lost on a broken connection is not returned again.
pub async fn an_ignored_result_is_returned_and_changes_nothing<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let [completed, retried] = [jobs[0], jobs[1]];
    let reports = vec![delivered(&completed, token), failed(&retried, token, Failure::Http(500))];
    h.sure(async || h.store.worker().report_jobs(reports.clone(), at(1)).await).await;
    let apply = async |now| {
        let take = ResultTake { from: None, results_max: MANY };
        let mut results = h.calm.orchestrator().apply_job_results(take, POLICY, now).await.expect("results");
        results.sort_unstable_by_key(|result| result.job_id);
        results
    };
    let first = apply(at(1)).await;
    assert_eq!(first.iter().map(AppliedResult::is_ignored).collect::<Vec<_>>(), [false, false]);
    assert_eq!(apply(at(1)).await, [], "each result is applied once");
    let expected = [(completed, Ignored::Terminal), (retried, Ignored::NotItsJob)];
    for now in [at(2), at(32)] {
        let sagas = "SELECT * FROM webhook_delivery_sagas ORDER BY id";
        let before = h.direct.rows(sagas).await;
        let again = "INSERT INTO finished_jobs (job_id)
            SELECT id FROM webhook_delivery_jobs WHERE status IN ('Completed', 'Failed')";
        h.direct.run(again).await;
        let results = apply(now).await;
        assert_eq!(results.len(), 2);
        for (result, (job, why)) in results.iter().zip(expected) {
            assert_eq!((result.job_id, result.saga_id), (job.job_id, job.saga_id));
            assert_eq!((result.event_id, result.subscription_id), (job.event_id, subscription));
            assert_eq!(result.decision, Decision::Ignore(why), "at {now:?}");
        }
        assert_eq!(h.direct.rows(sagas).await, before);
        assert_eq!(h.direct.number("SELECT count(*) FROM finished_jobs").await, 0);
        // On the second iteration, the next attempt has its own job.
        h.admit(subscription, at(31)).await;
    }
    h.check_invariants().await;
}

/// Checks that invalid inbox rows, which no component writes, are removed and that all other results are applied.
pub async fn an_invalid_result_does_not_stop_others<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 3).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let [unfinished, codeless, normal] = [jobs[0], jobs[1], jobs[2]];
    h.direct
        .run(&format!("INSERT INTO finished_jobs (job_id) VALUES (999999999), ({})", unfinished.job_id))
        .await;
    let fail = format!("UPDATE webhook_delivery_jobs SET status = 'Failed' WHERE id = {}", codeless.job_id);
    h.direct.run(&fail).await;
    h.direct.run(&format!("INSERT INTO finished_jobs (job_id) VALUES ({})", codeless.job_id)).await;
    let report = vec![delivered(&normal, token)];
    h.sure(async || h.store.worker().report_jobs(report.clone(), at(1)).await).await;
    h.apply_all(at(1)).await;
    assert_eq!(h.direct.number("SELECT count(*) FROM finished_jobs").await, 0);
    for (job, expected) in [(unfinished, "InProgress"), (codeless, "PendingRetry"), (normal, "Completed")] {
        assert_eq!(h.saga_status(job.saga_id).await, expected);
    }
    let report = vec![delivered(&unfinished, token)];
    h.sure(async || h.store.worker().report_jobs(report.clone(), at(2)).await).await;
    h.apply_all(at(2)).await;
    assert_eq!(h.saga_status(unfinished.saga_id).await, "Completed");
    h.check_invariants().await;
}

pub async fn a_lowered_limit_dead_letters_the_saga_when_due<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 1).await;
    h.route_all(T0).await;
    h.fail_attempts(subscription, T0).await;
    h.fail_attempts(subscription, at(30)).await;
    let lower = SubscriptionPatch { max_retry_limit: Some(Some(1)), ..SubscriptionPatch::default() };
    h.calm
        .subscriptions()
        .update_subscription(subscription, lower, None, actor(), at(31))
        .await
        .expect("the limit");
    let early = h.admit(subscription, at(89)).await;
    assert_eq!((early.jobs.len(), early.dead_lettered.len()), (0, 0));
    h.admit(subscription, at(90)).await;
    let saga =
        h.direct.rows("SELECT status, attempt_count, final_error_code FROM webhook_delivery_sagas").await;
    assert_eq!(saga, [["DeadLettered", "2", "HTTP_500"].map(|text| Some(text.to_owned()))]);
    assert_eq!(h.direct.number(JOBS).await, 2, "no attempt beyond the limit");
    h.check_invariants().await;
}

pub async fn retries_follow_the_schedule_into_the_dead_letter<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 3).await;
    h.route_all(T0).await;
    let mut now = T0;
    for gap_s in [30, 60, 120, 240] {
        h.fail_attempts(subscription, now).await;
        let due = now.after(Duration::from_secs(gap_s));
        let early = due.before(Duration::from_micros(1));
        assert!(h.admit(subscription, early).await.jobs.is_empty(), "{gap_s} s have not passed");
        now = due;
    }
    h.fail_attempts(subscription, now).await;
    let sql =
        "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'DeadLettered' AND attempt_count = 5";
    assert_eq!(h.direct.number(sql).await, 3);
    assert_eq!(h.direct.number(JOBS).await, 15);
    h.check_invariants().await;
}

pub async fn retry_after_is_read_from_the_row<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 1).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let outcome = AttemptOutcome::Failed {
        failure: Failure::Http(503),
        status: Some(503),
        retry_after: Some(Duration::from_secs(500)),
    };
    let report =
        vec![JobReport { job_id: jobs[0].job_id, token, outcome, duration: Duration::from_millis(3) }];
    h.sure(async || h.store.worker().report_jobs(report.clone(), T0).await).await;
    h.apply_all(T0).await;
    assert!(h.admit(subscription, at(499)).await.jobs.is_empty());
    h.admit(subscription, at(500)).await;
    assert_eq!(h.direct.number(JOBS).await, 2);
}

/// Reads all pages and returns each due subscription with the time at which it became due.
async fn due<S: Stores>(h: &Harness<S>, now: Timestamp) -> Vec<(SubscriptionId, Timestamp)> {
    let mut all: Vec<DueSince> = Vec::new();
    let mut after = None;
    loop {
        let found = h.sure(async || h.store.orchestrator().find_due_subscriptions(after, 3, now).await).await;
        all.extend(found.due);
        match found.next {
            Some(next) => after = Some(next),
            None => return pairs(&all),
        }
    }
}

fn pairs(due: &[DueSince]) -> Vec<(SubscriptionId, Timestamp)> {
    due.iter().map(|due| (due.subscription_id, due.since)).collect()
}

pub async fn a_large_backlog_does_not_starve_others<S: Stores>(h: &Harness<S>) {
    let large = h.subscribe("large").await;
    let mut small = Vec::new();
    for number in 0..8 {
        small.push(h.subscribe(&format!("small.{number}")).await);
    }
    h.publish("large", 5_000).await;
    h.route_all(T0).await;
    for number in 0..8 {
        h.publish(&format!("small.{number}"), 2).await;
    }
    h.route_all(at(1)).await;
    let everybody: Vec<_> = std::iter::once(large).chain(small.iter().copied()).collect();
    let since = |id: &SubscriptionId| (*id, if *id == large { T0 } else { at(1) });
    assert_eq!(due(h, at(1)).await, everybody.iter().map(since).collect::<Vec<_>>());
    let quotas: Vec<_> =
        everybody.iter().map(|id| Quota { subscription_id: *id, jobs_max: 4, from: None }).collect();
    h.sure(async || h.store.orchestrator().admit_due_sagas(quotas.clone(), POLICY, at(1)).await).await;
    let of = |id| {
        format!("{JOBS} j JOIN webhook_delivery_sagas g ON g.id = j.saga_id WHERE g.subscription_id = {id}")
    };
    for id in &small {
        assert_eq!(h.direct.number(&of(*id)).await, 2);
    }
    let admitted = h.direct.number(&of(large)).await;
    assert!(admitted == 4 || h.engine == Engine::PostgresCut, "{admitted} of a quota of 4");
    assert_eq!(due(h, at(1)).await, [(large, T0)], "the others are no longer due");
}

pub async fn recently_due_sagas_are_found_oldest_first<S: Stores>(h: &Harness<S>) {
    let (early, late, retried) =
        (h.subscribe("early").await, h.subscribe("late").await, h.subscribe("retried").await);
    h.publish("retried", 1).await;
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(retried, T0).await;
    let report = vec![failed(&jobs[0], token, Failure::Http(500))];
    h.sure(async || h.store.worker().report_jobs(report.clone(), T0).await).await;
    // The next attempt is due at 30 s.
    h.apply_all(T0).await;
    h.publish("early", 2).await;
    h.route_all(at(10)).await;
    h.publish("late", 3).await;
    h.route_all(at(20)).await;
    let look = async |since: u64, sagas_max: u32, now: u64| {
        let found = async || h.store.orchestrator().find_recently_due(at(since), sagas_max, at(now)).await;
        let found = h.sure(found).await;
        (pairs(&found.due), found.until)
    };
    let (early, late, retried) = ((early, at(10)), (late, at(20)), (retried, at(30)));
    // First attempts are due regardless of the clock.
    assert_eq!(look(0, 100, 9).await, (vec![early, late], None));
    assert_eq!(look(0, 100, 29).await, (vec![early, late], None));
    assert_eq!(look(0, 100, 30).await, (vec![early, late, retried], None));
    assert_eq!(look(11, 100, 30).await, (vec![late, retried], None));
    assert_eq!(look(21, 100, 29).await, (vec![], None));
    assert_eq!(due(h, at(20)).await, [early, late]);
    h.publish("retried", 1).await;
    h.route_all(at(29)).await;
    assert_eq!(due(h, at(29)).await[2], (retried.0, at(29)), "the retry is due later");
    h.admit(retried.0, at(29)).await;
    assert_eq!(due(h, at(31)).await[2], retried);
    // The limit was reached, so there may be more rows after the last one.
    assert_eq!(look(0, 2, 29).await, (vec![early], Some(at(10))));
    assert_eq!(look(0, 3, 40).await, (vec![early, late, retried], Some(at(20))));
}

pub async fn a_quota_skips_sagas_due_before_its_start<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    for second in [10, 20, 30] {
        h.publish("a", 1).await;
        h.route_all(at(second)).await;
    }
    let admit = async |from: Option<u64>, jobs_max: u32| {
        let quotas = vec![Quota { subscription_id: subscription, jobs_max, from: from.map(at) }];
        let admit = async || h.store.orchestrator().admit_due_sagas(quotas.clone(), POLICY, at(40)).await;
        pairs(&h.sure(admit).await.fetched)
    };
    let started = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'InProgress'";
    for (from, jobs_max, lowest, all) in [(Some(20), 1, 20, 1), (Some(15), 5, 30, 2), (None, 5, 10, 3)] {
        let answer = admit(from, jobs_max).await;
        if h.engine != Engine::PostgresCut {
            assert_eq!(answer, [(subscription, at(lowest))], "from {from:?}");
        }
        assert_eq!(h.direct.number(started).await, all, "from {from:?}");
    }
}

pub async fn a_paused_subscription_holds_and_resumes<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    h.sure(async || h.store.orchestrator().admit_due_sagas(quota(subscription, 1), POLICY, T0).await).await;
    let set = |active: bool| SubscriptionPatch { active: Some(active), ..SubscriptionPatch::default() };
    h.calm
        .subscriptions()
        .update_subscription(subscription, set(false), None, actor(), at(1))
        .await
        .expect("pause");
    let made = h.direct.number(JOBS).await;
    assert!(h.admit(subscription, at(2)).await.jobs.is_empty(), "no new job while paused");
    assert_eq!(due(h, at(2)).await, [], "held is not due");
    assert_eq!(
        i64::try_from(h.claim_all(&claim(MANY), at(2)).await.len()),
        Ok(made),
        "admitted jobs are sent"
    );
    h.publish("a", 1).await;
    h.route_all(at(3)).await;
    assert_eq!(
        h.direct.number("SELECT count(*) FROM webhook_delivery_sagas").await,
        2,
        "no new saga while paused"
    );
    h.calm
        .subscriptions()
        .update_subscription(subscription, set(true), None, actor(), at(4))
        .await
        .expect("resume");
    if made < 2 {
        assert_eq!(due(h, at(5)).await, [(subscription, T0)]);
    }
    h.admit(subscription, at(5)).await;
    assert_eq!(h.direct.number(JOBS).await, 2);
}

pub async fn a_deleted_subscription_holds_its_deliveries_for_ever<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    assert!(
        h.calm.subscriptions().delete_subscription(subscription, actor(), at(1)).await.expect("a result")
    );
    let resume = SubscriptionPatch { active: Some(true), ..SubscriptionPatch::default() };
    let gone = h
        .sure(async || {
            h.store
                .subscriptions()
                .update_subscription(subscription, resume.clone(), None, actor(), at(2))
                .await
        })
        .await;
    assert_eq!(gone, Updated::NotFound, "a deleted subscription cannot be made active");
    assert!(h.admit(subscription, at(3)).await.jobs.is_empty());
    assert_eq!(due(h, at(3)).await, []);
    let sql = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Pending'";
    assert_eq!(h.direct.number(sql).await, 2, "held, not lost");
}

/// Uses a clock that is an hour fast while one delivery fails, one is admitted and one is routed.
pub async fn a_clock_set_back_delays_no_delivery<S: Stores>(h: &Harness<S>) {
    let (ahead, now) = (at(3_600), at(10));
    let (failing, admitted, routed) =
        (h.subscribe("failing").await, h.subscribe("admitted").await, h.subscribe("routed").await);
    for event_type in ["failing", "admitted", "routed"] {
        h.publish(event_type, 1).await;
    }
    h.route_all(ahead).await;
    h.fail_attempts(failing, ahead).await;
    h.admit(admitted, ahead).await;
    assert_eq!(due(h, now).await, [(routed, ahead)], "a first attempt is due");
    h.admit(routed, now).await;
    assert_eq!(h.claim_all(&claim(MANY), now).await.len(), 2, "jobs are due");
    let restart = async |from, now| {
        let page = WaitPage { from, rows_max: 1 };
        h.sure(async || h.store.orchestrator().restart_waits(page, POLICY, now).await).await
    };
    let first = restart(now, now).await;
    assert!(first.next.is_some(), "a full page returns where to continue: {first:?}");
    assert_eq!(restart(now, at(11)).await.restarted, 0, "restarted only once");
    h.admit(failing, at(39)).await;
    let attempts =
        "SELECT count(*) FROM webhook_delivery_jobs j JOIN webhook_delivery_sagas g ON g.id = j.saga_id
        WHERE g.subscription_id = ";
    assert_eq!(h.direct.number(&format!("{attempts}{failing}")).await, 1, "the delay of 30 s is kept");
    h.admit(failing, at(40)).await;
    assert_eq!(h.direct.number(&format!("{attempts}{failing}")).await, 2);
    h.check_invariants().await;
}

/// Checks the counts of several subscriptions, including a duplicate id and an unknown id.
pub async fn deliveries_in_flight_are_counted_across_orchestrators<S: Stores>(h: &Harness<S>) {
    let (many, few, idle) = (h.subscribe("many").await, h.subscribe("few").await, h.subscribe("idle").await);
    h.publish("many", 6).await;
    h.publish("few", 2).await;
    h.publish("idle", 1).await;
    h.route_all(T0).await;
    let unknown = SubscriptionId::from_store(999_999_999);
    let count = async |count_max| {
        let asked = vec![few, unknown, many, idle, few];
        h.sure(async || h.store.orchestrator().count_in_flight(asked.clone(), count_max).await).await
    };
    assert_eq!(count(MANY).await, [0; 5], "a waiting saga is not in flight");
    // Use `calm`, whose connections do not break, so that a quota is admitted once.
    let quotas = [quota(many, 4), quota(few, 9)].concat();
    h.calm.orchestrator().admit_due_sagas(quotas, POLICY, T0).await.expect("admission");
    for (count_max, expected) in [(MANY, [2, 0, 4, 0, 2]), (3, [2, 0, 3, 0, 2]), (0, [0; 5])] {
        assert_eq!(count(count_max).await, expected, "at most {count_max}");
    }
    let claim = claim(MANY);
    let jobs = h.calm.worker().claim_due_jobs(claim.clone(), T0).await.expect("jobs");
    assert_eq!(count(MANY).await, [2, 0, 4, 0, 2], "a leased job is in flight");
    let of_many: Vec<_> = jobs.iter().filter(|job| job.subscription_id == many).collect();
    let reports = vec![
        delivered(of_many[0], claim.token),
        delivered(of_many[1], claim.token),
        failed(of_many[2], claim.token, Failure::Http(500)),
    ];
    h.sure(async || h.store.worker().report_jobs(reports.clone(), at(1)).await).await;
    h.apply_all(at(1)).await;
    assert_eq!(count(MANY).await, [2, 0, 1, 0, 2], "finished and retrying sagas are not in flight");
    let nobody = h.sure(async || h.store.orchestrator().count_in_flight(Vec::new(), MANY).await).await;
    assert_eq!(nobody, [0_u32; 0]);
}
