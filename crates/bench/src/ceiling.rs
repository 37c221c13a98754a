//! Measures two upper bounds on delivery throughput: the rate at which the same HTTP requests can be sent directly
//! to the receiver, and the rate of the same stages on the same store without HTTP.

use crate::calls::{self, Calls};
use crate::message;
use crate::receiver::{Receiver, TAKES};
use crate::tally::Tally;
use anyhow::Context as _;
use bytes::Bytes;
use ipnet::IpNet;
use posthaste_core::Timestamp;
use posthaste_core::ports::{RouteTake, RouterStore as _, Stores};
use posthaste_core::signature::{Keys, Message, Signatures, SigningSecret, sign};
use posthaste_services::egress::{Destination, EgressPolicy};
use posthaste_services::sender::{
    DEADLINE, KeepAlive, OutgoingRequest, ReadUpTo, RequestHeadersBuilder, Sender, Trust,
};
use posthaste_store::postgres::{PasswordSource, PostgresOptions, PostgresStore, vacuum_database};
use posthaste_store::sqlite::{SqliteOptions, SqliteStore};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The maximum number of rows per store call, the same as in the services.
const BATCH: u32 = 500;
/// The number of timed claims. Together they claim fewer jobs than the smallest backlog contains.
const CLAIMS: u32 = 15;
/// The number of jobs per timed claim.
const CLAIM_JOBS: u32 = 50;
/// The time between two polls of a stage that finds no work.
const POLL_INTERVAL: Duration = Duration::from_micros(500);

/// Posts `count` payloads directly to the receiver and returns the rate per second. Uses the HTTP client and
/// headers of real deliveries, with `connections` concurrent requests.
pub async fn straight(receiver: &Receiver, connections: u32, count: u32) -> anyhow::Result<f64> {
    let tally = Arc::new(Tally::new(count));
    receiver.count_on(&tally);
    let loopback = IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let policy = EgressPolicy { allow_http: true, allow_cidrs: vec![loopback], ..EgressPolicy::default() };
    let sender = Sender::new(policy, Trust::nobody(), KeepAlive::default())?;
    let to = sender.aim(&format!("http://{}{TAKES}", receiver.address));
    let to = Arc::new(
        to.map_err(|failure| anyhow::anyhow!("the address policy refuses the receiver: {failure:?}"))?,
    );
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
    let (secrets, now) = ([SigningSecret::from_random([7; 32])], Timestamp::from_micros(0));
    let (signatures, keys) = (Signatures::default(), Keys { secrets: &secrets, ed25519: &[] });
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let body = Bytes::from(message::payload(number));
        let (id, event_type) = ("msg_bench", "bench.alone");
        let signed = sign(&signatures, &keys, &Message { id, timestamp_s: 0, event_type, body: &body });
        let headers = RequestHeadersBuilder::new(id, 0, "application/json")
            .event_type(event_type)
            .signatures(signed.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            .finish([]);
        let request = OutgoingRequest::post(headers, body, ReadUpTo::Status, DEADLINE);
        let outcome = sender.send(&to, request, now).await.outcome;
        anyhow::ensure!(outcome.code().is_none(), "a straight post failed: {outcome:?}");
    }
}

/// A store that is called directly, without a server.
#[derive(Debug)]
pub enum Bare {
    Sqlite(SqliteStore),
    Postgres(Box<PostgresStore>),
}

impl Bare {
    pub async fn open(url: &str, password: &PasswordSource) -> anyhow::Result<Self> {
        let password = password.clone();
        Ok(match url.strip_prefix("sqlite://") {
            Some(path) => Self::Sqlite(SqliteStore::open(&SqliteOptions::new(Path::new(path)))?),
            None => {
                let options = PostgresOptions { password, ..PostgresOptions::new(url) };
                Self::Postgres(Box::new(PostgresStore::connect(&options).await?))
            }
        })
    }

    /// Completes `count` deliveries, rounded up to whole batches, and returns the rate per second.
    pub async fn deliver(&self, count: u32) -> anyhow::Result<f64> {
        match self {
            Self::Sqlite(store) => deliver(store, count).await,
            Self::Postgres(store) => deliver(&**store, count).await,
        }
    }

    /// Vacuums a PostgreSQL database, so that autovacuum does not run during the next measurement. Does nothing
    /// for SQLite.
    pub async fn settle(&self, url: &str, password: &PasswordSource) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => Ok(vacuum_database(url, password).await?),
        }
    }

    /// Creates a backlog of jobs, claims some of them and returns the duration of each claim.
    pub async fn claim(&self, backlog: u32) -> anyhow::Result<Vec<Duration>> {
        match self {
            Self::Sqlite(store) => claim(store, backlog).await,
            Self::Postgres(store) => claim(&**store, backlog).await,
        }
    }

    /// Stores the events with the given `numbers` without routing them.
    pub async fn publish(
        &self,
        numbers: Range<u32>,
        event_type: &(dyn Fn(u32) -> String + Sync),
    ) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(store) => publish(store, numbers, event_type).await,
            Self::Postgres(store) => publish(&**store, numbers, event_type).await,
        }
    }

    /// Routes all stored events.
    pub async fn route(&self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(store) => route(store).await,
            Self::Postgres(store) => route(&**store).await,
        }
    }
}

async fn publish<S: Stores>(
    store: &S,
    numbers: Range<u32>,
    event_type: &(dyn Fn(u32) -> String + Sync),
) -> anyhow::Result<()> {
    let now = store.now().await?;
    for first in numbers.clone().step_by(BATCH as usize) {
        let batch = first..(first + BATCH).min(numbers.end);
        calls::publish(store, batch, event_type, now).await?;
    }
    Ok(())
}

async fn route<S: Stores>(store: &S) -> anyhow::Result<()> {
    let (router, now) = (store.router(), store.now().await?);
    while router.route_events(RouteTake { from: None, events_max: BATCH }, now).await?.events > 0 {}
    Ok(())
}

/// Moves `count` deliveries through all stages of the store and returns the rate per second. The stages run
/// concurrently.
async fn deliver<S: Stores>(store: &S, count: u32) -> anyhow::Result<f64> {
    let stages = Stages::new(store, count).await?;
    tokio::try_join!(stages.insert(), stages.route(), stages.admit(), stages.work(), stages.apply())?;
    Ok(stages.count as f64 / stages.began.elapsed().as_secs_f64())
}

async fn claim<S: Stores>(store: &S, backlog: u32) -> anyhow::Result<Vec<Duration>> {
    let stages = Stages::new(store, backlog).await?;
    tokio::try_join!(stages.insert(), stages.route(), stages.admit())?;
    let (mut from, mut took) = (None, Vec::new());
    for _ in 0..CLAIMS {
        let (now, began) = (stages.now(), Instant::now());
        let (_, jobs) = stages.calls.claim(from, CLAIM_JOBS, now).await?;
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

struct Stages<S> {
    calls: Calls<S>,
    count: usize,
    epoch: Timestamp,
    began: Instant,
}

impl<S: Stores> Stages<S> {
    async fn new(store: &S, count: u32) -> anyhow::Result<Self> {
        let (calls, count) = (Calls::new(store.clone(), BATCH).await?, count.next_multiple_of(BATCH));
        let (epoch, began) = (store.now().await?, Instant::now());
        Ok(Self { calls, count: count as usize, epoch, began })
    }

    fn now(&self) -> Timestamp {
        self.epoch.after(self.began.elapsed())
    }

    async fn insert(&self) -> anyhow::Result<()> {
        for first in (0..u32::try_from(self.count)?).step_by(BATCH as usize) {
            self.calls.insert(first, self.now()).await?;
        }
        Ok(())
    }

    async fn route(&self) -> anyhow::Result<()> {
        let (mut from, mut routed) = (None, 0);
        while routed < self.count {
            let took = self.calls.route(from, self.now()).await?;
            from = took.lowest.or(from);
            routed += took.events as usize;
            pause_unless(took.events > 0).await;
        }
        Ok(())
    }

    async fn admit(&self) -> anyhow::Result<()> {
        let mut admitted = 0;
        while admitted < self.count {
            let jobs = self.calls.admit(self.now()).await?;
            admitted += jobs;
            pause_unless(jobs > 0).await;
        }
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        let (mut from, mut reported) = (None, 0);
        while reported < self.count {
            let (token, jobs) = self.calls.claim(from, BATCH, self.now()).await?;
            pause_unless(!jobs.is_empty()).await;
            if jobs.is_empty() {
                continue;
            }
            from = jobs.iter().map(|job| job.claimable_since).min();
            self.calls.load(&jobs).await?;
            self.calls.report(token, &jobs, self.now()).await?;
            reported += jobs.len();
        }
        Ok(())
    }

    async fn apply(&self) -> anyhow::Result<()> {
        let (mut from, mut applied) = (None, 0);
        while applied < self.count {
            let (results, lowest) = self.calls.apply(from, self.now()).await?;
            from = lowest.or(from);
            applied += results;
            pause_unless(results > 0).await;
        }
        Ok(())
    }
}

async fn pause_unless(found: bool) {
    if !found {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
