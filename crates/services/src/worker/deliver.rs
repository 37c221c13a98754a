//! Sends one claimed job and reports its outcome. Called by the [`Worker`](super::Worker) for each job of a
//! claim.

use super::{WorkerKit, WorkerOptions};
use crate::batcher::BatchError;
use crate::egress::Destination;
use crate::sender::ReadUpTo;
use crate::webhook_request::{OpenedRequest, WebhookMessage, WebhookSender};
use bytes::Bytes;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::{CorrelationId, EventType, ExternalEventId, TraceParent, TraceState};
use posthaste_core::job::RequestTimeouts;
use posthaste_core::message_id::{MessageIdKey, message_id};
use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_core::ports::{
    ClaimedJob, JobReport, Report, StoreError, StoreResult, StoredEvent, Target, WorkerStore,
};
use posthaste_core::{EventId, LeaseToken, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The part of a lease that must remain after the exchange, so that the report is written before the lease
/// expires.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// A claimed job with the data that its attempt needs, or the reason why it cannot be sent.
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

/// The content of an event, read once for all jobs of a claim that send it.
#[derive(Debug)]
struct Content {
    event_type: EventType,
    body: Bytes,
    correlation_id: Option<CorrelationId>,
    traceparent: Option<TraceParent>,
    tracestate: Option<TraceState>,
    attributes: Attributes,
    external_event_id: Option<ExternalEventId>,
    /// The time at which the event was accepted.
    created_at: Timestamp,
}

/// The destination of a subscription and the common parts of its requests, read once for all jobs of a claim that are
/// sent to it.
#[derive(Debug)]
struct Address {
    to: Destination,
    timeout: Duration,
    request: OpenedRequest,
}

/// A client that reads events and subscriptions, sends attempts and reports their outcomes.
#[derive(Debug)]
pub(super) struct Deliverer<S> {
    store: S,
    kit: WorkerKit,
    timeouts: RequestTimeouts,
    worker_id: String,
    /// The key never changes, so it is read once.
    message_id_key: OnceCell<MessageIdKey>,
}

impl<S: WorkerStore> Deliverer<S> {
    pub(super) fn new(store: S, kit: WorkerKit, options: &WorkerOptions) -> Self {
        let worker_id = options.worker_id.as_str().to_owned();
        let timeouts = RequestTimeouts { default: options.deadline, lease: options.lease };
        Self { store, kit, timeouts, worker_id, message_id_key: OnceCell::new() }
    }

    /// Reads the data for the jobs of a claim, each event and subscription once.
    pub(super) async fn read(&self, jobs: &[ClaimedJob], now: Timestamp) -> StoreResult<Vec<LoadedJob>> {
        let events = distinct(jobs.iter().map(|job| job.event_id));
        let targets = distinct(jobs.iter().map(|job| job.subscription_id));
        self.message_id_key.get_or_try_init(|| self.store.load_message_id_key()).await?;
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
            result => result,
        }
    }

    async fn read_targets(&self, ids: Vec<SubscriptionId>) -> StoreResult<Vec<Target>> {
        match self.store.load_targets(ids.clone()).await {
            Err(StoreError::Unreadable { .. }) => {
                one_by_one(ids, |id| self.store.load_targets(vec![id])).await
            }
            result => result,
        }
    }

    /// Returns the destination of a subscription and the common parts of its requests.
    ///
    /// # Errors
    ///
    /// Returns the failure to report for the attempt if the subscription is not verified, a secret cannot be
    /// decrypted or used, or the URL is refused.
    fn address(&self, target: &Target, now: Timestamp) -> Result<Address, Failure> {
        if !target.verified {
            return Err(Failure::NotVerified);
        }
        let opened = OpenedRequest::open(target.into(), &self.kit.sealer, &self.kit.sender, now);
        let request = opened.map_err(|error| {
            let (subscription_id, cause) = (target.subscription_id, error.source());
            let cause = cause.map(tracing::field::display);
            tracing::error!(%subscription_id, %error, cause, "secrets cannot be used, attempt fails");
            error.failure()
        })?;
        let to = self.kit.sender.aim(target.callback_url.as_str())?;
        Ok(Address { to, timeout: self.timeouts.of(target.timeout), request })
    }

    /// Sends the attempt and reports it. If the rest of the lease is too short, releases the job instead.
    pub(super) async fn deliver(&self, loaded: LoadedJob, token: LeaseToken) {
        let (job, began) = (loaded.job, Instant::now());
        let now = self.kit.clock.now();
        let timeout = loaded.content.as_ref().map_or(Duration::ZERO, |(_, address)| address.timeout);
        if now.after(timeout + LEASE_MARGIN) > job.lease_until {
            self.release(&loaded, token, now).await;
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
        // Only the worker may read the time at which the event was accepted, so the latency is measured here
        // and not where the delivery completes.
        if let (Ok(Report::Accepted), None, Ok((content, _))) = (&reported, outcome.code(), &loaded.content) {
            self.kit.metrics.delivered(ended_at.since(content.created_at));
        }
        self.log_outcome(&job, &outcome, loaded.correlation_id(), reported);
    }

    async fn send(
        &self,
        job: &ClaimedJob,
        content: &Content,
        address: &Address,
        now: Timestamp,
    ) -> AttemptOutcome {
        let Some(key) = self.message_id_key.get() else {
            return AttemptOutcome::failed(Failure::SecretUnreadable);
        };
        let message_id = message_id(key, job.event_id, content.created_at, job.subscription_id);
        let message = WebhookMessage {
            message_id: &message_id,
            event_type: &content.event_type,
            payload: &content.body,
            attributes: &content.attributes,
            external_event_id: content.external_event_id.as_ref(),
            created_at: content.created_at,
            attempt: Some(job.attempt),
            traceparent: content.traceparent.as_ref(),
            tracestate: content.tracestate.as_ref(),
        };
        let WorkerKit { sender, tokens, names, clock, .. } = &self.kit;
        let sender = WebhookSender { sender, tokens, names, clock };
        let (request, to, timeout) = (&address.request, &address.to, address.timeout);
        sender.send(request, to, &message, ReadUpTo::Status, timeout, now).await.outcome
    }

    async fn release(&self, loaded: &LoadedJob, token: LeaseToken, now: Timestamp) {
        let job = &loaded.job;
        let (saga_id, job_id, worker_id) = (job.saga_id, job.job_id, self.worker_id.as_str());
        let (event_id, subscription_id) = (job.event_id, job.subscription_id);
        let correlation_id = loaded.correlation_id().map(CorrelationId::as_str);
        let lease_expiration = job.lease_until;
        tracing::warn!(
            correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id, %lease_expiration,
            "rest of the lease too short for a send, releasing the job"
        );
        if let Err(error) = self.store.release_jobs(vec![job.job_id], token, now).await {
            tracing::warn!(
                correlation_id, %saga_id, %job_id, %event_id, worker_id, %error,
                "release failed, waiting for the lease to expire"
            );
        }
    }

    fn log_outcome(
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
                    status, response_status, error_code, %lease_expiration, "attempt finished"
                );
            }
            Ok(Report::LeaseLost) => {
                self.kit.metrics.leases_lost.inc();
                tracing::warn!(
                    correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id,
                    %lease_expiration, "lease lost before the report, result ignored"
                );
            }
            Err(error) => tracing::error!(
                correlation_id, %saga_id, %job_id, %event_id, %subscription_id, worker_id, %error,
                %lease_expiration, "report failed, the job is sent again after its lease expires"
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
            tracestate: event.tracestate,
            attributes: event.attributes,
            external_event_id: event.external_event_id,
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

/// Loads rows one at a time. Omits unreadable rows, so that they do not cause the others to fail.
async fn one_by_one<Id, T, F>(ids: Vec<Id>, load: impl Fn(Id) -> F) -> StoreResult<Vec<T>>
where
    F: Future<Output = StoreResult<Vec<T>>>,
{
    let mut found = Vec::new();
    for id in ids {
        match load(id).await {
            Ok(rows) => found.extend(rows),
            Err(error @ StoreError::Unreadable { .. }) => {
                tracing::error!(%error, "row unreadable, its attempts fail");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
