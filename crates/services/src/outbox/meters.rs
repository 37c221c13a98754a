//! The metrics of the order lane. Their names are defined by its specification.

use posthaste_core::ports::OrderRecord;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// The `result` label: the result of polling the order queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Dequeue {
    result: &'static str,
}

impl Dequeue {
    pub const CLAIMED: Self = Self { result: "claimed" };
    pub const EMPTY: Self = Self { result: "empty" };
    /// The lane allowed no claims.
    pub const HELD: Self = Self { result: "held" };
}

/// The `outcome` label: the outcome of a request to the broker, or of an order that reached a final state
/// without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Sent {
    outcome: &'static str,
}

impl Sent {
    pub const SUCCESS: Self = Self { outcome: "success" };
    pub const RETRY: Self = Self { outcome: "retry" };
    pub const DEAD: Self = Self { outcome: "dead" };
    pub const CONFLICT_PROCESSED: Self = Self { outcome: "conflict_processed" };
    const ALL: [Self; 4] = [Self::SUCCESS, Self::RETRY, Self::DEAD, Self::CONFLICT_PROCESSED];
}

#[derive(Debug)]
pub struct OutboxMeters {
    pub dequeue: Family<Dequeue, Counter>,
    pub send: Family<Sent, Counter>,
    pub rewound: Counter,
    pub inflight: Gauge,
    pub paused: Gauge,
    pub rate: Gauge<f64, AtomicU64>,
    pub lag: Histogram,
    pub retry_count: Histogram,
    pub lag_sla: Gauge<f64, AtomicU64>,
}

impl Default for OutboxMeters {
    fn default() -> Self {
        let send = Family::<Sent, Counter>::default();
        for sent in Sent::ALL {
            // Initialized to zero, so that the first increment is visible as an increase.
            drop(send.get_or_create(&sent));
        }
        Self {
            dequeue: Family::default(),
            send,
            rewound: Counter::default(),
            inflight: Gauge::default(),
            paused: Gauge::default(),
            rate: Gauge::default(),
            // Buckets from 1 ms to about four hours.
            lag: Histogram::new(exponential_buckets(0.001, 3.0, 16)),
            retry_count: Histogram::new((0..=9).map(f64::from)),
            lag_sla: Gauge::default(),
        }
    }
}

impl OutboxMeters {
    pub fn sent(&self, sent: Sent) {
        self.send.get_or_create(&sent).inc();
    }

    /// Counts an order that reached a final state.
    pub fn ended(&self, sent: Sent, order: &OrderRecord) {
        self.sent(sent);
        self.retry_count.observe(f64::from(order.retry_count));
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("outbox");
        registry.register("dequeue", "Polls of the order queue by result", self.dequeue.clone());
        registry.register("send", "Settled sends by outcome", self.send.clone());
        let rewound = "Orders taken back because their sender never reported an outcome";
        registry.register("rewound", rewound, self.rewound.clone());
        registry.register("inflight", "Orders in flight in all processes", self.inflight.clone());
        registry.register("paused", "1 while the broker lane is paused, otherwise 0", self.paused.clone());
        registry.register("rate", "Orders per second that the lane allows", self.rate.clone());
        let retries = "Retries of an order when it reached a final state";
        registry.register("retry_count", retries, self.retry_count.clone());
        let lag = "Time from acceptance of an order to its settlement as sent";
        registry.register_with_unit("lag", lag, Unit::Seconds, self.lag.clone());
        let sla = "The configured lag above which an alert is raised";
        registry.register_with_unit("lag_sla", sla, Unit::Seconds, self.lag_sla.clone());
    }
}
