//! Direct calls of the store operations that move deliveries from stage to stage, without HTTP or services.
//! Each call processes one batch. Callers check the results and repeat the calls.

use crate::message;
use anyhow::Context as _;
use posthaste_core::audit::Actor;
use posthaste_core::event::{EventType, NewEvent};
use posthaste_core::json::{JsonText, PAYLOAD_BYTES_MAX};
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{
    Claim, ClaimedJob, IngestStore as _, JobReport, OrchestratorStore as _, Quota, Report, RequestOutcome,
    ResultTake, RouteTake, Routed, RouterStore as _, Stores, SubscriptionStore as _, Verification,
    WorkerStore as _,
};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret};
use posthaste_core::{EventId, JobId, LeaseToken, SecretRef, SubscriptionId, Timestamp, WorkerId};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An event type that no [`Load`](crate::load::Load) uses.
const EVENT_TYPE: &str = "bench.alone";
const LEASE: Duration = Duration::from_secs(60);

/// A store with one subscription, called in batches of a fixed size.
#[derive(Debug)]
pub struct Calls<S> {
    store: S,
    subscription: SubscriptionId,
    batch: u32,
    tokens: AtomicU64,
}

impl<S: Stores> Calls<S> {
    /// Creates a `Calls` with a new, verified subscription in `store`.
    pub async fn new(store: S, batch: u32) -> anyhow::Result<Self> {
        let (secret, now) = (SealedSecret::new("whsec_bench"), store.now().await?);
        let callback_url = CallbackUrl::parse("https://receiver.example/", false)?;
        // The time differs between two subscriptions of one store.
        let secret_ref = SecretRef::from_bits(now.micros().unsigned_abs().into());
        let event_types = EventTypePatterns::of(EventType::parse(EVENT_TYPE)?);
        let subscription =
            NewSubscription::new(event_types, callback_url.clone(), secret_ref, secret.clone());
        let admin = store.subscriptions();
        let created = admin.create_subscription(subscription, Actor::root(None), now).await?.subscription();
        let id = created.context("the uid of the subscription is taken")?.id;
        let challenged = Verification::challenge(callback_url, secret);
        let is_verified = admin.mark_verified(id, challenged, Actor::root(None), now).await?;
        anyhow::ensure!(is_verified, "the subscription was not verified");
        Ok(Self { store, subscription: id, batch, tokens: AtomicU64::new(0) })
    }

    /// Stores a batch of events numbered from `first`. Each event is a separate request, as if posted by many
    /// concurrent callers.
    pub async fn insert(&self, first: u32, now: Timestamp) -> anyhow::Result<()> {
        publish(&self.store, first..first + self.batch, &|_| EVENT_TYPE.to_owned(), now).await
    }

    pub async fn route(&self, from: Option<EventId>, now: Timestamp) -> anyhow::Result<Routed> {
        let take = RouteTake { from, events_max: self.batch };
        self.store.router().route_events(take, now).await.context("routing")
    }

    /// Admits a batch of due deliveries and returns the number of jobs created.
    pub async fn admit(&self, now: Timestamp) -> anyhow::Result<usize> {
        let quotas = vec![Quota { subscription_id: self.subscription, jobs_max: self.batch, from: None }];
        let admitted = self.store.orchestrator().admit_due_sagas(quotas, RetryPolicy::WEBHOOK, now).await;
        Ok(admitted.context("admitting")?.jobs.len())
    }

    /// Claims at most `jobs_max` jobs with a new lease token.
    pub async fn claim(
        &self,
        from: Option<Timestamp>,
        jobs_max: u32,
        now: Timestamp,
    ) -> anyhow::Result<(LeaseToken, Vec<ClaimedJob>)> {
        let token = LeaseToken::from_random(self.tokens.fetch_add(1, Ordering::Relaxed).into());
        let claim = Claim { worker_id: WorkerId::parse("bench")?, token, lease: LEASE, from, jobs_max };
        let jobs = self.store.worker().claim_due_jobs(claim, now).await.context("claiming")?;
        Ok((token, jobs))
    }

    /// Loads the events and the delivery target of claimed jobs.
    pub async fn load(&self, jobs: &[ClaimedJob]) -> anyhow::Result<()> {
        let worker = self.store.worker();
        let events = worker.load_events(jobs.iter().map(|job| job.event_id).collect()).await?;
        let targets = worker.load_targets(vec![self.subscription]).await?;
        anyhow::ensure!(
            (events.len(), targets.len()) == (jobs.len(), 1),
            "an event or the target is missing"
        );
        Ok(())
    }

    /// Reports all `jobs` as delivered.
    pub async fn report(&self, token: LeaseToken, jobs: &[ClaimedJob], now: Timestamp) -> anyhow::Result<()> {
        let (outcome, duration) = (AttemptOutcome::Delivered { status: 200 }, Duration::from_millis(7));
        let report = |job_id: JobId| JobReport { job_id, token, outcome, duration };
        let reports = jobs.iter().map(|job| report(job.job_id)).collect();
        let answers = self.store.worker().report_jobs(reports, now).await.context("reporting")?;
        anyhow::ensure!(answers.iter().all(|answer| *answer == Report::Accepted), "a report was refused");
        Ok(())
    }

    /// Applies a batch of results. Returns the number of results and the smallest job id among them.
    pub async fn apply(&self, from: Option<JobId>, now: Timestamp) -> anyhow::Result<(usize, Option<JobId>)> {
        let take = ResultTake { from, results_max: self.batch };
        let applied = self.store.orchestrator().apply_job_results(take, RetryPolicy::WEBHOOK, now).await;
        let applied = applied.context("applying results")?;
        Ok((applied.len(), applied.iter().map(|result| result.job_id).min()))
    }
}

/// Stores the events with the given `numbers` in one batch, each as a separate request.
pub async fn publish<S: Stores>(
    store: &S,
    numbers: Range<u32>,
    event_type: &(dyn Fn(u32) -> String + Sync),
    now: Timestamp,
) -> anyhow::Result<()> {
    let event = |number| {
        let payload = JsonText::parse(message::payload(number), PAYLOAD_BYTES_MAX)?;
        Ok(vec![NewEvent::new(EventType::parse(event_type(number))?, payload)])
    };
    let requests = numbers.map(event).collect::<anyhow::Result<_>>()?;
    let outcomes = store.ingest().insert_events(requests, now).await.context("inserting events")?;
    let is_stored = |outcome: &RequestOutcome| matches!(outcome, RequestOutcome::Stored(_));
    anyhow::ensure!(outcomes.iter().all(is_stored), "an event was not stored");
    Ok(())
}
