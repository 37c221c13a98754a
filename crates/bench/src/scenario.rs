//! Defines and runs the scenarios of a benchmark.

use crate::ceiling::Bare;
use crate::load::Load;
use crate::message;
use crate::receiver::{FAILS, HANGS, Receiver, TAKES};
use crate::report::Outcome;
use crate::server::{KEY, Server};
use crate::tally::Tally;
use crate::tls;
use anyhow::Context as _;
use posthaste_store::postgres::PasswordSource;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time without a delivery after which a run is aborted.
const STALLED: Duration = Duration::from_secs(60);
/// The maximum number of messages posted before the measurement, to open connections, fill pools and cache
/// query plans.
const WARM_UP: u32 = 1_000;
/// The number of events per request when a backlog is created.
const CHUNK: u32 = 1_000;
const IDLE_FOR: Duration = Duration::from_secs(30);
const SLOW_PER_SECOND: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Single events posted as fast as possible. Measured until all are delivered.
    Flow,
    /// Single events posted as fast as possible. Measured until all are accepted.
    Ingest,
    /// A backlog of events. Measured from the first delivery to the last.
    Drain,
    /// Single events posted at a low, fixed rate.
    Slow,
    /// Single orders posted as fast as possible. Measured until the broker has received all of them.
    Orders,
    /// Claims of jobs from a backlog, made directly on the store.
    Claim,
    /// A server without load.
    Idle,
}

#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: Kind,
    pub events: u32,
    subscriptions: u32,
    /// Whether every subscription receives every event. If `false`, each event is delivered to one subscription.
    fan_out: bool,
    hanging: u32,
    failing: u32,
    /// The number of deliveries completed before the measurement.
    history: u32,
    pub https: bool,
}

const FLOW: Scenario = Scenario {
    name: "one",
    about: "one subscription",
    kind: Kind::Flow,
    events: 60_000,
    subscriptions: 1,
    fan_out: false,
    hanging: 0,
    failing: 0,
    history: 0,
    https: false,
};

const HUNDRED: Scenario = Scenario { subscriptions: 100, ..FLOW };

pub const ALL: [Scenario; 19] = [
    FLOW,
    Scenario {
        name: "fan-out-10",
        about: "each event to 10",
        events: 10_000,
        subscriptions: 10,
        fan_out: true,
        ..FLOW
    },
    Scenario {
        name: "fan-out-1000",
        about: "each event to 1,000",
        events: 100,
        subscriptions: 1_000,
        fan_out: true,
        ..FLOW
    },
    Scenario {
        name: "each-1000",
        about: "1,000 subscriptions, each to its own events",
        subscriptions: 1_000,
        ..FLOW
    },
    Scenario {
        name: "ingest",
        about: "events without a subscription",
        kind: Kind::Ingest,
        subscriptions: 0,
        ..FLOW
    },
    Scenario { name: "drain", about: "draining a backlog", kind: Kind::Drain, events: 200_000, ..FLOW },
    Scenario { name: "slow", about: "20 events per second", kind: Kind::Slow, events: 400, ..FLOW },
    Scenario { name: "hundred", about: "100 receivers", ..HUNDRED },
    Scenario { name: "failing-10", about: "100 receivers, 10 of them fail", failing: 10, ..HUNDRED },
    Scenario { name: "hanging-1", about: "100 receivers, 1 never responds", hanging: 1, ..HUNDRED },
    Scenario { name: "hanging-20", about: "100 receivers, 20 never respond", hanging: 20, ..HUNDRED },
    Scenario { name: "https", about: "one subscription over TLS", https: true, ..FLOW },
    Scenario {
        name: "orders",
        about: "orders to a broker, with default settings",
        kind: Kind::Orders,
        events: 5_000,
        subscriptions: 0,
        ..FLOW
    },
    Scenario {
        name: "history-10k",
        about: "one subscription, after 10,000 deliveries",
        history: 10_000,
        ..FLOW
    },
    Scenario {
        name: "history-100k",
        about: "one subscription, after 100,000 deliveries",
        history: 100_000,
        ..FLOW
    },
    Scenario {
        name: "history-1m",
        about: "one subscription, after 1,000,000 deliveries",
        history: 1_000_000,
        ..FLOW
    },
    Scenario {
        name: "claim-1k",
        about: "claims of 50 jobs from a backlog of 1,000",
        kind: Kind::Claim,
        events: 1_000,
        ..FLOW
    },
    Scenario {
        name: "claim-1m",
        about: "claims of 50 jobs from a backlog of 1,000,000",
        kind: Kind::Claim,
        events: 1_000_000,
        ..FLOW
    },
    Scenario { name: "idle", about: "no load", kind: Kind::Idle, events: 0, ..FLOW },
];

/// The environment in which a scenario runs.
#[expect(missing_debug_implementations, reason = "a closure has none")]
pub struct Stage<'a> {
    pub program: &'a Path,
    pub receiver: &'a Receiver,
    pub url: &'a str,
    pub password: &'a PasswordSource,
    pub folder: &'a Path,
    pub settings: &'a [(&'static str, String)],
    pub connections: u32,
    pub progress: &'a dyn Fn(u64, u64),
}

impl Scenario {
    /// Returns the number of deliveries expected for the messages with the given `numbers`. Deliveries to hanging
    /// and failing receivers are not counted.
    pub fn deliveries(&self, numbers: std::ops::Range<u32>) -> u64 {
        let count = u64::from(numbers.end - numbers.start);
        if self.kind == Kind::Orders {
            return count;
        }
        match (self.fan_out, self.subscriptions) {
            (_, 0) => 0,
            (true, subscriptions) => count * u64::from(subscriptions),
            (false, subscriptions) => {
                let odd = self.hanging + self.failing;
                numbers.filter(|number| number % subscriptions >= odd).count() as u64
            }
        }
    }

    pub async fn run(&self, stage: &Stage<'_>, events: u32) -> anyhow::Result<Outcome> {
        match self.kind {
            Kind::Flow | Kind::Ingest | Kind::Slow | Kind::Orders => self.flow(stage, events).await,
            Kind::Drain => self.drain(stage, events).await,
            Kind::Claim => claim(stage, events).await,
            Kind::Idle => idle(stage).await,
        }
    }

    async fn flow(&self, stage: &Stage<'_>, events: u32) -> anyhow::Result<Outcome> {
        if self.history > 0 {
            let store = Bare::open(stage.url, stage.password).await?;
            store.deliver(self.history).await.context("creating a history")?;
            store.settle(stage.url, stage.password).await.context("vacuuming after the history")?;
        }
        let server = Server::start(stage.program, stage.url, "all", stage.folder, stage.settings).await?;
        self.subscribe(stage, &server).await?;
        // The warm-up uses other numbers, because an order that was sent is never sent again.
        let warm_up = events..events + WARM_UP.min(events);
        let tally = Arc::new(Tally::new(warm_up.end));
        stage.receiver.count_on(&tally);
        self.load(stage, &server, warm_up.clone()).run(&tally).await?;
        tally.wait_for(self.deliveries(warm_up), STALLED).await?;

        let tally = Arc::new(Tally::new(events));
        stage.receiver.count_on(&tally);
        let (expected, cpu) = (self.deliveries(0..events), server.cpu());
        let began = Instant::now();
        let measured = async {
            let posted = self.load(stage, &server, 0..events).run(&tally).await?;
            let ingested = began.elapsed();
            tally.wait_for(expected, STALLED).await?;
            anyhow::Ok((posted, ingested))
        };
        let (posted, ingested) = self.watched(stage, &tally, expected, measured).await?;
        let took = if self.kind == Kind::Ingest { ingested } else { began.elapsed() };
        let count = if self.kind == Kind::Ingest { u64::from(events) } else { expected };
        let each = if self.fan_out { self.subscriptions } else { 1 };
        let outcome = Outcome {
            count,
            took,
            ingest_took: Some(posted.took),
            refused: posted.refused,
            repeated: tally.repeated(each),
            median_ms: (expected > 0).then(|| tally.percentile_ms(0.5)),
            p99_ms: (expected > 0).then(|| tally.percentile_ms(0.99)),
            memory_mib: server.memory_mib(),
            cpu: server.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before)),
        };
        Ok(outcome)
    }

    async fn drain(&self, stage: &Stage<'_>, events: u32) -> anyhow::Result<Outcome> {
        let server = Server::start(stage.program, stage.url, "api", stage.folder, stage.settings).await?;
        self.subscribe(stage, &server).await?;
        for first in (0..events).step_by(CHUNK as usize) {
            let numbers = first..(first + CHUNK).min(events);
            let chunk: Vec<String> = numbers.map(|number| self.event(number)).collect();
            server.send_batch(&chunk).await?;
        }
        drop(server);
        let tally = Arc::new(Tally::new(events));
        stage.receiver.count_on(&tally);
        let expected = self.deliveries(0..events);
        let server = Server::start(stage.program, stage.url, "all", stage.folder, stage.settings).await?;
        self.watched(stage, &tally, expected, tally.wait_for(expected, STALLED)).await?;
        let outcome = Outcome {
            count: expected,
            took: tally.span(),
            ingest_took: None,
            refused: 0,
            repeated: tally.repeated(1),
            median_ms: None,
            p99_ms: None,
            memory_mib: server.memory_mib(),
            cpu: server.cpu(),
        };
        Ok(outcome)
    }

    async fn watched<T>(
        &self,
        stage: &Stage<'_>,
        tally: &Tally,
        expected: u64,
        measured: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::pin!(measured);
        let mut look = tokio::time::interval(Duration::from_millis(200));
        loop {
            tokio::select! {
                done = &mut measured => return done,
                _ = look.tick() => (stage.progress)(tally.count(), expected),
            }
        }
    }

    fn load(&self, stage: &Stage<'_>, server: &Server, numbers: std::ops::Range<u32>) -> Load {
        let orders = self.kind == Kind::Orders;
        Load {
            address: server.address,
            path: if orders { "/v1/orders" } else { "/v1/events" },
            key: KEY,
            connections: stage.connections,
            numbers,
            per_second: (self.kind == Kind::Slow).then_some(SLOW_PER_SECOND),
            body: if orders { |number, _| message::order(number) } else { spread_event },
            head: if orders { message::order_head } else { |_| String::new() },
            spread: self.spread(),
        }
    }

    /// Returns the number of distinct event types.
    fn spread(&self) -> u32 {
        if self.fan_out { 1 } else { self.subscriptions.max(1) }
    }

    fn event(&self, number: u32) -> String {
        spread_event(number, self.spread())
    }

    async fn subscribe(&self, stage: &Stage<'_>, server: &Server) -> anyhow::Result<()> {
        let scheme = if self.https { "https" } else { "http" };
        let host = if self.https { tls::HOST } else { "127.0.0.1" };
        let port = stage.receiver.address.port();
        for number in 0..self.subscriptions {
            let path = match number {
                number if number < self.hanging => HANGS,
                number if number < self.hanging + self.failing => FAILS,
                _ => TAKES,
            };
            let url = format!("{scheme}://{host}:{port}{path}/{number}");
            server.subscribe(&event_type(number, self.spread()), &url).await?;
        }
        Ok(())
    }
}

fn spread_event(number: u32, spread: u32) -> String {
    message::event(&event_type(number, spread), number)
}

fn event_type(number: u32, spread: u32) -> String {
    format!("bench.{}", number % spread)
}

/// Creates a backlog and measures the duration of claims from it.
async fn claim(stage: &Stage<'_>, backlog: u32) -> anyhow::Result<Outcome> {
    let mut took = Bare::open(stage.url, stage.password).await?.claim(backlog).await?;
    took.sort_unstable();
    let at = |share: f64| {
        let index = (took.len() as f64 * share) as usize;
        took.get(index).map(|took| took.as_secs_f64() * 1_000.0)
    };
    Ok(Outcome {
        count: took.len() as u64,
        took: took.iter().sum(),
        ingest_took: None,
        refused: 0,
        repeated: 0,
        median_ms: at(0.5),
        p99_ms: None,
        memory_mib: None,
        cpu: None,
    })
}

async fn idle(stage: &Stage<'_>) -> anyhow::Result<Outcome> {
    let server = Server::start(stage.program, stage.url, "all", stage.folder, stage.settings).await?;
    let before = server.cpu();
    let began = Instant::now();
    tokio::time::sleep(IDLE_FOR).await;
    let outcome = Outcome {
        count: 0,
        took: began.elapsed(),
        ingest_took: None,
        refused: 0,
        repeated: 0,
        median_ms: None,
        p99_ms: None,
        memory_mib: server.memory_mib(),
        cpu: server.cpu().zip(before).map(|(after, before)| after.saturating_sub(before)),
    };
    Ok(outcome)
}
