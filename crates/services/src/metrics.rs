//! What Posthaste counts, under the names that Prometheus sees. Every label has a small, fixed set of
//! values, whatever receivers and callers send.

use crate::outbox::OutboxMeters;
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::saga::Decision;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;

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

#[derive(Debug, Clone, Copy)]
pub struct Buckets(fn() -> Histogram);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        (self.0)()
    }
}

type ByService<M, C = fn() -> M> = Family<Service, M, C>;

/// Cheap to clone; clones count together.
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
    /// Under names of their own, without the prefix of the others.
    pub outbox: OutboxMeters,
}

/// 0.5 ms to about half an hour.
fn long_times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 3.0, 15))
}

/// 0.1 ms to about half a minute.
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
        };
        meters.register();
        Self(Arc::new(meters))
    }

    /// Counts one attempt. Of the codes that receivers choose, those that HTTP knows are kept apart.
    pub fn attempt(&self, outcome: &AttemptOutcome) {
        let code = match (outcome.code(), outcome.status()) {
            (None, _) => "OK".to_owned(),
            (Some(_), Some(status)) if !(100..=599).contains(&status) => "HTTP_OTHER".to_owned(),
            (Some(code), Some(_) | None) => code.to_string(),
        };
        self.attempts.get_or_create(&Code { code }).inc();
    }

    /// Counts what a result did to its delivery.
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
        counter("events_duplicate", "Events whose external id was known", &self.events_duplicate);
        counter("events_routed", "Events taken off the routing queue", &self.events_routed);
        counter("pairs_routed", "Pairs of event and subscription that matched", &self.pairs_routed);
        counter("jobs_admitted", "Attempts that were started", &self.jobs_admitted);
        counter("leases_lost", "Results that came after their lease was given away", &self.leases_lost);
        counter("lease_resets", "Leases that ran out and were given back", &self.lease_resets);
        counter("dead_letters", "Deliveries that were given up", &self.dead_letters);
        registry.register("deliveries", "Applied results by what they did", self.deliveries.clone());
        registry.register("attempts", "Attempts by the code they ended with", self.attempts.clone());
        let mut seconds = |name, help, metric: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
        };
        seconds("delivery", "From routing to the end of a delivery", &self.delivery_seconds);
        seconds("attempt", "One exchange with a receiver", &self.attempt_seconds);
        registry.register("batch_size", "How much one step or batch moved", self.batch_size.clone());
        let steps = self.step_seconds.clone();
        registry.register_with_unit("step", "One step of a service", Unit::Seconds, steps);
        registry.register("step_failures", "Steps that the store refused", self.step_failures.clone());
        registry.register("step_panics", "Steps that panicked", self.step_panics.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::outcome::{Failure, classify};
    use posthaste_core::time::Timestamp;

    #[test]
    fn codes_that_no_standard_knows_share_a_label() {
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
}
