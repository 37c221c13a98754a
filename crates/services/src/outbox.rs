//! The order lane, with one step per task. [`OrderSender`] claims orders (stored by the [`intake`]) and sends
//! them, [`Settlements`] records the broker's responses, [`OrderRequeue`] queues failed orders again when
//! they are due, [`OrderJanitor`] reclaims orders whose sender never reported, [`LedgerPurge`] deletes
//! expired keys, and [`LaneObserver`] logs changes of the lane. `core` decides the transitions of orders and
//! of the lane.

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

/// The maximum number of orders that one step requeues or reclaims.
const MOVED_MAX: u32 = 500;
