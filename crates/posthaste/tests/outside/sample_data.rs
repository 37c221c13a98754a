//! Creates one hour of realistic history for the dashboard's pages and screenshots. It uses the store's ports with a
//! simulated clock and a seeded random generator, so every run produces the same content. [`super::sample_api`] serves
//! it.

use crate::sample_orders;
use crate::sample_receivers::{FAILING, PAUSED, RECEIVERS, REFUNDS, Receiver, TRIAL};
use posthaste_core::audit::Actor;
use posthaste_core::event::{CorrelationId, NewEvent};
use posthaste_core::health::{Attempts, interval_start};
use posthaste_core::outcome::AttemptOutcome;
use posthaste_core::ports::{
    Claim, ClaimedJob, DeadLetterStore as _, HealthSum, IngestStore as _, JobReport, KeyRole, KeyStore as _,
    OrchestratorStore as _, PresenceStore as _, ProcessSeen, Quota, Rollup, RollupWidth, Stores,
    SubscriptionStore as _, WorkerStore as _,
};
use posthaste_core::saga::Decision;
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_core::{DeadLetterId, LeaseToken, SubscriptionId, Timestamp, WorkerId, latency};
use posthaste_testkit::fixtures::{MANY, POLICY, claim, delivered, json, named_event, subscribe_verified};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::random::Random;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// The end of the history and the time that all pages show: 2026-11-16 14:00:00 UTC.
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_794_837_600_000_000);
pub(crate) const VERSION: &str = "0.1.0";
/// The name of the sample process: host name, process id and random suffix.
const PROCESS: &str = "hooks-1-2741-8c1f20b4";
/// The name of the process on the same host before the restart at [`RESTART_S`].
const PROCESS_BEFORE: &str = "hooks-1-1880-e07b93aa";
const RESTART_S: u64 = 480;
const STEP: Duration = Duration::from_secs(10);
const STEPS: u64 = 360;
/// The second at which the operator pauses the subscription whose receiver is down.
const PAUSED_S: u64 = 2_640;
/// The second at which the first dead letter is requeued. The new delivery fails again.
const REQUEUED_S: u64 = 3_000;
/// The event rate in each five-minute interval, in percent of the average.
const RATE_PERCENT: [u64; 12] = [70, 80, 90, 100, 120, 140, 130, 110, 100, 120, 90, 80];

/// Returns the time `seconds` after the start of the simulated hour.
pub(crate) fn second(seconds: u64) -> Timestamp {
    NOW.before(STEP * 360).after(Duration::from_secs(seconds))
}

/// Returns the id of the process that runs at `now`.
pub(crate) fn process(now: Timestamp) -> WorkerId {
    let name = if now < second(RESTART_S) { PROCESS_BEFORE } else { PROCESS };
    WorkerId::parse(name).expect("a process id")
}

/// The ids of the objects whose pages the tests open.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) failing: SubscriptionId,
    pub(crate) deleted: SubscriptionId,
}

/// Creates the whole history and returns the ids that the tests need.
pub(crate) async fn create<S: Stores>(h: &Harness<S>) -> Samples {
    let (on_call, alice) = create_keys(h).await;
    let created_at = NOW.before(Duration::from_secs(3 * 86_400));
    let mut ids = Vec::new();
    for (place, receiver) in RECEIVERS.iter().enumerate() {
        let new = receiver.subscription();
        ids.push(
            subscribe_verified(&h.store, new, created_at.after(Duration::from_secs(97 * place as u64))).await,
        );
    }
    let subscriptions = h.store.subscriptions();
    let deleted =
        subscribe_verified(&h.store, TRIAL.subscription(), created_at.after(Duration::from_secs(7_200)))
            .await;
    let end =
        subscriptions.delete_subscription(deleted, alice.clone(), NOW.before(Duration::from_secs(86_400)));
    assert!(end.await.expect("a deletion"));

    let mut simulation = Simulation::new(h, &ids);
    for step in 0..STEPS {
        if step * STEP.as_secs() == PAUSED_S {
            let patch = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
            let paused =
                subscriptions.update_subscription(ids[PAUSED], patch, None, alice.clone(), second(PAUSED_S));
            paused.await.expect("an update").subscription().expect("a subscription");
        }
        if step * STEP.as_secs() == REQUEUED_S {
            let letters = vec![DeadLetterId::from_store(1)];
            let requeue = h.store.dead_letters();
            requeue
                .requeue_dead_letters(letters, on_call.clone(), second(REQUEUED_S))
                .await
                .expect("a requeue");
        }
        simulation.step(step).await;
    }
    simulation.leave_a_backlog().await;
    let refunds = REFUNDS.subscription();
    subscriptions.create_subscription(refunds, alice, second(3_300)).await.expect("a subscription");
    Samples { failing: ids[FAILING], deleted }
}

/// Creates API keys and returns the actors for the operator and the administrator.
async fn create_keys<S: Stores>(h: &Harness<S>) -> (Actor, Actor) {
    let address = Some(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)));
    let at = NOW.before(Duration::from_secs(4 * 86_400));
    let create = async |name: &str, role| {
        let hash = posthaste_api::key_hash(&format!("the sample key {name}"));
        let key =
            h.store.keys().create_key(name.to_owned(), role, None, hash, Actor::root(address), at).await;
        Actor::key(key.expect("a key").id, name, address)
    };
    create("shop-backend", KeyRole::Ingest).await;
    (create("on-call", KeyRole::Operator).await, create("alice", KeyRole::Admin).await)
}

/// A claimed attempt that has not been reported yet.
struct InFlight {
    finished_at: Timestamp,
    report: JobReport,
}

/// A simulation that moves events through the pipeline in steps of ten seconds.
struct Simulation<'a, S: Stores> {
    h: &'a Harness<S>,
    ids: &'a [SubscriptionId],
    random: Random,
    events: u64,
    in_flight: Vec<InFlight>,
    /// The attempts per subscription in the current interval of the health statistics.
    health: BTreeMap<SubscriptionId, Attempts>,
    /// The counters of the current step.
    counters: BTreeMap<String, i64>,
}

impl<'a, S: Stores> Simulation<'a, S> {
    fn new(h: &'a Harness<S>, ids: &'a [SubscriptionId]) -> Self {
        let (health, counters) = (BTreeMap::new(), BTreeMap::new());
        Self { h, ids, random: Random::new(18), events: 0, in_flight: Vec::new(), health, counters }
    }

    async fn step(&mut self, step: u64) {
        let start = second(step * STEP.as_secs());
        let now = start.after(Duration::from_millis(500 + self.random.below(6_000)));
        self.report(now).await;
        self.publish(step, now).await;
        self.h.route_all(now.after(Duration::from_millis(4))).await;
        let claimed_at = now.after(Duration::from_millis(9));
        self.attempt(claimed_at).await;
        // Fast attempts are reported in the same step, slow ones in a later step.
        self.report(now.after(Duration::from_millis(900))).await;
        sample_orders::step(self.h, step, now, &mut self.counters).await;
        self.report_presence(start, now.after(Duration::from_secs(1))).await;
        if (step + 1).is_multiple_of(60) {
            self.report_health(start).await;
        }
    }

    fn count(&mut self, counter: &str, amount: i64) {
        *self.counters.entry(counter.to_owned()).or_default() += amount;
    }

    async fn publish(&mut self, step: u64, now: Timestamp) {
        let percent = RATE_PERCENT[usize::try_from(step / 30).expect("an index")];
        let mut events = Vec::new();
        for Receiver { event_type, per_hour, .. } in &RECEIVERS {
            if self.random.below(STEPS * 100) < per_hour * percent {
                events.push(self.event(event_type));
            }
        }
        self.count("events_accepted", i64::try_from(events.len()).expect("a count"));
        if !events.is_empty() {
            self.h.store.ingest().insert_events(vec![events], now).await.expect("events");
        }
    }

    fn event(&mut self, event_type: &str) -> NewEvent {
        self.events += 1;
        let (number, customer) = (20_000 + self.events, 4_000 + self.random.below(900));
        let (units, cents) = (10 + self.random.below(240), self.random.below(100));
        let payload = match event_type.split_once('.').map_or("", |(object, _)| object) {
            "customer" => format!(r#"{{"customer_id":"C-{customer}","country":"DE","newsletter":true}}"#),
            "stock" => format!(r#"{{"sku":"SKU-{customer}","warehouse":"HAM-2","on_hand":{}}}"#, units % 9),
            "shipment" => {
                format!(r#"{{"shipment_id":"S-{number}","order_id":"O-{number}","carrier":"GlobalPost"}}"#)
            }
            _ => format!(
                r#"{{"order_id":"O-{number}","customer_id":"C-{customer}","total":{units}.{cents:02}}}"#
            ),
        };
        let correlation = CorrelationId::parse(format!("checkout-{number}")).expect("a correlation id");
        NewEvent {
            payload: json(&payload),
            correlation_id: Some(correlation),
            ..named_event(event_type, &format!("shop-{number}"))
        }
    }

    /// Admits and claims all due deliveries, and determines when each attempt ends and with which outcome.
    async fn attempt(&mut self, now: Timestamp) {
        let quota = |id: &SubscriptionId| Quota { subscription_id: *id, jobs_max: MANY, from: None };
        let quotas = self.ids.iter().map(quota).collect();
        self.h.store.orchestrator().admit_due_sagas(quotas, POLICY, now).await.expect("admission");
        let claim = Claim { worker_id: process(now), ..claim(MANY) };
        let token = claim.token;
        for job in self.h.claim_all(&claim, now).await {
            let in_flight = self.send(&job, token, now);
            self.in_flight.push(in_flight);
        }
    }

    fn send(&mut self, job: &ClaimedJob, token: LeaseToken, now: Timestamp) -> InFlight {
        let place = self.ids.iter().position(|id| *id == job.subscription_id).expect("a subscription");
        let minute = now.since(second(0)).as_secs() / 60;
        let (outcome, ms) = RECEIVERS[place].behavior.respond(self.random.below(100), minute, job.attempt);
        let duration = Duration::from_millis(ms);
        let finished_at = now.after(duration);
        let health = self.health.entry(job.subscription_id).or_default();
        let outcome = match outcome {
            Ok(status) => {
                health.succeed(duration);
                AttemptOutcome::Delivered { status }
            }
            Err((failure, status)) => {
                health.fail(failure.code(), finished_at);
                AttemptOutcome::Failed { failure, status, retry_after: None }
            }
        };
        InFlight { finished_at, report: JobReport { job_id: job.job_id, token, outcome, duration } }
    }

    /// Reports the attempts that have finished by `now` and applies their results.
    async fn report(&mut self, now: Timestamp) {
        let (finished, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|one| one.finished_at <= now);
        self.in_flight = rest;
        let Some(last) = finished.iter().map(|one| one.finished_at).max() else { return };
        let reports = finished.into_iter().map(|one| one.report).collect();
        self.h.store.worker().report_jobs(reports, last).await.expect("reports");
        for result in self.h.apply_all(last).await {
            self.count(if result.error_code.is_none() { "attempts_ok" } else { "attempts_failed" }, 1);
            match result.decision {
                Decision::Complete { .. } => {
                    self.count("deliveries_completed", 1);
                    let took = last.since(result.saga_created_at);
                    self.count(&latency::counter(latency::bucket(took)), 1);
                }
                Decision::Retry { .. } => self.count("deliveries_retried", 1),
                Decision::DeadLetter { .. } => self.count("deliveries_dead_lettered", 1),
                Decision::StartAttempt { .. } | Decision::Ignore(_) => panic!("{result:?}"),
            }
        }
    }

    /// Reports the presence of the process, with the counters of the step that began at `start`.
    async fn report_presence(&mut self, start: Timestamp, now: Timestamp) {
        let interval_start = RollupWidth::TenSeconds.start_of(start);
        let rollup = |(counter, amount)| Rollup { interval_start, counter, amount };
        let mut rollups: Vec<Rollup> = std::mem::take(&mut self.counters).into_iter().map(rollup).collect();
        let started_at = if now < second(RESTART_S) {
            NOW.before(Duration::from_secs(4 * 86_400))
        } else {
            second(RESTART_S)
        };
        for role in ["api", "router", "orchestrator", "worker", "cleaner", "outbox"] {
            let seen = ProcessSeen {
                process_id: process(now),
                role: role.to_owned(),
                version: VERSION.to_owned(),
                started_at,
                seen_at: now,
            };
            let rollups = std::mem::take(&mut rollups);
            self.h.store.presence().report_presence(seen, rollups).await.expect("a report");
        }
    }

    async fn report_health(&mut self, now: Timestamp) {
        let interval_start = interval_start(now);
        let sums = std::mem::take(&mut self.health).into_iter();
        let sums =
            sums.map(|(subscription_id, attempts)| HealthSum { subscription_id, interval_start, attempts });
        self.h.store.presence().report_health(sums.collect(), now).await.expect("a report");
    }

    /// Creates a backlog at every stage of the pipeline: deliveries in flight, due deliveries, and events not yet
    /// routed.
    async fn leave_a_backlog(&mut self) {
        for (age_ms, types) in [
            (1_800, ["shipment.delivered", "shipment.delivered", "shipment.delivered"]),
            (420, ["order.created", "order.paid", "customer.updated"]),
            (150, ["invoice.issued", "order.shipped", "order.created"]),
        ] {
            let now = NOW.before(Duration::from_millis(age_ms));
            let events = types.iter().map(|event_type| self.event(event_type)).collect();
            self.h.store.ingest().insert_events(vec![events], now).await.expect("events");
            if age_ms > 200 {
                self.h.route_all(now.after(Duration::from_millis(5))).await;
            }
            if age_ms > 1_000 {
                self.attempt(now.after(Duration::from_millis(9))).await;
            }
        }
    }
}

/// Starts attempts for the due deliveries of one subscription. Two thirds of them succeed, and the rest stay in flight.
pub(crate) async fn recover<S: Stores>(h: &Harness<S>, subscription: SubscriptionId) {
    let (jobs, token) = h.start_attempts(subscription, NOW).await;
    let jobs: Vec<_> = jobs.iter().filter(|job| job.subscription_id == subscription).collect();
    let reports = jobs.iter().take(jobs.len() * 2 / 3).map(|job| delivered(job, token)).collect();
    h.store.worker().report_jobs(reports, NOW).await.expect("reports");
    h.apply_all(NOW).await;
}
