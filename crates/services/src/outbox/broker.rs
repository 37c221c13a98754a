//! The port to a broker. Behind it stands whatever executes orders; the HTTP adapter is the one that is
//! shipped.

use posthaste_core::Timestamp;
use posthaste_core::broker::BrokerOutcome;
use posthaste_core::ports::ClaimedOrder;
use std::time::Duration;

pub trait Broker: Send + Sync + 'static {
    /// Sends an order once, always under its own key, and answers what came of it.
    fn send_order(&self, order: &ClaimedOrder, now: Timestamp) -> impl Future<Output = BrokerOutcome> + Send;

    /// The longest that a send takes.
    fn deadline(&self) -> Duration;
}
