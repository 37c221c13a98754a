//! Values for tests, and shorthands for common calls.

use crate::harness::Harness;
use crate::random::Random;
use posthaste_core::audit::Actor;
use posthaste_core::event::{EventType, ExternalEventId, NewEvent};
use posthaste_core::json::{JsonText, PAYLOAD_BYTES_MAX};
use posthaste_core::order::Order;
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{
    Admitted, AppliedResult, Claim, ClaimedJob, Created, IngestStore as _, Ingested, JobReport, LeaseTake,
    OrchestratorStore as _, OutboxClaim, Quota, RequestOutcome, ResultTake, RouteTake, Routed,
    RouterStore as _, SecretRotation, StoreResult, Stores, SubscriptionStore as _, Updated, Verification,
    WorkerStore as _,
};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret, Subscription};
use posthaste_core::{
    DeadLetterId, EventId, JobId, LeaseToken, SagaId, SecretRef, SubscriptionId, Timestamp, WorkerId,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The start time of every test.
pub const T0: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
pub const LEASE: Duration = Duration::from_secs(60);
pub const POLICY: RetryPolicy = RetryPolicy::WEBHOOK;
pub const URL: &str = "https://receiver.example/hook";
/// A limit that exceeds the number of rows in any test.
pub const MANY: u32 = 100_000;

pub fn at(seconds: u64) -> Timestamp {
    T0.after(Duration::from_secs(seconds))
}

/// Returns the actor for tests that do not check the audit.
pub fn actor() -> Actor {
    Actor::root(None)
}

pub fn event_type(text: &str) -> EventType {
    EventType::parse(text).expect("an event type")
}

/// Returns a list of event types and patterns.
pub fn event_types(patterns: &[&str]) -> EventTypePatterns {
    EventTypePatterns::parse(patterns.iter().map(|&text| text.to_owned()).collect()).expect("patterns")
}

pub fn json(text: &str) -> JsonText {
    JsonText::parse(text, PAYLOAD_BYTES_MAX).expect("JSON")
}

pub fn event(kind: &str) -> NewEvent {
    NewEvent::new(event_type(kind), json(r#"{"amount": 12.50}"#))
}

/// Creates a subscription to events of type `kind`, with defaults for all other fields.
pub fn subscription(kind: &str) -> NewSubscription {
    NewSubscription::new(event_types(&[kind]), callback(URL), secret_ref(), SealedSecret::new("secret-1"))
}

/// Returns a new secret reference. Numbers them, so that a failing test can be repeated.
pub fn secret_ref() -> SecretRef {
    static LAST: AtomicU64 = AtomicU64::new(0);
    SecretRef::from_bits(u128::from(LAST.fetch_add(1, Ordering::Relaxed)) + 1)
}

/// Creates a rotation from the secret `from` to `to`, without encryption. The old secret remains valid until `until`.
pub fn rotation(from: &str, to: &str, until: Timestamp) -> SecretRotation {
    SecretRotation {
        replaced: SealedSecret::new(from),
        secret: SealedSecret::new(to),
        previous: Some((SealedSecret::new(from), until)),
        older: None,
        signing_key: None,
    }
}

/// Creates a subscription and marks it as verified, as if its receiver had passed the challenge.
pub async fn subscribe_verified(store: &impl Stores, new: NewSubscription, now: Timestamp) -> SubscriptionId {
    let challenged = Verification::challenge(new.callback_url.clone(), new.secret.clone());
    let subscriptions = store.subscriptions();
    let id = created(subscriptions.create_subscription(new, actor(), now).await).id;
    assert!(subscriptions.mark_verified(id, challenged, actor(), now).await.expect("verification"));
    id
}

/// Returns a subscription that was created.
pub fn created(result: StoreResult<Created>) -> Subscription {
    result.expect("a subscription").subscription().expect("a new uid")
}

/// Returns a subscription after a change.
pub fn updated(result: StoreResult<Updated>) -> Subscription {
    result.expect("a change").subscription().expect("the subscription")
}

pub fn named_event(kind: &str, external_id: &str) -> NewEvent {
    let external_event_id = Some(ExternalEventId::parse(external_id).expect("an external id"));
    NewEvent { external_event_id, ..event(kind) }
}

pub fn order(key: &str, qty: u32) -> Order {
    let text = format!(
        r#"{{"idempotency_key":"{key}","symbol":"USDJPY","intent":"BUY","qty":{qty},"limit_price":145.001,"trace_id":"trace-{key}","meta":{{"source":"test"}}}}"#
    );
    Order::parse(text.as_bytes()).expect("an order")
}

pub fn worker_id(number: u64) -> WorkerId {
    WorkerId::parse(format!("worker-{number}")).expect("a worker id")
}

/// Returns a lease token that is unique in this process.
pub fn token() -> LeaseToken {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let mut random = Random::new(DRAWN.fetch_add(1, Ordering::Relaxed));
    LeaseToken::from_random(random.bits128())
}

pub fn claim(jobs_max: u32) -> Claim {
    Claim { worker_id: worker_id(1), token: token(), lease: LEASE, from: None, jobs_max }
}

/// Creates a claim of up to `orders_max` orders by the first worker.
pub fn order_claim(orders_max: u32) -> OutboxClaim {
    let probe_for = Duration::from_secs(30);
    OutboxClaim { worker_id: worker_id(1), token: token(), orders_max, probe_for, again: false }
}

pub fn delivered(job: &ClaimedJob, token: LeaseToken) -> JobReport {
    let outcome = AttemptOutcome::Delivered { status: 200 };
    JobReport { job_id: job.job_id, token, outcome, duration: Duration::from_millis(7) }
}

pub fn failed(job: &ClaimedJob, token: LeaseToken, failure: Failure) -> JobReport {
    let outcome = AttemptOutcome::Failed { failure, status: None, retry_after: None };
    JobReport { job_id: job.job_id, token, outcome, duration: Duration::from_millis(7) }
}

pub fn quota(subscription_id: SubscriptionId, jobs_max: u32) -> Vec<Quota> {
    vec![Quota { subscription_id, jobs_max, from: None }]
}

/// Creates a request for up to `jobs_max` expired leases, oldest first.
pub const fn leases(jobs_max: u32) -> LeaseTake {
    LeaseTake { from: None, jobs_max, ahead_max: Duration::from_secs(2 * LEASE.as_secs()) }
}

pub fn stored(outcome: &RequestOutcome) -> &[Ingested] {
    match outcome {
        RequestOutcome::Stored(events) => events,
        RequestOutcome::Blocked | RequestOutcome::Refused(_) | RequestOutcome::Conflict(_) => {
            panic!("not stored: {outcome:?}")
        }
    }
}

pub const fn id_of(ingested: Ingested) -> EventId {
    match ingested {
        Ingested::New(id) | Ingested::Duplicate(id) => id,
    }
}

impl<S: Stores> Harness<S> {
    /// Creates a verified, active subscription.
    pub async fn subscribe(&self, kind: &str) -> SubscriptionId {
        self.subscribe_with(kind, None).await
    }

    pub async fn subscribe_with(&self, kind: &str, max_retry_limit: Option<u32>) -> SubscriptionId {
        let new = NewSubscription { max_retry_limit, ..subscription(kind) };
        subscribe_verified(&self.calm, new, T0).await
    }

    pub async fn subscribe_unverified(&self, kind: &str, max_retry_limit: Option<u32>) -> SubscriptionId {
        let new = NewSubscription { max_retry_limit, ..subscription(kind) };
        created(self.calm.subscriptions().create_subscription(new, actor(), T0).await).id
    }

    /// Inserts `count` events of a type and returns their ids.
    pub async fn publish(&self, kind: &str, count: usize) -> Vec<EventId> {
        let request = vec![event(kind); count];
        let outcomes = self.calm.ingest().insert_events(vec![request], T0).await.expect("events");
        stored(&outcomes[0]).iter().copied().map(id_of).collect()
    }

    pub async fn route_all(&self, now: Timestamp) -> Routed {
        let take = RouteTake { from: None, events_max: MANY };
        self.sure(async || self.store.router().route_events(take, now).await).await
    }

    pub async fn admit(&self, subscription: SubscriptionId, now: Timestamp) -> Admitted {
        self.sure(async || {
            self.store.orchestrator().admit_due_sagas(quota(subscription, MANY), POLICY, now).await
        })
        .await
    }

    pub async fn claim_all(&self, claim: &Claim, now: Timestamp) -> Vec<ClaimedJob> {
        self.sure(async || self.store.worker().claim_due_jobs(claim.clone(), now).await).await
    }

    pub async fn claim_suspect(&self, claim: &Claim, now: Timestamp) -> Option<ClaimedJob> {
        self.sure(async || self.store.worker().claim_suspect_job(claim.clone(), now).await).await
    }

    pub async fn apply_all(&self, now: Timestamp) -> Vec<AppliedResult> {
        let take = ResultTake { from: None, results_max: MANY };
        self.sure(async || self.store.orchestrator().apply_job_results(take, POLICY, now).await).await
    }

    /// Admits the due sagas of a subscription and claims their jobs.
    pub async fn start_attempts(
        &self,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> (Vec<ClaimedJob>, LeaseToken) {
        self.admit(subscription, now).await;
        let claim = claim(MANY);
        let jobs = self.claim_all(&claim, now).await;
        (jobs, claim.token)
    }

    /// Runs one failed attempt for every due saga of a subscription, and applies the results.
    pub async fn fail_attempts(&self, subscription: SubscriptionId, now: Timestamp) -> Vec<AppliedResult> {
        let (jobs, token) = self.start_attempts(subscription, now).await;
        let mut reports: Vec<_> = jobs.iter().map(|job| failed(job, token, Failure::Http(500))).collect();
        let mut alone = claim(1);
        while let Some(suspect) = self.claim_suspect(&alone, now).await {
            reports.push(failed(&suspect, alone.token, Failure::Http(500)));
            alone = claim(1);
        }
        self.sure(async || self.store.worker().report_jobs(reports.clone(), now).await).await;
        self.apply_all(now).await
    }

    /// Creates one event whose only delivery is dead-lettered. Returns the subscription, the saga and the dead letter.
    pub async fn dead_letter(&self, kind: &str) -> (SubscriptionId, SagaId, DeadLetterId) {
        let subscription = self.subscribe_with(kind, Some(1)).await;
        self.publish(kind, 1).await;
        self.route_all(T0).await;
        self.fail_attempts(subscription, T0).await;
        let sql = format!("SELECT saga_id, id FROM dead_letters WHERE subscription_id = {subscription}");
        let row = self.direct.rows(&sql).await.remove(0);
        let number =
            |column: usize| row[column].as_deref().and_then(|text| text.parse().ok()).expect("an id");
        (subscription, SagaId::from_store(number(0)), DeadLetterId::from_store(number(1)))
    }

    pub async fn saga_status(&self, saga: SagaId) -> String {
        self.direct
            .texts(&format!("SELECT status FROM webhook_delivery_sagas WHERE id = {saga}"))
            .await
            .remove(0)
    }

    /// Returns all columns of a row as text.
    pub async fn row(&self, table: &str, id: i64) -> Vec<Option<String>> {
        self.direct.rows(&format!("SELECT * FROM {table} WHERE id = {id}")).await.remove(0)
    }

    /// Checks the invariants that hold after any sequence of calls.
    pub async fn check_invariants(&self) {
        let two_active = "SELECT count(*) FROM (SELECT saga_id FROM webhook_delivery_jobs
            WHERE status IN ('Pending', 'Leased') GROUP BY saga_id HAVING count(*) > 1) AS twice";
        assert_eq!(self.direct.number(two_active).await, 0, "a saga has two active jobs");
        let miscounted = "SELECT count(*) FROM webhook_delivery_sagas g WHERE attempt_count <>
            (SELECT count(*) FROM webhook_delivery_jobs j WHERE j.saga_id = g.id AND j.status IN ('Completed', 'Failed')
                AND NOT EXISTS (SELECT 1 FROM finished_jobs f WHERE f.job_id = j.id))";
        assert_eq!(
            self.direct.number(miscounted).await,
            0,
            "attempt_count is not the number of applied results"
        );
        let astray =
            "SELECT count(*) FROM webhook_delivery_sagas g WHERE status = 'InProgress' AND NOT EXISTS
            (SELECT 1 FROM webhook_delivery_jobs j WHERE j.id = g.current_job_id AND j.saga_id = g.id)";
        assert_eq!(self.direct.number(astray).await, 0, "an InProgress saga has no job");
        let letters = "SELECT count(*) FROM webhook_delivery_sagas g WHERE status = 'DeadLettered' AND 1 <>
            (SELECT count(*) FROM dead_letters d WHERE d.saga_id = g.id)";
        assert_eq!(
            self.direct.number(letters).await,
            0,
            "a DeadLettered saga does not have exactly one dead letter"
        );
    }
}

pub fn callback(text: &str) -> CallbackUrl {
    CallbackUrl::parse(text, false).expect("a URL")
}

pub fn job_ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.job_id).collect()
}
