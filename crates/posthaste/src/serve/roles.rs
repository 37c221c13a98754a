//! Starts the services of the roles router, orchestrator, worker, cleaner and outbox.

use super::Process;
use crate::random;
use anyhow::Context as _;
use posthaste_core::ports::{Stage, Stores};
use posthaste_services::cleaner::Cleaner;
use posthaste_services::orchestrator::{Admission, InFlight, Results};
use posthaste_services::outbox::{
    HttpBroker, HttpBrokerOptions, LANE_EVERY, LaneObserver, LedgerPurge, OrderJanitor, OrderRequeue,
    OrderSender, OutboxKit, OutboxOptions, PURGE_EVERY, REQUEUE_EVERY, REWIND_EVERY, SETTLEMENTS,
    Settlements,
};
use posthaste_services::router::Router;
use posthaste_services::runner::Service;
use posthaste_services::wait_check::{self, WaitCheck};
use posthaste_services::worker::{REPORTS, Reports, Worker, WorkerKit, WorkerOptions};
use std::sync::Arc;

/// The maximum number of reports in a batch.
const REPORTS_MAX: usize = 500;

impl<S: Stores> Process<'_, S> {
    pub(super) fn start_router(&mut self) {
        let router =
            Router::new(self.store.router(), self.clock.clone(), self.wake_ups.clone(), self.metrics.clone());
        let wake_up = self.wake_ups.wake_up(Stage::Routing);
        self.runner.start(Service::new("router", router, wake_up, self.settings.poll));
    }

    pub(super) fn start_orchestrator(&mut self) {
        let (store, policy, poll) = (self.store.orchestrator(), self.settings.retry, self.settings.poll);
        let in_flight = InFlight::new(self.settings.worker.subscription_in_flight);
        let (clock, wake_ups, metrics) = (self.clock.clone(), self.wake_ups.clone(), self.metrics.clone());
        let (again, shared) = (store.clone(), in_flight.clone());
        let admission =
            Admission::new(again, policy, shared, clock.clone(), wake_ups.clone(), metrics.clone());
        let waits = WaitCheck::new((store.clone(), policy), clock.clone());
        let results = Results::new(store, policy, in_flight, clock, wake_ups.clone(), metrics);
        self.runner.start(Service::new("admission", admission, wake_ups.wake_up(Stage::Admission), poll));
        self.runner.start(Service::new("results", results, wake_ups.wake_up(Stage::Results), poll));
        self.start_polling("delivery_waits", waits, wait_check::EVERY);
    }

    pub(super) fn start_worker(&mut self) -> anyhow::Result<()> {
        let slots = self.settings.worker.concurrency;
        let (store, poll) = (self.store.worker(), self.settings.poll);
        let reports = Reports::new(store.clone(), self.wake_ups.clone(), self.metrics.clone());
        let reports = self.start_batcher(REPORTS, reports, slots as usize, REPORTS_MAX);
        let options = WorkerOptions {
            worker_id: self.worker_id.clone(),
            lease: self.settings.lease.length,
            deadline: self.settings.request_timeout,
            slots,
        };
        let wake_up = self.wake_ups.wake_up(Stage::Delivery);
        let kit = WorkerKit {
            sender: self.sender.clone().context("the role worker has no sender")?,
            sealer: Arc::new(self.settings.sealer.clone()),
            tokens: self.tokens.clone().context("the role worker has no token cache")?,
            names: self.settings.names.clone(),
            reports,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            wake_up: wake_up.clone(),
        };
        let worker = Worker::new(store, options, kit, Box::new(random::lease_token));
        self.runner.start(Service::new("worker", worker, wake_up, poll));
        Ok(())
    }

    pub(super) fn start_cleaner(&mut self) {
        let lease = self.settings.lease;
        let (store, wake_ups) = (self.store.cleaner(), self.wake_ups.clone());
        let clock = self.clock.clone();
        let cleaner =
            Cleaner::new(store, lease.length, lease.resets_max, clock, wake_ups, self.metrics.clone());
        self.start_polling("cleaner", cleaner, lease.cleaner_interval);
    }

    pub(super) fn start_outbox(&mut self) -> anyhow::Result<()> {
        let (broker, outbox) = (&self.settings.broker, self.settings.outbox);
        let Some(url) = broker.url.clone() else {
            tracing::info!("POSTHASTE_BROKER_URL is not set, orders are refused");
            return Ok(());
        };
        let (store, poll) = (self.store.outbox_worker(), outbox.idle_sleep);
        let settlements = Settlements::new(store.clone(), outbox.retry, self.metrics.clone());
        let slots = outbox.parallelism as usize;
        let settlements = self.start_batcher(SETTLEMENTS, settlements, slots, slots);
        let broker = HttpBrokerOptions {
            url,
            headers: broker.headers.clone(),
            processed_marker: broker.processed_marker.clone(),
            deadline: self.settings.request_timeout,
        };
        let broker = HttpBroker::new(self.sender.clone().context("the role outbox has no sender")?, broker);
        let options = OutboxOptions {
            worker_id: self.worker_id.clone(),
            batch_size: outbox.batch_size,
            parallelism: outbox.parallelism,
            policy: outbox.retry,
            stuck_threshold: outbox.stuck_threshold,
        };
        let (wake_up, clock, metrics) =
            (self.wake_ups.wake_up(Stage::Outbox), self.clock.clone(), self.metrics.clone());
        let kit = OutboxKit {
            settlements,
            clock: clock.clone(),
            metrics: metrics.clone(),
            wake_up: wake_up.clone(),
        };
        let sender = OrderSender::new(store.clone(), broker, options, kit, Box::new(random::lease_token));
        self.runner.start(Service::new("outbox", sender, wake_up.clone(), poll));
        let (policy, threshold) = (outbox.retry, outbox.stuck_threshold);
        let requeue =
            OrderRequeue { store: store.clone(), policy, metrics: metrics.clone(), sender: wake_up.clone() };
        self.start_polling("order_requeue", requeue, REQUEUE_EVERY);
        let janitor = OrderJanitor::new(store.clone(), threshold, policy, metrics, wake_up);
        self.start_polling("order_janitor", janitor, REWIND_EVERY);
        let waits = WaitCheck::new((store.clone(), policy), clock);
        self.start_polling("order_waits", waits, wait_check::EVERY);
        self.start_polling("ledger_purge", LedgerPurge(store.clone()), PURGE_EVERY);
        let observer = LaneObserver::new(store, self.lane.clone());
        self.start_polling("lane_observer", observer, LANE_EVERY);
        Ok(())
    }
}
