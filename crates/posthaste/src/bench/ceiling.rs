//! The two ceilings that a delivery cannot break through: what the same HTTP can do with nothing behind it,
//! and what the same stages can do on the same store with no HTTP before it.

use super::load::Load;
use super::message;
use super::receiver::{Receiver, TAKES};
use super::tally::Tally;
use anyhow::Context as _;
use posthaste_core::event::{EventType, NewEvent};
use posthaste_core::json::{JsonText, PAYLOAD_BYTES_MAX};
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::ports::{
    Claim, IngestStore as _, JobReport, OrchestratorStore as _, Quota, ResultTake, RouteTake,
    RouterStore as _, Stores, SubscriptionStore as _, Verification, WorkerStore as _,
};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret};
use posthaste_core::{SubscriptionId, Timestamp, WorkerId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the services move at once.
const BATCH: u32 = 500;
const LEASE: Duration = Duration::from_secs(60);
/// A stage that found nothing looks again after this.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// The bodies posted straight to the receiver, a second.
pub(super) async fn straight(receiver: &Receiver, connections: u32, count: u32) -> anyhow::Result<f64> {
    let tally = Arc::new(Tally::new(count));
    receiver.count_on(&tally);
    let load = Load {
        address: receiver.address,
        path: TAKES,
        key: None,
        connections,
        numbers: 0..count,
        per_second: None,
        body: |number, _| message::payload(number),
        spread: 1,
    };
    let posted = load.run(&tally).await?;
    Ok(f64::from(count) / posted.took.as_secs_f64())
}

/// Whole deliveries through every stage of the store, a second. The stages run beside each other, each one
/// as far as those before it have come.
pub(super) async fn store<S: Stores>(store: &S, count: u32) -> anyhow::Result<f64> {
    let subscription = subscribe(store).await?;
    let count = count.next_multiple_of(BATCH);
    let began = Instant::now();
    let stages = Stages { store: store.clone(), subscription, count, epoch: store.now().await?, began };
    tokio::try_join!(stages.insert(), stages.route(), stages.admit(), stages.work(), stages.apply())?;
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

async fn subscribe<S: Stores>(store: &S) -> anyhow::Result<SubscriptionId> {
    let (secret, now) = (SealedSecret::new("whsec_bench"), store.now().await?);
    let callback_url = CallbackUrl::parse("https://receiver.example/", false)?;
    let subscription = NewSubscription {
        event_type: EventType::parse("bench.0")?,
        callback_url: callback_url.clone(),
        max_retry_limit: None,
        description: None,
        secret: secret.clone(),
    };
    let admin = store.subscriptions();
    let id = admin.create_subscription(subscription, now).await?.id;
    admin.mark_verified(id, Verification { callback_url, secret }, now).await?;
    Ok(id)
}

struct Stages<S> {
    store: S,
    subscription: SubscriptionId,
    count: u32,
    epoch: Timestamp,
    began: Instant,
}

impl<S: Stores> Stages<S> {
    fn now(&self) -> Timestamp {
        self.epoch.after(self.began.elapsed())
    }

    async fn insert(&self) -> anyhow::Result<()> {
        let store = self.store.ingest();
        for first in (0..self.count).step_by(BATCH as usize) {
            let requests = (first..first + BATCH).map(|number| Ok(vec![event(number)?]));
            let requests = requests.collect::<anyhow::Result<_>>()?;
            store.insert_events(requests, self.now()).await.context("inserting events")?;
        }
        Ok(())
    }

    async fn route(&self) -> anyhow::Result<()> {
        let (store, mut routed) = (self.store.router(), 0);
        let mut from = None;
        while routed < self.count {
            let took = store.route_events(RouteTake { from, events_max: BATCH }, self.now()).await?;
            from = took.lowest.or(from);
            routed += took.events;
            rest_unless(took.events > 0).await;
        }
        Ok(())
    }

    async fn admit(&self) -> anyhow::Result<()> {
        let (store, mut admitted) = (self.store.orchestrator(), 0);
        while admitted < self.count as usize {
            let quotas = vec![Quota { subscription_id: self.subscription, jobs_max: BATCH }];
            let took = store.admit_due_sagas(quotas, RetryPolicy::WEBHOOK, self.now()).await?;
            admitted += took.jobs.len();
            rest_unless(!took.jobs.is_empty()).await;
        }
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        let (store, mut reported) = (self.store.worker(), 0);
        let worker_id = WorkerId::parse("bench")?;
        let mut from = None;
        while reported < self.count as usize {
            let token = crate::random::lease_token();
            let claim = Claim { worker_id: worker_id.clone(), token, lease: LEASE, from, jobs_max: BATCH };
            let jobs = store.claim_due_jobs(claim, self.now()).await?;
            rest_unless(!jobs.is_empty()).await;
            if jobs.is_empty() {
                continue;
            }
            from = jobs.iter().map(|job| job.claimable_since).min();
            store.load_events(jobs.iter().map(|job| job.event_id).collect()).await?;
            store.load_targets(vec![self.subscription]).await?;
            let (outcome, duration) = (AttemptOutcome::Delivered { status: 200 }, Duration::from_millis(1));
            let report = |job_id| JobReport { job_id, token, outcome, duration };
            let reports = jobs.iter().map(|job| report(job.job_id)).collect();
            reported += store.report_jobs(reports, self.now()).await?.len();
        }
        Ok(())
    }

    async fn apply(&self) -> anyhow::Result<()> {
        let (store, mut applied) = (self.store.orchestrator(), 0);
        let mut from = None;
        while applied < self.count as usize {
            let take = ResultTake { from, results_max: BATCH };
            let took = store.apply_job_results(take, RetryPolicy::WEBHOOK, self.now()).await?;
            from = took.iter().map(|result| result.job_id).min().or(from);
            applied += took.len();
            rest_unless(!took.is_empty()).await;
        }
        Ok(())
    }
}

async fn rest_unless(found: bool) {
    if !found {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn event(number: u32) -> anyhow::Result<NewEvent> {
    Ok(NewEvent {
        event_type: EventType::parse("bench.0")?,
        payload: JsonText::parse(message::payload(number), PAYLOAD_BYTES_MAX)?,
        external_event_id: None,
        correlation_id: None,
        traceparent: None,
    })
}
