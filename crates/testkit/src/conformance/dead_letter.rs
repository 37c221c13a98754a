//! Checks that dead letters are immutable and can be requeued as new sagas.

use crate::fixtures::{MANY, POLICY, T0, actor, at, delivered, event_type, json, stored};
use crate::harness::{Engine, Harness};
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{
    DeadLetterFilter, DeadLetterStore as _, IngestStore as _, Lineage, OrchestratorStore as _, PageRequest,
    ReaderStore as _, Requeue, RequeuedRange, ResultTake, Stores, SubscriptionStore as _, WorkerStore as _,
};
use posthaste_core::{DeadLetterId, SagaId};
use std::collections::BTreeSet;

pub async fn a_dead_letter_commits_with_the_status_and_keeps_the_payload<S: Stores>(h: &Harness<S>) {
    let payload = " {\"b\":1.0,\"a\":[\"\\u0000\", \"\\ud800\"],  \"b\":2}\n";
    let subscription = h.subscribe_with("a", Some(1)).await;
    let event = NewEvent { payload: json(payload), ..crate::fixtures::event("a") };
    let outcomes = h.calm.ingest().insert_events(vec![vec![event; 50]], T0).await.expect("events");
    assert_eq!(stored(&outcomes[0]).len(), 50);
    h.route_all(T0).await;
    let (jobs, token) = h.start_attempts(subscription, T0).await;
    let reports: Vec<_> = jobs
        .iter()
        .map(|job| crate::fixtures::failed(job, token, posthaste_core::outcome::Failure::Http(410)))
        .collect();
    h.sure(async || h.store.worker().report_jobs(reports.clone(), at(1)).await).await;
    // A dead letter and its saga's status always become visible together, even if results are applied in small batches.
    let apply = async {
        while h.direct.number("SELECT count(*) FROM finished_jobs").await > 0 {
            let take = ResultTake { from: None, results_max: 3 };
            h.sure(async || h.store.orchestrator().apply_job_results(take, POLICY, at(2)).await).await;
            h.check_invariants().await;
        }
    };
    apply.await;
    let sql = "SELECT count(*) FROM dead_letters d JOIN webhook_delivery_sagas g ON g.id = d.saga_id
        WHERE g.status = 'DeadLettered' AND d.final_error_code = 'HTTP_410' AND d.failed_at = g.updated_at";
    assert_eq!(h.direct.number(sql).await, 50);
    assert!(
        h.direct.texts("SELECT payload_snapshot FROM dead_letters").await.iter().all(|text| text == payload)
    );
    let id = DeadLetterId::from_store(h.direct.number("SELECT min(id) FROM dead_letters").await);
    let letter = h.sure(async || h.store.reader().dead_letter(id).await).await.expect("the letter");
    assert_eq!(letter.payload_snapshot.as_str(), payload);
    assert_eq!((letter.head.failed_at, letter.head.requeued_as), (at(2), None));
}

pub async fn concurrent_requeues_create_one_saga<S: Stores>(h: &Harness<S>) {
    let (_, _, letter) = h.dead_letter("a").await;
    let one =
        || h.sure(async || h.store.dead_letters().requeue_dead_letters(vec![letter], actor(), at(9)).await);
    let answers = futures_util::future::join_all((0..50).map(|_| one())).await;
    let mut created = 0;
    let mut sagas = BTreeSet::new();
    for answer in answers.into_iter().flatten() {
        match answer {
            Requeue::Created(saga) => {
                created += 1;
                sagas.insert(saga);
            }
            Requeue::AlreadyRequeued(saga) => {
                sagas.insert(saga);
            }
            Requeue::SubscriptionDeleted | Requeue::NotFound => panic!("{answer:?}"),
        }
    }
    assert!(created == 1 || (created == 0 && h.engine == Engine::PostgresCut), "{created} were created");
    assert_eq!(sagas.len(), 1);
    let sql = format!("SELECT count(*) FROM webhook_delivery_sagas WHERE requeued_from = {letter}");
    assert_eq!(h.direct.number(&sql).await, 1);
    let seen = h.sure(async || h.store.reader().dead_letter(letter).await).await.expect("the letter");
    assert_eq!(seen.head.requeued_as, sagas.first().copied());
}

/// Requeues a dead letter and returns the new saga.
async fn requeue<S: Stores>(h: &Harness<S>, letter: DeadLetterId, seconds: u64) -> SagaId {
    match h
        .sure(async || h.store.dead_letters().requeue_dead_letters(vec![letter], actor(), at(seconds)).await)
        .await[..]
    {
        [Requeue::Created(saga) | Requeue::AlreadyRequeued(saga)] => saga,
        ref other => panic!("{other:?}"),
    }
}

pub async fn a_requeue_leaves_the_dead_saga_unchanged<S: Stores>(h: &Harness<S>) {
    let (subscription, dead, letter) = h.dead_letter("a").await;
    let before =
        (h.row("webhook_delivery_sagas", dead.get()).await, h.row("dead_letters", letter.get()).await);
    let saga = requeue(h, letter, 9).await;
    assert_ne!(saga, dead);
    let fresh = "SELECT status, attempt_count, final_error_code, current_job_id FROM webhook_delivery_sagas WHERE id = ";
    let fresh = h.direct.rows(&format!("{fresh}{saga}")).await;
    assert_eq!(fresh, [[Some("Pending".to_owned()), Some("0".to_owned()), None, None]]);
    assert_eq!(
        h.direct.number("SELECT count(*) FROM webhook_delivery_jobs").await,
        1,
        "a requeue creates no job"
    );
    let (jobs, token) = h.start_attempts(subscription, at(9)).await;
    let reports: Vec<_> = jobs.iter().map(|job| delivered(job, token)).collect();
    h.sure(async || h.store.worker().report_jobs(reports.clone(), at(10)).await).await;
    h.apply_all(at(10)).await;
    assert_eq!(h.saga_status(saga).await, "Completed");
    let after =
        (h.row("webhook_delivery_sagas", dead.get()).await, h.row("dead_letters", letter.get()).await);
    assert_eq!(before, after);
    h.check_invariants().await;
}

pub async fn a_requeued_saga_can_be_dead_lettered_and_requeued_again<S: Stores>(h: &Harness<S>) {
    let (subscription, _, first) = h.dead_letter("a").await;
    let saga = requeue(h, first, 9).await;
    h.fail_attempts(subscription, at(9)).await;
    assert_eq!(h.saga_status(saga).await, "DeadLettered");
    let second = h.direct.number(&format!("SELECT id FROM dead_letters WHERE saga_id = {saga}")).await;
    let second = DeadLetterId::from_store(second);
    let third = requeue(h, second, 20).await;
    assert_ne!(third, saga);
    assert_eq!(requeue(h, first, 21).await, saga, "the first letter still refers to its own saga");
    assert_eq!(h.direct.number("SELECT count(*) FROM webhook_delivery_sagas").await, 3);
    h.check_invariants().await;
}

pub async fn a_refused_requeue_gives_the_reason<S: Stores>(h: &Harness<S>) {
    let (subscription, _, letter) = h.dead_letter("a").await;
    let unknown = DeadLetterId::from_store(i64::MAX);
    h.calm.subscriptions().delete_subscription(subscription, actor(), at(1)).await.expect("delete");
    let ids = vec![unknown, letter];
    let answers =
        h.sure(async || h.store.dead_letters().requeue_dead_letters(ids.clone(), actor(), at(2)).await).await;
    assert_eq!(answers, [Requeue::NotFound, Requeue::SubscriptionDeleted]);
    assert_eq!(h.direct.number("SELECT count(*) FROM webhook_delivery_sagas").await, 1);
}

pub async fn dead_letters_are_found_by_filter<S: Stores>(h: &Harness<S>) {
    let (subscription, _, first) = h.dead_letter("a").await;
    let (_, _, second) = h.dead_letter("b").await;
    let page = PageRequest::first(10);
    let rows = [
        (DeadLetterFilter::default(), vec![first, second]),
        (
            DeadLetterFilter { subscription_id: Some(subscription), ..DeadLetterFilter::default() },
            vec![first],
        ),
        (DeadLetterFilter { event_type: Some(event_type("b")), ..DeadLetterFilter::default() }, vec![second]),
        (DeadLetterFilter { since: Some(at(1)), ..DeadLetterFilter::default() }, vec![]),
        (
            DeadLetterFilter { since: Some(T0), until: Some(at(1)), ..DeadLetterFilter::default() },
            vec![first, second],
        ),
        (DeadLetterFilter { until: Some(T0), ..DeadLetterFilter::default() }, vec![]),
    ];
    for (filter, expected) in rows {
        let found =
            h.sure(async || h.store.dead_letters().find_dead_letters(filter.clone(), page).await).await;
        assert_eq!((found.items, found.next), (expected.clone(), None), "{filter:?}");
        let read = h.sure(async || h.store.reader().dead_letters(filter.clone(), page).await).await;
        let newest_first: Vec<_> = expected.into_iter().rev().collect();
        let ids: Vec<_> = read.items.iter().map(|letter| letter.head.id).collect();
        assert_eq!(ids, newest_first, "{filter:?}");
        let heads = h.sure(async || h.store.reader().dead_letter_heads(filter.clone(), page).await).await;
        let whole: Vec<_> = read.items.into_iter().map(|letter| letter.head).collect();
        assert_eq!((heads.items, heads.next), (whole, read.next), "{filter:?}");
    }
    let one = PageRequest::first(1);
    let found = h
        .sure(async || h.store.dead_letters().find_dead_letters(DeadLetterFilter::default(), one).await)
        .await;
    assert_eq!(found.items, [first]);
    let next = PageRequest::first(MANY).behind(found.next);
    let found = h
        .sure(async || h.store.dead_letters().find_dead_letters(DeadLetterFilter::default(), next).await)
        .await;
    assert_eq!(found.items, [second]);
}

pub async fn lineage_is_returned_for_both_sagas<S: Stores>(h: &Harness<S>) {
    let (subscription, dead, letter) = h.dead_letter("a").await;
    let lineage = async |saga: SagaId| h.sure(async || h.store.reader().lineage(saga).await).await;
    let given_up = Lineage { dead_letter_id: Some(letter), ..Lineage::default() };
    assert_eq!(lineage(dead).await, given_up);
    let again = requeue(h, letter, 9).await;
    assert_eq!(lineage(dead).await, Lineage { requeued_as: Some(again), ..given_up });
    let fresh = Lineage { made_from: Some((letter, dead)), ..Lineage::default() };
    assert_eq!(lineage(again).await, fresh);
    h.fail_attempts(subscription, at(9)).await;
    let second = h.direct.number(&format!("SELECT id FROM dead_letters WHERE saga_id = {again}")).await;
    let dead_letter_id = Some(DeadLetterId::from_store(second));
    assert_eq!(lineage(again).await, Lineage { dead_letter_id, ..fresh });
    assert_eq!(lineage(SagaId::from_store(i64::MAX)).await, Lineage::default());
}

pub async fn outcomes_of_requeued_sagas_are_counted<S: Stores>(h: &Harness<S>) {
    let (one, _, first) = h.dead_letter("a").await;
    let (other, _, second) = h.dead_letter("b").await;
    let (_, _, third) = h.dead_letter("c").await;
    requeue(h, first, 9).await;
    requeue(h, second, 20).await;
    requeue(h, third, 30).await;
    let all = RequeuedRange { first, last: third, since: T0, subscription_id: None, event_type: None };
    let count = async |range: &RequeuedRange| {
        let fates = h.sure(async || h.store.reader().count_requeued(range.clone()).await).await;
        assert_eq!(fates.reached, None, "{fates:?}");
        (fates.delivered, fates.waiting, fates.given_up)
    };
    assert_eq!(count(&all).await, (0, 3, 0));
    let (jobs, token) = h.start_attempts(one, at(30)).await;
    let reports: Vec<_> = jobs.iter().map(|job| delivered(job, token)).collect();
    h.sure(async || h.store.worker().report_jobs(reports.clone(), at(31)).await).await;
    h.apply_all(at(31)).await;
    h.fail_attempts(other, at(30)).await;
    for (range, expected) in [
        (all.clone(), (1, 1, 1)),
        (RequeuedRange { first: second, ..all.clone() }, (0, 1, 1)),
        (RequeuedRange { last: second, ..all.clone() }, (1, 0, 1)),
        (RequeuedRange { since: at(20), ..all.clone() }, (0, 1, 1)),
        (RequeuedRange { since: at(21), ..all.clone() }, (0, 1, 0)),
        (RequeuedRange { subscription_id: Some(one), ..all.clone() }, (1, 0, 0)),
        (RequeuedRange { event_type: Some(event_type("b")), ..all.clone() }, (0, 0, 1)),
        (RequeuedRange { event_type: Some(event_type("nobody")), ..all.clone() }, (0, 0, 0)),
    ] {
        assert_eq!(count(&range).await, expected, "{range:?}");
    }
}

pub async fn an_operator_resumes_the_lane_and_keeps_its_rate<S: Stores>(h: &Harness<S>) {
    let moment = |second: u64| match h.engine {
        Engine::Sqlite => at(second).micros().to_string(),
        Engine::Postgres | Engine::PostgresCut => {
            format!("'epoch'::timestamptz + {} * interval '1 microsecond'", at(second).micros())
        }
    };
    let (paused, slowed) = (moment(1), moment(2));
    h.direct
        .run(&format!(
            "UPDATE outbox_lane SET paused_at = {paused}, reason = 'credentials', rate = 2.5, unauthorized_in_row = 5,
                faults_in_row = 7, probe_until = {paused}, next_send_at = {slowed}, slowed_at = {slowed}"
        ))
        .await;
    let before = h.sure(async || h.store.reader().lane().await).await.lane;
    assert!(before.is_holding() && before.paused_at.is_some());
    let resumed = h.sure(async || h.store.dead_letters().resume_lane(actor(), at(9)).await).await;
    assert_eq!(resumed, before.resumed(at(9)), "the database resumes as the core does");
    assert_eq!(h.sure(async || h.store.reader().lane().await).await.lane, resumed);
}
