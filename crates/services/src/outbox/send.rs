//! Sends one claimed order and settles it. Called by the [`OrderSender`](super::OrderSender) for each order
//! of a claim.

use super::broker::Broker;
use super::{OutboxKit, OutboxOptions, Sent};
use crate::batcher::BatchError;
use posthaste_core::broker::BrokerOutcome;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{ClaimedOrder, OrderRecord, OrderReport, OutboxWorkerStore, Settled};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{LeaseToken, Timestamp};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) order: ClaimedOrder,
    pub(super) token: LeaseToken,
    pub(super) probe: bool,
}

/// A client that sends orders to the broker and settles them.
#[derive(Debug)]
pub(super) struct OrderTransport<S, B> {
    store: S,
    broker: B,
    kit: OutboxKit,
    policy: OrderRetryPolicy,
    stuck_threshold: Duration,
    worker_id: String,
}

impl<S: OutboxWorkerStore, B: Broker> OrderTransport<S, B> {
    pub(super) fn new(store: S, broker: B, kit: OutboxKit, options: &OutboxOptions) -> Self {
        let worker_id = options.worker_id.as_str().to_owned();
        let (policy, stuck_threshold) = (options.policy, options.stuck_threshold);
        Self { store, broker, kit, policy, stuck_threshold, worker_id }
    }

    pub(super) fn deadline(&self) -> Duration {
        self.broker.deadline()
    }

    /// Sends the order and settles it. If the claim would count as stuck before the request deadline,
    /// releases the order instead.
    pub(super) async fn send(&self, claimed: Claimed) {
        let Claimed { order, token, probe } = claimed;
        let now = self.kit.clock.now();
        let ends_by = now.since(order.claimed_at).saturating_add(self.broker.deadline());
        if ends_by > self.stuck_threshold {
            self.release(&order, token, now).await;
            return;
        }
        let outcome = self.broker.send_order(&order, now).await;
        let report = OrderReport { id: order.id, token, probe, outcome: outcome.clone() };
        match self.kit.settlements.call(report).await {
            Ok(Settled::Accepted(record)) => self.settled(&record, &outcome, probe),
            Ok(Settled::ClaimLost) => self.lost(&order, &outcome),
            Err(error) => self.unsettled(&order, &outcome, &error),
        }
    }

    async fn release(&self, order: &ClaimedOrder, token: LeaseToken, now: Timestamp) {
        let (order_id, key, worker_id) = (order.id, order.idempotency_key.as_str(), self.worker_id.as_str());
        let trace_id = order.trace_id.as_deref();
        tracing::warn!(
            %order_id, idempotency_key = key, trace_id, worker_id,
            "rest of the claim too short for a send, releasing the order"
        );
        if let Err(error) = self.store.release_orders(vec![order.id], token, self.policy, now).await {
            tracing::warn!(
                %order_id, idempotency_key = key, trace_id, worker_id, %error,
                "release failed, order is taken back after the stuck threshold"
            );
        }
    }

    fn settled(&self, record: &OrderRecord, outcome: &BrokerOutcome, probe: bool) {
        let meters = &self.kit.metrics.outbox;
        match record.status {
            OrderStatus::Sent => {
                let processed = matches!(outcome, BrokerOutcome::AlreadyProcessed(_));
                meters.ended(if processed { Sent::CONFLICT_PROCESSED } else { Sent::SUCCESS }, record);
                meters.lag.observe(record.updated_at.since(record.created_at).as_secs_f64());
            }
            OrderStatus::Dead => meters.ended(Sent::DEAD, record),
            OrderStatus::Failed => meters.sent(Sent::RETRY),
            // No settlement results in these states.
            OrderStatus::Queued | OrderStatus::Sending => {}
        }
        let (order_id, key, worker_id) =
            (record.id, record.idempotency_key.as_str(), self.worker_id.as_str());
        let (trace_id, status) = (record.trace_id.as_deref(), record.status.as_str());
        let (retry_count, error_code) = (record.retry_count, record.last_error.as_deref());
        if record.status == OrderStatus::Dead {
            let (maybe_executed, note) = (record.maybe_executed, outcome.note());
            tracing::warn!(
                %order_id, idempotency_key = key, trace_id, worker_id, status, retry_count, error_code, note,
                maybe_executed,
                "order dead, not retried; if maybe_executed is set, ask the broker before submitting it again"
            );
        } else {
            tracing::debug!(
                %order_id, idempotency_key = key, trace_id, worker_id, status, retry_count, error_code, probe,
                broker_order_id = record.broker_order_id, "order settled"
            );
        }
    }

    fn lost(&self, order: &ClaimedOrder, outcome: &BrokerOutcome) {
        let (order_id, key, worker_id) = (order.id, order.idempotency_key.as_str(), self.worker_id.as_str());
        let (trace_id, error_code) = (order.trace_id.as_deref(), outcome.code().map(tracing::field::display));
        tracing::warn!(
            %order_id, idempotency_key = key, trace_id, worker_id, error_code,
            "claim lost before the settlement, outcome ignored"
        );
    }

    fn unsettled(&self, order: &ClaimedOrder, outcome: &BrokerOutcome, error: &BatchError) {
        let (order_id, key, worker_id) = (order.id, order.idempotency_key.as_str(), self.worker_id.as_str());
        let (trace_id, error_code) = (order.trace_id.as_deref(), outcome.code().map(tracing::field::display));
        tracing::error!(
            %order_id, idempotency_key = key, trace_id, worker_id, error_code, %error,
            "settlement failed, order is taken back after the stuck threshold"
        );
    }
}
