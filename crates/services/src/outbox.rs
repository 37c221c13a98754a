//! The order lane, one step for each job: [`OrderSender`] claims orders (stored by the [`intake`]) and sends them,
//! [`Settlements`] write what the broker said, [`OrderRequeue`] brings failed orders back, [`OrderJanitor`] takes back
//! orders that were never reported on, [`LedgerPurge`] deletes old keys, [`LaneObserver`] reports changes of the lane.
//! What becomes of an order, and of the lane, is decided in the core.

mod broker;
mod http;
pub mod intake;
mod janitor;
mod lane;
mod ledger;
mod meters;
mod requeue;
mod send;
mod sender;
mod settlements;

pub use broker::Broker;
pub use http::{HttpBroker, HttpBrokerOptions};
pub use janitor::{OrderJanitor, REWIND_EVERY};
pub use lane::{LANE_EVERY, LaneObserver, LaneState, LaneWatch};
pub use ledger::{LedgerPurge, PURGE_EVERY};
pub use meters::{Dequeue, OutboxMeters, Sent};
pub use requeue::{OrderRequeue, REQUEUE_EVERY};
pub use sender::{OrderSender, OutboxKit, OutboxOptions};
pub use settlements::{SERVICE as SETTLEMENTS, Settlements};

/// The most orders that one step brings back or takes back.
const MOVED_MAX: u32 = 500;
