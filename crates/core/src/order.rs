//! Orders to a broker: what a valid one is (at the wall), and THE state machine of one (for the outbox
//! worker and the stores). [`step`] is the only place that decides what becomes of an order; a store
//! writes down what it says and refuses whatever [`OrderStatus::may_become`] refuses.
//!
//! ```text
//! queued ──▶ sending ──▶ sent
//!   ▲ ▲         │ │ └──▶ dead
//!   │ └─────────┘ ▼       ▲
//!   └────────── failed ───┘
//! ```

use crate::broker::{BrokerOutcome, Receipt, UNKNOWN};
use crate::json::NESTING_MAX;
use crate::outcome::ErrorCode;
use crate::retry::{OrderRetryPolicy, Wait};
use crate::time::Timestamp;
use std::time::Duration;

pub mod batch;
mod body;
mod strict_json;

pub use body::{
    BadIdempotencyKey, IDEMPOTENCY_KEY_CHARS_MAX, IdempotencyKey, ORDER_BYTES_MAX, Order, OrderError, QTY_MAX,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderStatus {
    /// Waits for a sender.
    Queued,
    /// A sender has it; the request may be on its way.
    Sending,
    /// The broker has it.
    Sent,
    /// The last send failed; waits for its time to be queued again.
    Failed,
    /// Given up; never sent again.
    Dead,
}

impl OrderStatus {
    pub const ALL: [Self; 5] = [Self::Queued, Self::Sending, Self::Sent, Self::Failed, Self::Dead];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Nothing ever changes again.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Sent | Self::Dead => true,
            Self::Queued | Self::Sending | Self::Failed => false,
        }
    }

    /// Whether an update may take an order from here to there; staying is a change of other columns.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Queued => matches!(to, Self::Queued | Self::Sending),
            Self::Sending => true,
            Self::Failed => matches!(to, Self::Failed | Self::Queued | Self::Dead),
            Self::Sent | Self::Dead => false,
        }
    }
}

/// What [`step`] looks at: the part of an order that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderState {
    pub status: OrderStatus,
    /// Sends that failed and were counted.
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    /// Some send ended in a way that does not rule out that the broker executed it. Never set on a `sent` order,
    /// which the broker has executed.
    pub maybe_executed: bool,
    pub idempotency_key: IdempotencyKey,
}

/// What can happen to an order. Claiming is no signal: it is the store's own step from the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderSignal<'a> {
    /// The worker looked whether a failed order's time has come.
    Due,
    /// The clock may have been set back since a failed order was stored at `since`.
    ClockStep { since: Timestamp },
    /// A send came to its end. `probe`: it was the one send of a lane that holds the others back.
    Settled { outcome: &'a BrokerOutcome, probe: bool },
    /// A `sending` order's claim is older than the threshold: its sender is gone, its request perhaps not.
    Stuck,
    /// Its sender gives the claim back, and knows that nothing of the order has left.
    Unsent,
    /// What was stored cannot be the order that was accepted: its digest or its depth says so.
    Unreadable,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderDecision {
    Update(OrderUpdate),
    Ignore(OrderIgnored),
}

/// Everything that a store writes for a transition, to the order, the ledger and the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderUpdate {
    pub status: OrderStatus,
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    /// `None` leaves the column as it is: a success tells what went wrong on the way.
    pub last_error: Option<ErrorCode>,
    pub maybe_executed: bool,
    /// For the audit: what the code does not say.
    pub note: Option<String>,
    /// What the broker gave; there exactly when the order becomes `sent`.
    pub receipt: Option<Receipt>,
}

/// Why a signal changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderIgnored {
    /// The order has ended.
    Terminal,
    /// Its time has not come.
    NotDue,
    /// The signal is for a state that the order has left, or never was in.
    WrongState,
}

/// Decides what a signal does to an order.
pub fn step(
    state: &OrderState,
    signal: &OrderSignal<'_>,
    policy: &OrderRetryPolicy,
    now: Timestamp,
) -> OrderDecision {
    match (state.status, signal) {
        (
            OrderStatus::Sent | OrderStatus::Dead,
            OrderSignal::Due
            | OrderSignal::ClockStep { .. }
            | OrderSignal::Settled { .. }
            | OrderSignal::Stuck
            | OrderSignal::Unsent
            | OrderSignal::Unreadable,
        ) => OrderDecision::Ignore(OrderIgnored::Terminal),
        (
            OrderStatus::Queued,
            OrderSignal::Due
            | OrderSignal::ClockStep { .. }
            | OrderSignal::Settled { .. }
            | OrderSignal::Stuck
            | OrderSignal::Unsent
            | OrderSignal::Unreadable,
        )
        | (
            OrderStatus::Failed,
            OrderSignal::Settled { .. } | OrderSignal::Stuck | OrderSignal::Unsent | OrderSignal::Unreadable,
        )
        | (OrderStatus::Sending, OrderSignal::Due | OrderSignal::ClockStep { .. }) => {
            OrderDecision::Ignore(OrderIgnored::WrongState)
        }
        (OrderStatus::Failed, OrderSignal::Due) => due(state, policy, now),
        (OrderStatus::Failed, OrderSignal::ClockStep { since }) => restart(state, *since, policy, now),
        (OrderStatus::Sending, OrderSignal::Settled { outcome, probe }) => {
            OrderDecision::Update(settle(state, outcome, *probe, policy, now))
        }
        (OrderStatus::Sending, OrderSignal::Stuck) => OrderDecision::Update(rewind(state, policy, now)),
        (OrderStatus::Sending, OrderSignal::Unsent) => OrderDecision::Update(give_back(state)),
        (OrderStatus::Sending, OrderSignal::Unreadable) => OrderDecision::Update(set_aside(state)),
    }
}

fn due(state: &OrderState, policy: &OrderRetryPolicy, now: Timestamp) -> OrderDecision {
    if state.next_attempt_at > now {
        return OrderDecision::Ignore(OrderIgnored::NotDue);
    }
    let update = if state.retry_count > policy.retries_max {
        let note = Some("over the limit of retries, which was lowered".to_owned());
        OrderUpdate { note, ..unchanged(state, OrderStatus::Dead) }
    } else {
        unchanged(state, OrderStatus::Queued)
    };
    OrderDecision::Update(update)
}

fn restart(state: &OrderState, since: Timestamp, policy: &OrderRetryPolicy, now: Timestamp) -> OrderDecision {
    match policy.restarted_wait(Wait { since, until: state.next_attempt_at }, now) {
        Some(next_attempt_at) => {
            OrderDecision::Update(OrderUpdate { next_attempt_at, ..unchanged(state, OrderStatus::Failed) })
        }
        None => OrderDecision::Ignore(OrderIgnored::NotDue),
    }
}

fn settle(
    state: &OrderState,
    outcome: &BrokerOutcome,
    probe: bool,
    policy: &OrderRetryPolicy,
    now: Timestamp,
) -> OrderUpdate {
    let (last_error, note) = (outcome.code(), outcome.note());
    match outcome {
        BrokerOutcome::Accepted(receipt) | BrokerOutcome::AlreadyProcessed(receipt) => OrderUpdate {
            last_error,
            note,
            // The broker has it: an earlier send without an answer leaves no doubt any more.
            maybe_executed: false,
            receipt: Some(receipt.clone()),
            ..unchanged(state, OrderStatus::Sent)
        },
        BrokerOutcome::BadRequest { .. } => {
            OrderUpdate { last_error, note, ..unchanged(state, OrderStatus::Dead) }
        }
        BrokerOutcome::Unauthorized { .. } if !probe => {
            OrderUpdate { last_error, note, ..unchanged(state, OrderStatus::Dead) }
        }
        BrokerOutcome::Unauthorized { .. }
        | BrokerOutcome::RateLimited { .. }
        | BrokerOutcome::ServerError { .. }
        | BrokerOutcome::AnsweredTimeout
        | BrokerOutcome::Unclear { .. }
        | BrokerOutcome::NoAnswer(_) => {
            let failed = fail(state, outcome, is_counted(outcome, probe), policy, now);
            OrderUpdate { last_error, note, ..failed }
        }
    }
}

/// A probe is sent for the lane's sake. The order pays for it only if the broker may have had it:
/// credentials that were refused, or a connection that never was, say nothing about the order, and an
/// outage of hours must not use its retries up.
fn is_counted(outcome: &BrokerOutcome, probe: bool) -> bool {
    match outcome {
        BrokerOutcome::Unauthorized { .. } => !probe,
        BrokerOutcome::NoAnswer(fault) => !probe || fault.may_have_executed(),
        BrokerOutcome::Accepted(_)
        | BrokerOutcome::AlreadyProcessed(_)
        | BrokerOutcome::BadRequest { .. }
        | BrokerOutcome::RateLimited { .. }
        | BrokerOutcome::ServerError { .. }
        | BrokerOutcome::AnsweredTimeout
        | BrokerOutcome::Unclear { .. } => true,
    }
}

fn fail(
    state: &OrderState,
    outcome: &BrokerOutcome,
    counted: bool,
    policy: &OrderRetryPolicy,
    now: Timestamp,
) -> OrderUpdate {
    let retry_count = state.retry_count.saturating_add(u32::from(counted));
    let maybe_executed = state.maybe_executed || outcome.may_have_executed();
    if counted && retry_count > policy.retries_max {
        return OrderUpdate { retry_count, maybe_executed, ..unchanged(state, OrderStatus::Dead) };
    }
    let key = state.idempotency_key.as_str();
    let next_attempt_at =
        policy.next_attempt_at(key, retry_count, outcome.retry_after(), state.next_attempt_at, now);
    OrderUpdate { retry_count, maybe_executed, next_attempt_at, ..unchanged(state, OrderStatus::Failed) }
}

/// Whoever sent it cannot be asked any more. The wait of the threshold lies behind, so the order goes
/// straight back to the queue; that it may have been executed stays with it.
fn rewind(state: &OrderState, policy: &OrderRetryPolicy, now: Timestamp) -> OrderUpdate {
    let retry_count = state.retry_count.saturating_add(1);
    let is_over = retry_count > policy.retries_max;
    let status = if is_over { OrderStatus::Dead } else { OrderStatus::Queued };
    let soon = if state.next_attempt_at == now { now.after(Duration::from_micros(1)) } else { now };
    OrderUpdate {
        retry_count,
        next_attempt_at: if is_over { state.next_attempt_at } else { soon },
        last_error: Some(UNKNOWN),
        maybe_executed: true,
        note: Some("no outcome was reported within the threshold".to_owned()),
        ..unchanged(state, status)
    }
}

/// It keeps its place in the queue, and pays nothing.
fn give_back(state: &OrderState) -> OrderUpdate {
    let note = Some("was claimed and not sent".to_owned());
    let next_attempt_at = state.next_attempt_at.after(Duration::from_micros(1));
    OrderUpdate { note, next_attempt_at, ..unchanged(state, OrderStatus::Queued) }
}

/// Nobody knows any more what was ordered, so nothing may be sent, now or later. Whether an earlier send
/// was executed stays with it.
fn set_aside(state: &OrderState) -> OrderUpdate {
    OrderUpdate {
        last_error: Some(UNKNOWN),
        note: Some(format!(
            "the stored order does not match its digest, or is nested deeper than {NESTING_MAX} levels, and was not sent"
        )),
        ..unchanged(state, OrderStatus::Dead)
    }
}

fn unchanged(state: &OrderState, status: OrderStatus) -> OrderUpdate {
    OrderUpdate {
        status,
        retry_count: state.retry_count,
        next_attempt_at: state.next_attempt_at,
        last_error: None,
        maybe_executed: state.maybe_executed,
        note: None,
        receipt: None,
    }
}

impl OrderState {
    /// As the intake makes it.
    pub const fn fresh(idempotency_key: IdempotencyKey, now: Timestamp) -> Self {
        Self {
            status: OrderStatus::Queued,
            retry_count: 0,
            next_attempt_at: now,
            maybe_executed: false,
            idempotency_key,
        }
    }

    /// The state after a decision.
    pub fn after(self, decision: &OrderDecision) -> Self {
        match decision {
            OrderDecision::Update(update) => Self {
                status: update.status,
                retry_count: update.retry_count,
                next_attempt_at: update.next_attempt_at,
                maybe_executed: update.maybe_executed,
                ..self
            },
            OrderDecision::Ignore(_) => self,
        }
    }
}

#[cfg(test)]
mod tests;
