//! The metrics of Posthaste and their Prometheus names. Every label has a small, fixed set of values that
//! receivers and callers cannot extend.

pub mod database;

use crate::health::HealthTally;
use crate::metrics::database::DatabaseMeters;
use crate::outbox::{OutboxMeters, Sent};
use posthaste_core::latency;
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::ports::{Stage, Survey, Waiting};
use posthaste_core::saga::Decision;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Service {
    pub service: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    pub outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Code {
    pub code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StageLabel {
    pub stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    pub kind: &'static str,
}

/// The `call` label: the method and route of an API call, such as `POST /v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpCall {
    pub call: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpAnswer {
    pub call: String,
    pub status: u16,
}

/// The labels of the counter for refused credentials. The kind is `api_key`, `sign_in` or `session`; the
/// reason is `unknown` or `rate_limited`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AuthFailure {
    pub kind: &'static str,
    pub reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StoreRole {
    pub role: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Direction {
    pub direction: &'static str,
}

/// The empty label set, for a gauge that is exported only after its value is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Unlabelled {}

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, Copy)]
pub struct Buckets(fn() -> Histogram);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        (self.0)()
    }
}

type ByService<M, C = fn() -> M> = Family<Service, M, C>;

/// The names of the chart counters in the table `rollups`, not including the latency buckets.
pub const CHARTED: [&str; 12] = [
    "events_accepted",
    "events_duplicate",
    "events_routed",
    "deliveries_completed",
    "deliveries_retried",
    "deliveries_dead_lettered",
    "attempts_ok",
    "attempts_failed",
    "lease_resets",
    "orders_sent",
    "orders_retried",
    "orders_dead",
];

/// The metrics of a process. Cheap to clone; clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Meters>);

impl std::ops::Deref for Metrics {
    type Target = Meters;

    fn deref(&self) -> &Meters {
        &self.0
    }
}

#[derive(Debug)]
pub struct Meters {
    pub registry: Registry,
    pub events_accepted: Counter,
    pub events_duplicate: Counter,
    pub events_routed: Counter,
    pub pairs_routed: Counter,
    pub jobs_admitted: Counter,
    pub deliveries: Family<Outcome, Counter>,
    pub attempts: Family<Code, Counter>,
    pub leases_lost: Counter,
    pub lease_resets: Counter,
    pub dead_letters: Counter,
    pub delivery_seconds: Histogram,
    pub attempt_seconds: Histogram,
    pub batch_size: ByService<Histogram, Buckets>,
    pub step_seconds: ByService<Histogram, Buckets>,
    pub step_failures: ByService<Counter>,
    pub step_panics: ByService<Counter>,
    /// Exported with the prefix `outbox_` instead of the common one.
    pub outbox: OutboxMeters,
    pub queue_depth: Family<StageLabel, Gauge>,
    pub queue_oldest_age: Family<StageLabel, Seconds>,
    pub queue_sampled_at: Family<Unlabelled, Seconds>,
    pub held_deliveries: Family<Unlabelled, Gauge>,
    pub stuck_rows: Family<Kind, Gauge>,
    pub http_requests: Family<HttpAnswer, Counter>,
    pub http_request_seconds: Family<HttpCall, Histogram, Buckets>,
    pub store_seconds: Family<StoreRole, Histogram, Buckets>,
    pub auth_failures: Family<AuthFailure, Counter>,
    pub connections_refused: Counter,
    pub clock_steps: Family<Direction, Counter>,
    pub wal_bytes: Family<Unlabelled, Gauge>,
    pub wal_blocked: Family<Unlabelled, Gauge>,
    /// The connections to the database server.
    pub database: DatabaseMeters,
    // Counters for the charts, which distinguish only successful and failed attempts and have finer latency
    // buckets.
    attempts_ok: Counter,
    attempts_failed: Counter,
    latencies: [AtomicU64; latency::BUCKETS],
    /// Attempt sums for the subscription pages. Not exported, because the number of subscriptions is
    /// unbounded.
    pub health: HealthTally,
}

/// Creates a histogram with buckets from 0.5 ms to about 40 minutes.
fn long_times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 3.0, 15))
}

/// Creates a histogram with buckets from 0.1 ms to about 18 s.
fn short_times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 3.0, 12))
}

fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 12))
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let counters = <ByService<Counter>>::default;
        let mut meters = Meters {
            registry: Registry::default(),
            events_accepted: Counter::default(),
            events_duplicate: Counter::default(),
            events_routed: Counter::default(),
            pairs_routed: Counter::default(),
            jobs_admitted: Counter::default(),
            deliveries: Family::default(),
            attempts: Family::default(),
            leases_lost: Counter::default(),
            lease_resets: Counter::default(),
            dead_letters: Counter::default(),
            delivery_seconds: long_times(),
            attempt_seconds: short_times(),
            batch_size: Family::new_with_constructor(Buckets(sizes)),
            step_seconds: Family::new_with_constructor(Buckets(short_times)),
            step_failures: counters(),
            step_panics: counters(),
            outbox: OutboxMeters::default(),
            queue_depth: Family::default(),
            queue_oldest_age: Family::default(),
            queue_sampled_at: Family::default(),
            held_deliveries: Family::default(),
            stuck_rows: Family::default(),
            http_requests: Family::default(),
            http_request_seconds: Family::new_with_constructor(Buckets(short_times)),
            store_seconds: Family::new_with_constructor(Buckets(short_times)),
            auth_failures: Family::default(),
            connections_refused: Counter::default(),
            clock_steps: Family::default(),
            wal_bytes: Family::default(),
            wal_blocked: Family::default(),
            database: DatabaseMeters::default(),
            attempts_ok: Counter::default(),
            attempts_failed: Counter::default(),
            latencies: std::array::from_fn(|_| AtomicU64::new(0)),
            health: HealthTally::default(),
        };
        meters.register();
        Self(Arc::new(meters))
    }

    /// Counts one attempt. HTTP status codes outside the range 100 to 599 share one label.
    pub fn attempt(&self, outcome: &AttemptOutcome) {
        let charted = if outcome.code().is_none() { &self.attempts_ok } else { &self.attempts_failed };
        charted.inc();
        let code = match (outcome.code(), outcome.status()) {
            (None, _) => "OK".to_owned(),
            (Some(_), Some(status)) if !(100..=599).contains(&status) => "HTTP_OTHER".to_owned(),
            (Some(code), Some(_) | None) => code.to_string(),
        };
        self.attempts.get_or_create(&Code { code }).inc();
    }

    /// Counts the effect of a result on its delivery.
    pub fn decided(&self, decision: &Decision) {
        let outcome = match decision {
            Decision::Complete { .. } => "completed",
            Decision::Retry { .. } => "retried",
            Decision::DeadLetter { .. } => {
                self.dead_letters.inc();
                "dead_lettered"
            }
            Decision::StartAttempt { .. } | Decision::Ignore(_) => return,
        };
        self.deliveries.get_or_create(&Outcome { outcome }).inc();
    }

    /// Records the time from the acceptance of an event to its delivery.
    pub fn delivered(&self, took: Duration) {
        self.delivery_seconds.observe(took.as_secs_f64());
        if let Some(bucket) = self.latencies.get(latency::bucket(took)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current values of the chart counters, named as in [`CHARTED`], and of the latency buckets.
    pub fn charted(&self) -> Vec<(String, u64)> {
        let ended = |outcome| self.deliveries.get_or_create(&Outcome { outcome }).get();
        let ordered = |sent| self.outbox.send.get_or_create(&sent).get();
        let counters = [
            ("events_accepted", self.events_accepted.get()),
            ("events_duplicate", self.events_duplicate.get()),
            ("events_routed", self.events_routed.get()),
            ("deliveries_completed", ended("completed")),
            ("deliveries_retried", ended("retried")),
            ("deliveries_dead_lettered", ended("dead_lettered")),
            ("attempts_ok", self.attempts_ok.get()),
            ("attempts_failed", self.attempts_failed.get()),
            ("lease_resets", self.lease_resets.get()),
            ("orders_sent", ordered(Sent::SUCCESS) + ordered(Sent::CONFLICT_PROCESSED)),
            ("orders_retried", ordered(Sent::RETRY)),
            ("orders_dead", ordered(Sent::DEAD)),
        ];
        let latencies = self.latencies.iter().enumerate();
        let latencies =
            latencies.map(|(place, count)| (latency::counter(place), count.load(Ordering::Relaxed)));
        counters.into_iter().map(|(name, count)| (name.to_owned(), count)).chain(latencies).collect()
    }

    /// Sets the gauges from a survey. After a failed survey they keep their values; the time of the last
    /// sample shows their age.
    pub fn surveyed(&self, survey: &Survey, now: posthaste_core::Timestamp) {
        for stage in Stage::ALL {
            let Waiting { depth, oldest } = survey.of(stage);
            let label = StageLabel { stage: stage.as_str() };
            self.queue_depth.get_or_create(&label).set(depth.into());
            let age = oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
            self.queue_oldest_age.get_or_create(&label).set(age.as_secs_f64());
        }
        self.held_deliveries.get_or_create(&Unlabelled {}).set(survey.held.into());
        for (kind, count) in [("job", survey.stuck_jobs), ("order", survey.stuck_orders)] {
            self.stuck_rows.get_or_create(&Kind { kind }).set(count.into());
        }
        let since_epoch = now.since(posthaste_core::Timestamp::from_micros(0));
        self.queue_sampled_at.get_or_create(&Unlabelled {}).set(since_epoch.as_secs_f64());
    }

    /// Counts one response. `call` is the route, never text from the request.
    pub fn answered(&self, call: String, status: u16, took: Duration) {
        let call = HttpCall { call };
        self.http_request_seconds.get_or_create(&call).observe(took.as_secs_f64());
        self.http_requests.get_or_create(&HttpAnswer { call: call.call, status }).inc();
    }

    /// Records the duration of one call to the port of a role.
    pub fn store_called(&self, role: &'static str, took: Duration) {
        self.store_seconds.get_or_create(&StoreRole { role }).observe(took.as_secs_f64());
    }

    /// Sets the size of SQLite's write-ahead log, and whether an open reader blocks its checkpoints.
    pub fn wal_seen(&self, bytes: u64, is_blocked: bool) {
        self.wal_bytes.get_or_create(&Unlabelled {}).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.wal_blocked.get_or_create(&Unlabelled {}).set(is_blocked.into());
    }

    pub fn batch(&self, service: &'static str, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.batch_size.get_or_create(&Service { service }).observe(f64::from(size));
    }
}

impl Meters {
    fn register(&mut self) {
        self.outbox.register(&mut self.registry);
        let registry = self.registry.sub_registry_with_prefix("posthaste");
        let mut counter = |name, help, metric: &Counter| registry.register(name, help, metric.clone());
        counter("events_accepted", "Events stored durably and acknowledged", &self.events_accepted);
        counter("events_duplicate", "Events whose external id was already stored", &self.events_duplicate);
        counter("events_routed", "Events removed from the routing queue", &self.events_routed);
        counter("pairs_routed", "Pairs of event and subscription that matched", &self.pairs_routed);
        counter("jobs_admitted", "Attempts created for due deliveries", &self.jobs_admitted);
        counter("leases_lost", "Results reported after their lease was lost", &self.leases_lost);
        counter("lease_resets", "Expired leases that were reset", &self.lease_resets);
        counter("dead_letters", "Deliveries that were dead-lettered", &self.dead_letters);
        registry.register("deliveries", "Applied results by outcome", self.deliveries.clone());
        registry.register("attempts", "Attempts by result code", self.attempts.clone());
        let mut seconds = |name, help, metric: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
        };
        seconds(
            "delivery",
            "Time from the acceptance of an event to its successful delivery",
            &self.delivery_seconds,
        );
        seconds("attempt", "Duration of one exchange with a receiver", &self.attempt_seconds);
        registry.register("batch_size", "Number of items in one step or batch", self.batch_size.clone());
        let steps = self.step_seconds.clone();
        registry.register_with_unit("step", "Duration of one step of a service", Unit::Seconds, steps);
        registry.register(
            "step_failures",
            "Steps that failed with a store error",
            self.step_failures.clone(),
        );
        registry.register("step_panics", "Steps that panicked", self.step_panics.clone());
        self.register_insight();
    }
}

impl Meters {
    fn register_insight(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("posthaste");
        let depth = self.queue_depth.clone();
        registry.register(
            "queue_depth",
            "Number of items waiting for each stage, counted up to 100000",
            depth,
        );
        let age = self.queue_oldest_age.clone();
        registry.register_with_unit("queue_oldest_age", "Age of the oldest waiting item", Unit::Seconds, age);
        let sampled = self.queue_sampled_at.clone();
        let help = "Unix time of the last queue sample";
        registry.register_with_unit("queue_sampled_timestamp", help, Unit::Seconds, sampled);
        let held = self.held_deliveries.clone();
        let help =
            "Unfinished deliveries of paused, unverified or deleted subscriptions, counted up to 100000";
        registry.register("held_deliveries", help, held);
        let help = "Leased jobs and sending orders past their time limit";
        registry.register("stuck_rows", help, self.stuck_rows.clone());
        registry.register("http_requests", "Requests by call and status", self.http_requests.clone());
        let seconds = self.http_request_seconds.clone();
        registry.register_with_unit(
            "http_request",
            "Time from the request head to the response",
            Unit::Seconds,
            seconds,
        );
        let seconds = self.store_seconds.clone();
        registry.register_with_unit("store", "Duration of one store call by role", Unit::Seconds, seconds);
        let failures = self.auth_failures.clone();
        registry.register("auth_failures", "Refused keys and sessions", failures);
        let refused = self.connections_refused.clone();
        let help = "Connections closed because their client had too many";
        registry.register("connections_refused", help, refused);
        let help = "Samples of the store's clock that differed from the running clock by more than 1 s";
        registry.register("clock_steps", help, self.clock_steps.clone());
        let bytes = self.wal_bytes.clone();
        registry.register_with_unit("sqlite_wal", "Size of the SQLite write-ahead log", Unit::Bytes, bytes);
        let help = "1 while an open reader blocks checkpoints of the write-ahead log, otherwise 0";
        registry.register("sqlite_wal_blocked", help, self.wal_blocked.clone());
        registry.register_collector(Box::new(self.database.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::outcome::{Failure, classify};
    use posthaste_core::time::Timestamp;

    #[test]
    fn nonstandard_status_codes_share_a_label() {
        let metrics = Metrics::new();
        for status in [200, 299, 404, 600, 999] {
            metrics.attempt(&classify(status, None, Timestamp::from_micros(0)));
        }
        metrics.attempt(&AttemptOutcome::failed(Failure::Timeout));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry).expect("text");
        for line in [
            r#"posthaste_attempts_total{code="OK"} 2"#,
            r#"posthaste_attempts_total{code="HTTP_404"} 1"#,
            r#"posthaste_attempts_total{code="HTTP_OTHER"} 2"#,
            r#"posthaste_attempts_total{code="TIMEOUT"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn wal_gauges_are_exported_once_they_are_set() {
        let metrics = Metrics::new();
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &metrics.registry).expect("text");
            let lines = text.lines().filter(|line| line.starts_with("posthaste_sqlite_wal"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(shown(), [""; 0]);
        metrics.wal_seen(9_000_000, true);
        assert_eq!(shown(), ["posthaste_sqlite_wal_bytes{} 9000000", "posthaste_sqlite_wal_blocked{} 1"]);
    }
}
