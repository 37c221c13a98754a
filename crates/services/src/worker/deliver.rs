//! One attempt of one delivery, from the claimed job to the answered report.

use super::{WorkerKit, WorkerOptions};
use crate::batcher::BatchError;
use crate::egress::Destination;
use crate::sender::{Delivery, Post, ReadUpTo, delivery_headers};
use bytes::Bytes;
use posthaste_core::event::{CorrelationId, EventType, TraceParent};
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::ports::{
    ClaimedJob, JobReport, Report, StoreError, StoreResult, StoredEvent, Target, WorkerStore,
};
use posthaste_core::signature::SigningSecret;
use posthaste_core::{EventId, LeaseToken, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What must be left of a lease beside the exchange itself: the report must land before it runs out.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// One claimed job with all that its attempt needs, or why it cannot be made.
#[derive(Debug)]
pub(super) struct LoadedJob {
    pub(super) job: ClaimedJob,
    content: Result<(Arc<Content>, Arc<Address>), Failure>,
}

impl LoadedJob {
    fn correlation_id(&self) -> Option<&CorrelationId> {
        self.content.as_ref().ok()?.0.correlation_id.as_ref()
    }
}

/// An event, read once for all jobs of a claim that carry it.
#[derive(Debug)]
struct Content {
    event_type: EventType,
    body: Bytes,
    correlation_id: Option<CorrelationId>,
    traceparent: Option<TraceParent>,
    /// When it was accepted.
    created_at: Timestamp,
}

/// A subscription, read once for all jobs of a claim that go there.
#[derive(Debug)]
struct Address {
    to: Destination,
    secrets: Vec<SigningSecret>,
}

/// Reads, sends and reports.
#[derive(Debug)]
pub(super) struct Deliverer<S> {
    store: S,
    kit: WorkerKit,
    deadline: Duration,
    worker_id: String,
}

impl<S: WorkerStore> Deliverer<S> {
    pub(super) fn new(store: S, kit: WorkerKit, options: &WorkerOptions) -> Self {
        let worker_id = options.worker_id.as_str().to_owned();
        Self { store, kit, deadline: options.deadline, worker_id }
    }

    /// Reads what the jobs of one claim need, each event and subscription once.
    pub(super) async fn read(&self, jobs: &[ClaimedJob], now: Timestamp) -> StoreResult<Vec<LoadedJob>> {
        let events = distinct(jobs.iter().map(|job| job.event_id));
        let targets = distinct(jobs.iter().map(|job| job.subscription_id));
        let (events, targets) = tokio::join!(self.read_events(events), self.read_targets(targets));
        let contents: HashMap<EventId, Arc<Content>> =
            events?.into_iter().map(|event| (event.id, Arc::new(Content::of(event)))).collect();
        let addresses: HashMap<SubscriptionId, Result<Arc<Address>, Failure>> = targets?
            .into_iter()
            .map(|target| (target.subscription_id, self.address(&target, now).map(Arc::new)))
            .collect();
        let loaded = |job: &ClaimedJob| {
            let content = contents.get(&job.event_id).cloned().ok_or(Failure::EventGone);
            let address = addresses.get(&job.subscription_id).cloned();
            let address = address.unwrap_or(Err(Failure::SubscriptionGone));
            LoadedJob { job: *job, content: content.and_then(|content| Ok((content, address?))) }
        };
        Ok(jobs.iter().map(loaded).collect())
    }

    async fn read_events(&self, ids: Vec<EventId>) -> StoreResult<Vec<StoredEvent>> {
        match self.store.load_events(ids.clone()).await {
            Err(StoreError::Unreadable { .. }) => {
                one_by_one(ids, |id| self.store.load_events(vec![id])).await
            }
            answer => answer,
        }
    }

    async fn read_targets(&self, ids: Vec<SubscriptionId>) -> StoreResult<Vec<Target>> {
        match self.store.load_targets(ids.clone()).await {
            Err(StoreError::Unreadable { .. }) => {
                one_by_one(ids, |id| self.store.load_targets(vec![id])).await
            }
            answer => answer,
        }
    }

    /// Where a delivery goes, unless nothing may go there.
    fn address(&self, target: &Target, now: Timestamp) -> Result<Address, Failure> {
        if !target.verified {
            return Err(Failure::NotVerified);
        }
        let live = target.secrets.previous.iter().filter(|(_, until)| now < *until).map(|(secret, _)| secret);
        let mut secrets = Vec::with_capacity(2);
        for sealed in std::iter::once(&target.secrets.current).chain(live) {
            secrets.push(self.kit.sealer.open(sealed).map_err(|error| {
                let subscription_id = target.subscription_id;
                tracing::error!(%subscription_id, %error, "the signing secret cannot be opened");
                Failure::SecretUnreadable
            })?);
        }
        Ok(Address { to: self.kit.sender.aim(target.callback_url.as_str())?, secrets })
    }

    /// Makes the attempt and reports it. A lease that has not time enough left is given back unused.
    pub(super) async fn carry(&self, loaded: LoadedJob, token: LeaseToken) {
        let (job, began) = (loaded.job, Instant::now());
        let now = self.kit.clock.now();
        if now.after(self.deadline + LEASE_MARGIN) > job.lease_until {
            self.give_back(&loaded, token, now).await;
            return;
        }
        let outcome = match &loaded.content {
            Ok((content, address)) => self.send(&job, content, address, now).await,
            Err(failure) => AttemptOutcome::failed(*failure),
        };
        let (duration, ended_at) = (began.elapsed(), self.kit.clock.now());
        self.kit.metrics.attempt(&outcome);
        self.kit.metrics.attempt_seconds.observe(duration.as_secs_f64());
        let report = JobReport { job_id: job.job_id, token, outcome, duration };
        let reported = self.kit.reports.call(report).await;
        if let Ok(Report::Accepted) = &reported {
            match outcome.code() {
                None => self.kit.metrics.health.succeeded(job.subscription_id, duration),
                Some(code) => self.kit.metrics.health.failed(job.subscription_id, code, ended_at),
            }
        }
        // Nobody but the worker may read when the event was accepted, so it is measured here and not where the
        // delivery ends.
        if let (Ok(Report::Accepted), None, Ok((content, _))) = (&reported, outcome.code(), &loaded.content) {
            self.kit.metrics.delivered(ended_at.since(content.created_at));
        }
        self.tell(&job, &outcome, loaded.correlation_id(), reported);
    }

    async fn send(
        &self,
        job: &ClaimedJob,
        content: &Content,
        address: &Address,
        now: Timestamp,
    ) -> AttemptOutcome {
        let delivery = Delivery {
            event_id: job.event_id,
            subscription_id: job.subscription_id,
            event_type: &content.event_type,
            attempt: job.attempt,
            traceparent: content.traceparent.as_ref(),
        };
        let secrets: Vec<&SigningSecret> = address.secrets.iter().collect();
        let post = Post {
            headers: delivery_headers(&delivery, &secrets, &content.body, now),
            body: content.body.clone(),
            answer: ReadUpTo::Status,
            deadline: self.deadline,
        };
        self.kit.sender.send(&address.to, post, now).await.outcome
    }

    async fn give_back(&self, loaded: &LoadedJob, token: LeaseToken, now: Timestamp) {
        let job = &loaded.job;
        let (saga_id, job_id, worker_id) = (job.saga_id, job.job_id, self.worker_id.as_str());
        let (event_id, subscription_id) = (job.event_id, job.subscription_id);
        let correlation_id = loaded.correlation_id().map(CorrelationId::as_str);
        let lease_expiration = job.lease_until;
        tracing::warn!(
            correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id, %lease_expiration,
            "too little of the lease is left to send: the job is given back"
        );
        if let Err(error) = self.store.release_jobs(vec![job.job_id], token, now).await {
            tracing::warn!(correlation_id, %saga_id, %job_id, %event_id, worker_id, %error, "the lease must run out by itself");
        }
    }

    fn tell(
        &self,
        job: &ClaimedJob,
        outcome: &AttemptOutcome,
        correlation_id: Option<&CorrelationId>,
        reported: Result<Report, BatchError>,
    ) {
        let (saga_id, job_id, event_id) = (job.saga_id, job.job_id, job.event_id);
        let (subscription_id, worker_id) = (job.subscription_id, self.worker_id.as_str());
        let correlation_id = correlation_id.map(CorrelationId::as_str);
        let lease_expiration = job.lease_until;
        match reported {
            Ok(Report::Accepted) => {
                let (attempt, response_status) = (job.attempt, outcome.status());
                let status = if outcome.code().is_none() { "Completed" } else { "Failed" };
                let error_code = outcome.code().map(tracing::field::display);
                tracing::debug!(
                    correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id, attempt,
                    status, response_status, error_code, %lease_expiration, "attempt made"
                );
            }
            Ok(Report::LeaseLost) => {
                self.kit.metrics.leases_lost.inc();
                tracing::warn!(
                    correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id,
                    %lease_expiration, "came back after its lease was given away: the result does not count"
                );
            }
            Err(error) => tracing::error!(
                correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id, %error,
                %lease_expiration, "the result could not be reported: the lease runs out, and the job is done again"
            ),
        }
    }
}

impl Content {
    fn of(event: StoredEvent) -> Self {
        Self {
            event_type: event.event_type,
            body: Bytes::from(event.payload.into_string()),
            correlation_id: event.correlation_id,
            traceparent: event.traceparent,
            created_at: event.created_at,
        }
    }
}

fn distinct<T: Copy + Ord>(ids: impl Iterator<Item = T>) -> Vec<T> {
    let mut ids: Vec<T> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A row that cannot be read must not stop those beside it: it is left out, as if it were gone.
async fn one_by_one<Id, T, F>(ids: Vec<Id>, load: impl Fn(Id) -> F) -> StoreResult<Vec<T>>
where
    F: Future<Output = StoreResult<Vec<T>>>,
{
    let mut found = Vec::new();
    for id in ids {
        match load(id).await {
            Ok(rows) => found.extend(rows),
            Err(error @ StoreError::Unreadable { .. }) => {
                tracing::error!(%error, "a row is left out; its attempts fail");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
