//! The port to the broker that executes orders. [`HttpBroker`](super::HttpBroker) is the only implementation
//! that is shipped.

use posthaste_core::Timestamp;
use posthaste_core::broker::BrokerOutcome;
use posthaste_core::ports::ClaimedOrder;
use std::time::Duration;

pub trait Broker: Send + Sync + 'static {
    /// Sends an order once, under its idempotency key, and returns the outcome.
    fn send_order(&self, order: &ClaimedOrder, now: Timestamp) -> impl Future<Output = BrokerOutcome> + Send;

    /// Returns the longest time that a send can take.
    fn deadline(&self) -> Duration;
}
