//! Orders to a broker: validation of submitted orders, and the state machine for the outbox worker and the
//! stores. [`step`] is the only place that decides the next state of an order; a store writes its decision and
//! refuses every transition that [`OrderStatus::may_become`] does not allow.
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
    /// Claimed by a sender; the request may have been sent.
    Sending,
    /// Accepted by the broker.
    Sent,
    /// The last send failed; waits until it is due to be queued again.
    Failed,
    /// Ended without success; never sent again.
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

    /// Returns whether an update from this status to `to` is legal. The same status means that only other
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
    /// The number of failed sends that count as retries.
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    /// Whether the broker may have executed a send whose outcome is unknown. Never set on a `sent` order,
    /// whose execution is certain.
    pub maybe_executed: bool,
    pub idempotency_key: IdempotencyKey,
}

/// What can happen to an order. Claiming is not a signal: the store changes `queued` to `sending` itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderSignal<'a> {
    /// The worker checked whether a failed order is due.
    Due,
    /// The clock may have been set back since a failed order was stored at `since`.
    ClockStep { since: Timestamp },
    /// A send has finished. `probe` indicates whether it was a probe of a lane that holds other orders back.
    Settled { outcome: &'a BrokerOutcome, probe: bool },
    /// The claim of a `sending` order is older than the threshold: its sender is lost, but its request may
    /// have been sent.
    Stuck,
    /// The sender releases the claim, and knows that no part of the order was sent.
    Unsent,
    /// The stored order is not the one that was accepted: its digest does not match, or it is nested too
    /// deep.
    Unreadable,
}

/// The effect of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderDecision {
    Update(OrderUpdate),
    Ignore(OrderIgnored),
}

/// Everything that a store writes for a transition: to the order, the ledger and the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderUpdate {
    pub status: OrderStatus,
    pub retry_count: u32,
    pub next_attempt_at: Timestamp,
    /// `None` leaves the column unchanged, so that after a success it still shows the last failure.
    pub last_error: Option<ErrorCode>,
    pub maybe_executed: bool,
    /// Details for the audit that the code does not contain.
    pub note: Option<String>,
    /// What the broker returned. Set if and only if the order becomes `sent`.
    pub receipt: Option<Receipt>,
}

/// Why a signal is ignored.
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
            // The broker has the order, so an earlier send without a response no longer matters.
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

/// Returns whether a failed send counts as a retry. A probe is sent to test the lane, so it counts only if
/// the broker may have received the order: refused credentials and failed connections say nothing about the
/// order, and an outage of hours must not use up its retries.
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

/// Takes back a stuck order. The outcome of its send is unknown, so `maybe_executed` is set. It has already
/// waited for the threshold, so it is queued at once.
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

/// Returns an unsent order to the queue. It keeps its position, and no retry is counted.
fn release(state: &OrderState) -> OrderUpdate {
    let note = Some("was claimed and not sent".to_owned());
    let next_attempt_at = state.next_attempt_at.after(Duration::from_micros(1));
    OrderUpdate { note, next_attempt_at, ..unchanged(state, OrderStatus::Queued) }
}

/// Ends an order whose stored content is not the original. It must never be sent; `maybe_executed` is kept.
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
