//! One fresh database of one engine, filled before the binary opens it, and the receivers.

use posthaste_core::ports::{IngestStore as _, RouteTake, RouterStore as _, Stores};
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::fixtures::event;
use posthaste_testkit::fleet::settings;
use posthaste_testkit::processes::Program;
use posthaste_testkit::receiver::{Answer, Receiver};
use posthaste_testkit::{postgres, subscribers};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    Sqlite,
}

pub(crate) struct World {
    engine: Engine,
    url: String,
    path: PathBuf,
    _folder: TempDir,
    receiver: Receiver,
    arrived: Arc<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    healthy: AtomicUsize,
    expected: AtomicUsize,
    all: Notify,
}

/// The events of one request.
const CHUNK: usize = 1_000;

impl World {
    pub(crate) async fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("posthaste.db");
        let url = match engine {
            Engine::Postgres => postgres::migrated_database("isolation").await,
            Engine::Sqlite => {
                sqlite::migrate(&path).expect("the migration");
                format!("sqlite://{}", path.display())
            }
        };
        let arrived = Arc::new(Arrivals::default());
        let counting = Arc::clone(&arrived);
        let receiver = Receiver::start_unlogged(move |received| {
            if received.path == "/black" {
                return Answer::Hang;
            }
            let count = counting.healthy.fetch_add(1, Ordering::Relaxed) + 1;
            if count == counting.expected.load(Ordering::Relaxed) {
                counting.all.notify_one();
            }
            Answer::Status(200)
        })
        .await;
        Self { engine, url, path, _folder: folder, receiver, arrived }
    }

    /// Subscriptions with their events, none of them routed yet.
    pub(crate) async fn fill(&self, subscriptions: usize, events: usize, name: &str) {
        match self.engine {
            Engine::Postgres => {
                let store = self.postgres().await;
                self.subscribe(&store, name, subscriptions).await;
                publish(&store, name, subscriptions, events).await;
            }
            Engine::Sqlite => {
                let store = self.sqlite();
                self.subscribe(&store, name, subscriptions).await;
                publish(&store, name, subscriptions, events).await;
            }
        }
    }

    /// Black holes whose deliveries wait already.
    pub(crate) async fn fill_backlog(&self, subscriptions: usize, deliveries: usize) {
        match self.engine {
            Engine::Postgres => {
                let store = self.postgres().await;
                // What is routed here are the black holes' events: the healthy ones come off the queue
                // for a moment.
                let direct = postgres::client(&self.url).await;
                direct.batch_execute(&put_aside("posthaste.routing_queue")).await.expect("an empty queue");
                self.backlog(&store, subscriptions, deliveries).await;
                direct.batch_execute(&put_back("posthaste.routing_queue")).await.expect("a full queue");
            }
            Engine::Sqlite => {
                let direct = rusqlite::Connection::open(&self.path).expect("the file");
                direct
                    .execute_batch(
                        "CREATE TABLE kept AS SELECT * FROM routing_queue; DELETE FROM routing_queue",
                    )
                    .expect("an empty queue");
                self.backlog(&self.sqlite(), subscriptions, deliveries).await;
                direct
                    .execute_batch("INSERT INTO routing_queue SELECT * FROM kept; DROP TABLE kept")
                    .expect("a full queue");
            }
        }
    }

    async fn backlog<S: Stores>(&self, store: &S, subscriptions: usize, deliveries: usize) {
        self.subscribe(store, "black", subscriptions).await;
        publish(store, "black", subscriptions, deliveries).await;
        let now = store.now().await.expect("the time");
        loop {
            let take = RouteTake { from: None, events_max: 500 };
            if store.router().route_events(take, now).await.expect("a routing").events == 0 {
                return;
            }
        }
    }

    /// More events for subscriptions that are there.
    pub(crate) async fn publish(&self, name: &str, subscriptions: usize, events: usize) {
        match self.engine {
            Engine::Postgres => publish(&self.postgres().await, name, subscriptions, events).await,
            Engine::Sqlite => publish(&self.sqlite(), name, subscriptions, events).await,
        }
    }

    /// Starts the binary and waits until the healthy deliveries have arrived.
    pub(crate) async fn deliver(&self, healthy: usize) -> Duration {
        if self.engine == Engine::Postgres {
            let direct = postgres::client(&self.url).await;
            direct.batch_execute("VACUUM ANALYZE").await.expect("a tidy database");
        }
        self.arrived.expected.store(healthy, Ordering::Relaxed);
        let began = Instant::now();
        let settings = settings(&[("POSTHASTE_DATABASE_URL", &self.url), ("POSTHASTE_LOG", "warn")]);
        let _process = Program::find().serve("all", "router,orchestrator,worker,cleaner", &settings);
        let arrived = self.arrived.all.notified();
        tokio::time::timeout(Duration::from_secs(600), arrived).await.expect("all within ten minutes");
        began.elapsed()
    }

    async fn postgres(&self) -> PostgresStore {
        PostgresStore::connect(&PostgresOptions::new(&self.url)).await.expect("the store")
    }

    fn sqlite(&self) -> SqliteStore {
        SqliteStore::open(&SqliteOptions::new(&self.path)).expect("the store")
    }

    async fn subscribe<S: Stores>(&self, store: &S, name: &str, count: usize) {
        let url = self.receiver.url(if name == "black" { "/black" } else { "/healthy" });
        for number in 0..count {
            subscribers::subscribe(store, &format!("{name}.{number}"), &url, None).await;
        }
    }
}

fn put_aside(queue: &str) -> String {
    format!("CREATE TABLE kept AS SELECT * FROM {queue}; DELETE FROM {queue}")
}

fn put_back(queue: &str) -> String {
    format!("INSERT INTO {queue} SELECT * FROM kept; DROP TABLE kept")
}

async fn publish<S: Stores>(store: &S, name: &str, subscriptions: usize, events: usize) {
    let now = store.now().await.expect("the time");
    for first in (0..events).step_by(CHUNK) {
        let last = (first + CHUNK).min(events);
        let request = (first..last).map(|n| event(&format!("{name}.{}", n % subscriptions))).collect();
        store.ingest().insert_events(vec![request], now).await.expect("events");
    }
}
