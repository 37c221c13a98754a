//! Computes the changes to sets of orders and to the lane. The stores read the orders, call these functions and
//! write the changes.

use super::{OrderDecision, OrderSignal, OrderState, OrderUpdate, step};
use crate::ids::{LeaseToken, OrderId};
use crate::lane::Lane;
use crate::ports::{OrderRecord, OrderReport, Settled};
use crate::retry::OrderRetryPolicy;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// An order before a change, and the change.
pub type OrderChange = (OrderRecord, OrderUpdate);

/// Orders by id, each with the token of its last claim.
pub type HeldOrders = BTreeMap<OrderId, (OrderRecord, Option<LeaseToken>)>;

impl OrderRecord {
    pub fn state(&self) -> OrderState {
        OrderState {
            status: self.status,
            retry_count: self.retry_count,
            next_attempt_at: self.next_attempt_at,
            maybe_executed: self.maybe_executed,
            idempotency_key: self.idempotency_key.clone(),
        }
    }
}

/// Returns the changes to the orders whose state `signal` changes.
pub fn changes<'s>(
    orders: impl IntoIterator<Item = OrderRecord>,
    signal: impl Fn(&OrderRecord) -> OrderSignal<'s>,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> Vec<OrderChange> {
    let change = |order: OrderRecord| match step(&order.state(), &signal(&order), &policy, now) {
        OrderDecision::Update(update) => Some((order, update)),
        OrderDecision::Ignore(_) => None,
    };
    orders.into_iter().filter_map(change).collect()
}

/// Returns the changes to orders caused by `reports`, and the new state of the lane. A report has an effect
/// only if its token is that of the order's last claim. A second report for the same order has no effect.
pub fn settle(
    reports: &[OrderReport],
    held: &HeldOrders,
    mut lane: Lane,
    policy: OrderRetryPolicy,
    now: Timestamp,
) -> (Vec<OrderChange>, Lane) {
    let mut settled = BTreeMap::new();
    for report in reports {
        let Some(order) = held_by(held, report).filter(|order| !settled.contains_key(&order.id)) else {
            continue;
        };
        let signal = OrderSignal::Settled { outcome: &report.outcome, probe: report.probe };
        for change in changes([order.clone()], |_| signal.clone(), policy, now) {
            settled.insert(report.id, change);
            lane = lane.after(&report.outcome, report.probe, now);
        }
    }
    (settled.into_values().collect(), lane)
}

/// Returns the result of each report, in order. A report with the token of the order's last claim is accepted
/// and returns the current order.
pub fn answers(
    reports: &[OrderReport],
    held: &HeldOrders,
    settled: impl IntoIterator<Item = OrderRecord>,
) -> Vec<Settled> {
    let settled: BTreeMap<OrderId, OrderRecord> =
        settled.into_iter().map(|order| (order.id, order)).collect();
    let answer = |report: &OrderReport| match held_by(held, report) {
        Some(order) => Settled::Accepted(Box::new(settled.get(&report.id).unwrap_or(order).clone())),
        None => Settled::ClaimLost,
    };
    reports.iter().map(answer).collect()
}

fn held_by<'h>(held: &'h HeldOrders, report: &OrderReport) -> Option<&'h OrderRecord> {
    held.get(&report.id).filter(|(_, token)| *token == Some(report.token)).map(|(order, _)| order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{BrokerFault, BrokerOutcome};
    use crate::digest::digest_of;
    use crate::order::{IdempotencyKey, OrderStatus};

    fn token(bits: u128) -> LeaseToken {
        LeaseToken::from_random(bits)
    }

    fn order(id: i64, status: OrderStatus) -> OrderRecord {
        let at = Timestamp::from_micros(1_000_000);
        OrderRecord {
            id: OrderId::from_store(id),
            idempotency_key: IdempotencyKey::from_store(format!("k-{id}")),
            status,
            retry_count: 0,
            next_attempt_at: at,
            last_error: None,
            trace_id: None,
            broker_order_id: None,
            request_digest: digest_of(b"{}"),
            result_digest: None,
            result_json: None,
            maybe_executed: false,
            created_at: at,
            updated_at: at,
        }
    }

    #[test]
    fn report_counts_once_and_only_with_the_token_of_the_last_claim() {
        let now = Timestamp::from_micros(2_000_000);
        let orders = [
            (order(1, OrderStatus::Sending), Some(token(7))),
            (order(2, OrderStatus::Sending), Some(token(8))),
            (order(3, OrderStatus::Queued), None),
            (order(4, OrderStatus::Failed), Some(token(7))),
        ];
        let held: HeldOrders = orders.into_iter().map(|held| (held.0.id, held)).collect();
        // Columns: the order, the token of the report, and whether the report is accepted.
        let rows = [(1, 7, true), (1, 7, true), (2, 7, false), (3, 7, false), (4, 7, true), (5, 7, false)];
        let report = |(id, bits, _)| OrderReport {
            id: OrderId::from_store(id),
            token: token(bits),
            probe: false,
            outcome: BrokerOutcome::NoAnswer(BrokerFault::ConnectFailed),
        };
        let reports: Vec<OrderReport> = rows.into_iter().map(report).collect();
        let (changes, lane) = settle(&reports, &held, Lane::open(now), OrderRetryPolicy::ORDER, now);
        let changed: Vec<i64> = changes.iter().map(|(order, _)| order.id.get()).collect();
        assert_eq!((changed, lane.faults_in_row), (vec![1], 1), "one report changes its order and the lane");
        let failed = OrderRecord { status: OrderStatus::Failed, ..order(1, OrderStatus::Sending) };
        let answers = answers(&reports, &held, [failed]);
        for (answer, (id, _, is_accepted)) in answers.iter().zip(rows) {
            match answer {
                Settled::Accepted(order) => {
                    assert!(is_accepted && order.status == OrderStatus::Failed, "order {id}");
                }
                Settled::ClaimLost => assert!(!is_accepted, "order {id}"),
            }
        }
    }
}
