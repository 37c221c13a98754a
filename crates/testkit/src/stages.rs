//! One delivery after another through the ports of one store, stage by stage, as the components would
//! call them; no HTTP, no waiting, one caller.

use crate::fixtures::{self, POLICY, claim, delivered, json, quota, subscribe_verified, subscription};
use crate::random::Random;
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{
    Claim, ClaimedJob, IngestStore as _, OrchestratorStore as _, Report, RequestOutcome, ResultTake,
    RouteTake, RouterStore as _, Stores, WorkerStore as _,
};
use posthaste_core::{LeaseToken, SubscriptionId, Timestamp};
use std::time::Duration;

const EVENT_TYPE: &str = "bench.delivered";
const PAYLOAD_BYTES: usize = 300;
/// Between two batches: the same on every machine, so that every run writes the same keys.
const TICK: Duration = Duration::from_millis(10);
/// A component starts where it last found something, and looks at everything this often.
const BATCHES_PER_FULL_PASS: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Insert,
    Route,
    Admit,
    Claim,
    Load,
    Report,
    Apply,
}

impl Stage {
    pub const ALL: [Self; 7] =
        [Self::Insert, Self::Route, Self::Admit, Self::Claim, Self::Load, Self::Report, Self::Apply];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert events",
            Self::Route => "route",
            Self::Admit => "admit",
            Self::Claim => "claim",
            Self::Load => "load events and targets",
            Self::Report => "report",
            Self::Apply => "apply",
        }
    }

    /// The name in the JSON document.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Insert => "insert_events",
            Self::Route => "route_events",
            Self::Admit => "admit_due_sagas",
            Self::Claim => "claim_due_jobs",
            Self::Load => "load_events_and_targets",
            Self::Report => "report_jobs",
            Self::Apply => "apply_job_results",
        }
    }
}

/// A store with one subscription, and where its components stand.
#[derive(Debug)]
pub struct Pipeline<S> {
    store: S,
    subscription: SubscriptionId,
    batch: u32,
    now: Timestamp,
    random: Random,
    passes: u32,
    route: RouteTake,
    apply: ResultTake,
    claim_from: Option<Timestamp>,
    claimed: Vec<(LeaseToken, Vec<ClaimedJob>)>,
}

impl<S: Stores> Pipeline<S> {
    pub async fn new(store: S, batch: u32) -> Self {
        let now = store.now().await.expect("the time");
        let id = subscribe_verified(&store, subscription(EVENT_TYPE), now).await;
        Self {
            store,
            subscription: id,
            batch,
            now,
            random: Random::new(u64::from(batch)),
            passes: 0,
            route: RouteTake { from: None, events_max: batch },
            apply: ResultTake { from: None, results_max: batch },
            claim_from: None,
            claimed: Vec::new(),
        }
    }

    /// Runs one stage over `batches` batches; every one must be full.
    pub async fn run(&mut self, stage: Stage, batches: u32) {
        for _ in 0..batches {
            self.now = self.now.after(TICK);
            match stage {
                Stage::Insert => self.insert().await,
                Stage::Route => self.route().await,
                Stage::Admit => self.admit().await,
                Stage::Claim => self.claim().await,
                Stage::Load | Stage::Report => break,
                Stage::Apply => self.apply().await,
            }
        }
        match stage {
            Stage::Load => self.load().await,
            Stage::Report => self.report().await,
            Stage::Insert | Stage::Route | Stage::Admit | Stage::Claim | Stage::Apply => {}
        }
    }

    async fn insert(&mut self) {
        // One event a request: what many callers post at once.
        let requests = (0..self.batch).map(|_| vec![event(&mut self.random)]).collect();
        let outcomes = self.store.ingest().insert_events(requests, self.now).await.expect("events");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, RequestOutcome::Stored(_))));
    }

    async fn route(&mut self) {
        self.passes += 1;
        if self.passes.is_multiple_of(BATCHES_PER_FULL_PASS) {
            self.route.from = None;
            self.apply.from = None;
            self.claim_from = None;
        }
        let routed = self.store.router().route_events(self.route, self.now).await.expect("routing");
        assert_eq!((routed.events, routed.pairs), (self.batch, self.batch));
        self.route.from = routed.lowest;
    }

    async fn admit(&mut self) {
        let quotas = quota(self.subscription, self.batch);
        let orchestrator = self.store.orchestrator();
        let admitted = orchestrator.admit_due_sagas(quotas, POLICY, self.now).await.expect("admission");
        assert_eq!(admitted.jobs.len(), self.batch as usize);
    }

    async fn claim(&mut self) {
        let token = LeaseToken::from_random(self.random.bits128());
        let claim = Claim { token, from: self.claim_from, ..claim(self.batch) };
        let jobs = self.store.worker().claim_due_jobs(claim, self.now).await.expect("a claim");
        assert_eq!(jobs.len(), self.batch as usize);
        self.claim_from = jobs.iter().map(|job| job.claimable_since).min();
        self.claimed.push((token, jobs));
    }

    async fn load(&mut self) {
        let worker = self.store.worker();
        for (_, jobs) in &self.claimed {
            let events = jobs.iter().map(|job| job.event_id).collect();
            assert_eq!(worker.load_events(events).await.expect("events").len(), jobs.len());
            let targets = worker.load_targets(vec![self.subscription]).await.expect("targets");
            assert_eq!(targets.len(), 1);
        }
    }

    async fn report(&mut self) {
        for (token, jobs) in std::mem::take(&mut self.claimed) {
            self.now = self.now.after(TICK);
            let reports = jobs.iter().map(|job| delivered(job, token)).collect();
            let answers = self.store.worker().report_jobs(reports, self.now).await.expect("reports");
            assert!(answers.iter().all(|answer| *answer == Report::Accepted));
        }
    }

    async fn apply(&mut self) {
        let orchestrator = self.store.orchestrator();
        let applied = orchestrator.apply_job_results(self.apply, POLICY, self.now).await.expect("results");
        assert_eq!(applied.len(), self.batch as usize);
        self.apply.from = applied.iter().map(|result| result.job_id).min();
    }
}

/// An event like a shop's, [`PAYLOAD_BYTES`] long; no two alike.
fn event(random: &mut Random) -> NewEvent {
    let mut payload = format!(
        r#"{{"order_id":"{:032x}","customer":{},"currency":"EUR","total":{}.{:02},"lines":["#,
        random.bits128(),
        random.below(1_000_000),
        random.below(1_000),
        random.below(100)
    );
    while payload.len() < PAYLOAD_BYTES - 40 {
        payload.push_str(&format!(
            r#"{{"sku":"{:08x}","qty":{}}},"#,
            random.below(1 << 32),
            random.below(10)
        ));
    }
    payload.push_str("null]}");
    NewEvent { payload: json(&payload), ..fixtures::event(EVENT_TYPE) }
}
