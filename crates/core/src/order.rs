//! Orders to a broker: validation of submitted orders, and their state machine. [`step`] is the only function
//! that decides the next state of an order. The stores write its decision, and refuse every transition that
//! [`OrderStatus::may_become`] does not allow.
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
    /// Waiting to be claimed.
    Queued,
    /// Claimed by a worker. The request may have been sent.
    Sending,
    /// Accepted by the broker.
    Sent,
    /// The last attempt failed. The order is queued again when it is due.
    Failed,
    /// Failed permanently. The order is never sent again.
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

    /// Returns whether this state is final.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Sent | Self::Dead => true,
            Self::Queued | Self::Sending | Self::Failed => false,
        }
    }

    /// Returns whether an order with this status may be updated to status `to`. If both are equal, only other
    /// columns change.
    pub const fn may_become(self, to: Self) -> bool {
        match self {
            Self::Queued => matches!(to, Self::Queued | Self::Sending),
            Self::Sending => true,
            Self::Failed => matches!(to, Self::Failed | Self::Queued | Self::Dead),
            Self::Sent | Self::Dead => false,
        }
    }
}

/// The part of an order that [`step`] depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderState {
    pub status: OrderStatus,
    /// The number of failed attempts that count as retries.
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    /// Whether the broker may have executed the order in an attempt that did not succeed. Always `false` for a
    /// `sent` order, which is known to be executed.
    pub maybe_executed: bool,
    pub idempotency_key: IdempotencyKey,
}

/// An input of [`step`], which may change the state of an order. Claiming is not a signal: the store itself
/// changes `queued` to `sending`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderSignal<'a> {
    /// The worker checks whether a failed order is due.
    Due,
    /// The clock may have been set back after a failed order was stored. `since` is the time at which it was
    /// stored.
    ClockStep { since: Timestamp },
    /// An attempt to send the order has finished. `probe` indicates whether the attempt was a probe of the
    /// lane.
    Settled { outcome: &'a BrokerOutcome, probe: bool },
    /// The claim of a `sending` order is older than the threshold. The worker is assumed to be dead, but the
    /// request may have been sent.
    Stuck,
    /// The worker releases its claim and no part of the order was sent.
    Unsent,
    /// The stored order is not the accepted one: it does not match its digest or is nested too deeply.
    Unreadable,
}

/// The effect of a signal on an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderDecision {
    Update(OrderUpdate),
    Ignore(OrderIgnored),
}

/// The values that a store writes to the order, the ledger and the audit for a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderUpdate {
    pub status: OrderStatus,
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    /// The new value of the column. `None` leaves the column unchanged, so that it still contains the last
    /// failure after a success.
    pub last_error: Option<ErrorCode>,
    pub maybe_executed: bool,
    /// Details for the audit, in addition to the error code.
    pub note: Option<String>,
    /// The broker's response. Set if and only if the order becomes `sent`.
    pub receipt: Option<Receipt>,
}

/// The reason why a signal is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderIgnored {
    /// The order is in a final state.
    Terminal,
    /// The order is not due yet.
    NotDue,
    /// The signal does not apply to the current state.
    WrongState,
}

/// Returns the effect of a signal on an order.
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
        (OrderStatus::Sending, OrderSignal::Unsent) => OrderDecision::Update(release(state)),
        (OrderStatus::Sending, OrderSignal::Unreadable) => OrderDecision::Update(set_aside(state)),
    }
}

fn due(state: &OrderState, policy: &OrderRetryPolicy, now: Timestamp) -> OrderDecision {
    if state.next_attempt_at > now {
        return OrderDecision::Ignore(OrderIgnored::NotDue);
    }
    let update = if state.retry_count > policy.retries_max {
        let note = Some("the retry limit was lowered below its retry count".to_owned());
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
            // The broker has the order, so an earlier attempt without a response no longer matters.
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

/// Returns whether a failed attempt counts as a retry. Refused credentials and failed connections do not count
/// for a probe, because they do not depend on the order, and a long outage must not use up its retries.
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

/// Returns the update for a stuck order. The outcome of the attempt is unknown, so `maybe_executed` is set. The
/// order has already waited for the threshold, so it is queued immediately.
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

/// Returns the update that queues an unsent order again. The order keeps its position, and no retry is counted.
fn release(state: &OrderState) -> OrderUpdate {
    let note = Some("was claimed and not sent".to_owned());
    let next_attempt_at = state.next_attempt_at.after(Duration::from_micros(1));
    OrderUpdate { note, next_attempt_at, ..unchanged(state, OrderStatus::Queued) }
}

/// Returns the update that marks an order as dead because its stored content was altered. It must never be
/// sent.
fn set_aside(state: &OrderState) -> OrderUpdate {
    OrderUpdate {
        last_error: Some(UNKNOWN),
        note: Some(format!(
            "the stored order does not match its digest, or is nested deeper than {NESTING_MAX} levels; it was not sent"
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
    /// Returns the state of a new order.
    pub const fn fresh(idempotency_key: IdempotencyKey, now: Timestamp) -> Self {
        Self {
            status: OrderStatus::Queued,
            retry_count: 0,
            next_attempt_at: now,
            maybe_executed: false,
            idempotency_key,
        }
    }

    /// Returns the state after a decision.
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
