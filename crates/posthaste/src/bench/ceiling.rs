//! The two ceilings that a delivery cannot break through: what the same HTTP can do with nothing behind it,
//! and what the same stages can do on the same store with no HTTP before it.

use super::message;
use super::receiver::{Receiver, TAKES};
use super::tally::Tally;
use anyhow::Context as _;
use bytes::Bytes;
use ipnet::IpNet;
use posthaste_core::audit::Actor;
use posthaste_core::event::{EventType, NewEvent};
use posthaste_core::json::{JsonText, PAYLOAD_BYTES_MAX};
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::ports::{
    Claim, IngestStore as _, JobReport, OrchestratorStore as _, Quota, ResultTake, RouteTake,
    RouterStore as _, Stores, SubscriptionStore as _, Verification, WorkerStore as _,
};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::signature::SigningSecret;
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret};
use posthaste_core::{SubscriptionId, Timestamp, WorkerId};
use posthaste_services::egress::{Destination, EgressPolicy};
use posthaste_services::sender::{DEADLINE, KeepAlive, Post, Sender, Trust, Wanted, signed_headers};
use posthaste_store::postgres::{PostgresOptions, PostgresStore, vacuum_database};
use posthaste_store::sqlite::{SqliteOptions, SqliteStore};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// No event of the load has it.
const TYPE: &str = "bench.alone";
/// What the services move at once.
const BATCH: u32 = 500;
/// The claims that are timed, and the jobs of each: together no more than the shortest backlog has.
const CLAIMS: u32 = 15;
const CLAIM_JOBS: u32 = 50;
const LEASE: Duration = Duration::from_secs(60);
/// A stage that found nothing looks again after this.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// The bodies posted straight to the receiver, a second: from the client that deliveries leave through, with their
/// headers, as many at once as the load has connections.
pub(super) async fn straight(receiver: &Receiver, connections: u32, count: u32) -> anyhow::Result<f64> {
    let tally = Arc::new(Tally::new(count));
    receiver.count_on(&tally);
    let loopback = IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let policy = EgressPolicy { allow_http: true, allow_cidrs: vec![loopback] };
    let sender = Sender::new(policy, Trust::nobody(), KeepAlive::default())?;
    let to = sender.aim(&format!("http://{}{TAKES}", receiver.address));
    let to = Arc::new(to.map_err(|failure| anyhow::anyhow!("the receiver may not be reached: {failure:?}"))?);
    let next = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let mut posting = JoinSet::new();
    for _ in 0..connections {
        posting.spawn(post_all(sender.clone(), Arc::clone(&to), Arc::clone(&next), count));
    }
    while let Some(ended) = posting.join_next().await {
        ended.context("the posting panicked")??;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

async fn post_all(
    sender: Sender,
    to: Arc<Destination>,
    next: Arc<AtomicU32>,
    count: u32,
) -> anyhow::Result<()> {
    let (secret, now) = (SigningSecret::from_random([7; 32]), Timestamp::from_micros(0));
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let body = Bytes::from(message::payload(number));
        let headers = signed_headers("msg_bench", &[&secret], &body, now);
        let post = Post { headers, body, answer: Wanted::Status, deadline: DEADLINE };
        let outcome = sender.send(&to, post, now).await.outcome;
        anyhow::ensure!(outcome.code().is_none(), "a straight post failed: {outcome:?}");
    }
}

/// A store with nothing before it.
pub(super) enum Bare {
    Sqlite(SqliteStore),
    Postgres(Box<PostgresStore>),
}

impl Bare {
    pub(super) async fn open(url: &str) -> anyhow::Result<Self> {
        Ok(match url.strip_prefix("sqlite://") {
            Some(path) => Self::Sqlite(SqliteStore::open(&SqliteOptions::new(Path::new(path)))?),
            None => Self::Postgres(Box::new(PostgresStore::connect(&PostgresOptions::new(url)).await?)),
        })
    }

    /// Brings so many deliveries to their end; answers how many a second.
    pub(super) async fn deliver(&self, count: u32) -> anyhow::Result<f64> {
        match self {
            Self::Sqlite(store) => deliver(store, count).await,
            Self::Postgres(store) => deliver(&**store, count).await,
        }
    }

    /// Lets a database clear up after what was delivered, which else it does while something else is measured. The
    /// embedded store leaves nothing behind.
    pub(super) async fn settle(&self, url: &str) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => Ok(vacuum_database(url).await?),
        }
    }

    /// Makes a backlog of jobs; answers how long each of a few claims from it took.
    pub(super) async fn claim(&self, backlog: u32) -> anyhow::Result<Vec<Duration>> {
        match self {
            Self::Sqlite(store) => claim(store, backlog).await,
            Self::Postgres(store) => claim(&**store, backlog).await,
        }
    }
}

/// Whole deliveries through every stage of the store, a second. The stages run beside each other, each one
/// as far as those before it have come.
async fn deliver<S: Stores>(store: &S, count: u32) -> anyhow::Result<f64> {
    let stages = Stages::new(store, count).await?;
    tokio::try_join!(stages.insert(), stages.route(), stages.admit(), stages.work(), stages.apply())?;
    Ok(f64::from(stages.count) / stages.began.elapsed().as_secs_f64())
}

async fn claim<S: Stores>(store: &S, backlog: u32) -> anyhow::Result<Vec<Duration>> {
    let stages = Stages::new(store, backlog).await?;
    tokio::try_join!(stages.insert(), stages.route(), stages.admit())?;
    let (worker, mut from, mut took) = (store.worker(), None, Vec::new());
    for _ in 0..CLAIMS {
        let claim = stages.claim(from, CLAIM_JOBS)?;
        let (now, began) = (stages.now(), Instant::now());
        let jobs = worker.claim_due_jobs(claim, now).await?;
        took.push(began.elapsed());
        anyhow::ensure!(
            jobs.len() == CLAIM_JOBS as usize,
            "{} of {CLAIM_JOBS} jobs were claimed",
            jobs.len()
        );
        from = jobs.iter().map(|job| job.claimable_since).min();
    }
    Ok(took)
}

async fn subscribe<S: Stores>(store: &S) -> anyhow::Result<SubscriptionId> {
    let (secret, now) = (SealedSecret::new("whsec_bench"), store.now().await?);
    let callback_url = CallbackUrl::parse("https://receiver.example/", false)?;
    let subscription = NewSubscription {
        event_type: EventType::parse(TYPE)?,
        callback_url: callback_url.clone(),
        max_retry_limit: None,
        description: None,
        secret: secret.clone(),
    };
    let admin = store.subscriptions();
    let id = admin.create_subscription(subscription, Actor::root(None), now).await?.id;
    admin.mark_verified(id, Verification { callback_url, secret }, Actor::root(None), now).await?;
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
    async fn new(store: &S, count: u32) -> anyhow::Result<Self> {
        let (subscription, count) = (subscribe(store).await?, count.next_multiple_of(BATCH));
        let (epoch, began) = (store.now().await?, Instant::now());
        Ok(Self { store: store.clone(), subscription, count, epoch, began })
    }

    fn claim(&self, from: Option<Timestamp>, jobs_max: u32) -> anyhow::Result<Claim> {
        let (worker_id, token) = (WorkerId::parse("bench")?, crate::random::lease_token());
        Ok(Claim { worker_id, token, lease: LEASE, from, jobs_max })
    }

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
            let quotas = vec![Quota { subscription_id: self.subscription, jobs_max: BATCH, from: None }];
            let took = store.admit_due_sagas(quotas, RetryPolicy::WEBHOOK, self.now()).await?;
            admitted += took.jobs.len();
            rest_unless(!took.jobs.is_empty()).await;
        }
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        let (store, mut reported) = (self.store.worker(), 0);
        let mut from = None;
        while reported < self.count as usize {
            let claim = self.claim(from, BATCH)?;
            let token = claim.token;
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
        event_type: EventType::parse(TYPE)?,
        payload: JsonText::parse(message::payload(number), PAYLOAD_BYTES_MAX)?,
        external_event_id: None,
        correlation_id: None,
        traceparent: None,
    })
}
