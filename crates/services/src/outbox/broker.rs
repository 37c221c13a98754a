//! The port to the broker that executes orders. Its only implementation outside tests is
//! [`HttpBroker`](super::HttpBroker).

use posthaste_core::Timestamp;
use posthaste_core::broker::BrokerOutcome;
use posthaste_core::ports::ClaimedOrder;
use std::time::Duration;

pub trait Broker: Send + Sync + 'static {
    /// Sends an order once, with its idempotency key, and returns the outcome.
    fn send_order(&self, order: &ClaimedOrder, now: Timestamp) -> impl Future<Output = BrokerOutcome> + Send;

    /// Returns the maximum duration of a request.
    fn deadline(&self) -> Duration;
}
