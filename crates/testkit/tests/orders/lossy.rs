//! Tests an outbox worker with a store that executes claims but loses the responses.

use crate::broker::accepted;
use posthaste_core::lane::Lane;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::{
    ClaimedOrders, NextOrders, OrderRecord, OrderReport, OutboxClaim, OutboxWorkerStore, RestartedWaits,
    Settled, StoreError, StoreResult, Stores as _, WaitPage,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{LeaseToken, OrderId, Timestamp};
use posthaste_services::step::Step as _;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::{OrderRig, STUCK_THRESHOLD, http_broker, loopback_sender};
use posthaste_testkit::receiver::Receiver;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone)]
struct Lossy<W> {
    store: W,
    /// The number of responses still to lose.
    losses: Arc<AtomicU32>,
}

impl<W: OutboxWorkerStore> OutboxWorkerStore for Lossy<W> {
    async fn requeue_due_orders(
        &self,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<OrderRecord>> {
        self.store.requeue_due_orders(orders_max, policy, now).await
    }

    async fn restart_waits(
        &self,
        page: WaitPage,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        self.store.restart_waits(page, policy, now).await
    }

    async fn next_orders_at(&self) -> StoreResult<NextOrders> {
        self.store.next_orders_at().await
    }

    async fn claim_orders(&self, claim: OutboxClaim, now: Timestamp) -> StoreResult<ClaimedOrders> {
        let claimed = self.store.claim_orders(claim, now).await?;
        let less = |left: u32| left.checked_sub(1);
        match self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err(StoreError::OutcomeUnknown { doing: "testing", source: "lost".into() }),
            Err(_) => Ok(claimed),
        }
    }

    async fn settle_orders(
        &self,
        reports: Vec<OrderReport>,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<Settled>> {
        self.store.settle_orders(reports, policy, now).await
    }

    async fn release_orders(
        &self,
        orders: Vec<OrderId>,
        token: LeaseToken,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<u32> {
        self.store.release_orders(orders, token, policy, now).await
    }

    async fn rewind_stuck_orders(
        &self,
        stuck_threshold: Duration,
        orders_max: u32,
        policy: OrderRetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<OrderRecord>> {
        self.store.rewind_stuck_orders(stuck_threshold, orders_max, policy, now).await
    }

    async fn purge_ledger(&self, rows_max: u32, now: Timestamp) -> StoreResult<u32> {
        self.store.purge_ledger(rows_max, now).await
    }

    async fn load_lane(&self) -> StoreResult<Lane> {
        self.store.load_lane().await
    }
}

/// Runs only on PostgreSQL, because an embedded SQLite store cannot lose a response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_a_response_is_found_again() {
    // After the first outage, the orders can still be sent under their claims. After the second, they can only be
    // released.
    for outage in [Duration::from_secs(5), STUCK_THRESHOLD - Duration::from_secs(5)] {
        let mut rig = OrderRig::new(Harness::postgres("lossy").await);
        let broker = Receiver::start(accepted).await;
        let store = Lossy { store: rig.h.store.outbox_worker(), losses: Arc::new(AtomicU32::new(3)) };
        let adapter = http_broker(loopback_sender(), &broker.url("/"), Duration::from_secs(30));
        let mut process = rig.process_over(store, adapter);
        rig.submit("order", 6).await;
        for _ in 0..3 {
            assert!(process.worker.step(rig.now()).await.is_err());
        }
        assert_eq!(rig.count(OrderStatus::Sending).await, 4, "claimed, but the response was lost");
        rig.move_by(outage);
        for _ in 0..6 {
            process.worker.step(rig.now()).await.expect("a step");
            process.worker.settle().await;
        }
        assert_eq!((rig.count(OrderStatus::Sent).await, broker.received().len()), (6, 6), "{outage:?}");
        let orders = rig.orders().await;
        assert!(orders.iter().all(|order| order.retry_count == 0 && !order.maybe_executed), "{orders:?}");
        rig.check_audit().await;
    }
}
