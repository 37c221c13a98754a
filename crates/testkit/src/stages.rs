//! Moves deliveries through the ports of one store, stage by stage, with the same calls as the components, but with a
//! single caller and without HTTP or delays.

use posthaste_bench::calls::Calls;
use posthaste_core::ports::{ClaimedJob, Stores};
use posthaste_core::{EventId, JobId, LeaseToken, Timestamp};
use std::time::Duration;

/// The advance of the clock between batches. It is constant, so that every run writes the same keys.
const TICK: Duration = Duration::from_millis(10);
/// The number of batches per full scan. All other reads start at the low-water mark.
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

    /// Returns the name of the stage in the JSON report.
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

/// A store with one subscription, and the low-water marks of its components.
#[derive(Debug)]
pub struct Pipeline<S> {
    calls: Calls<S>,
    batch: u32,
    now: Timestamp,
    inserted: u32,
    passes: u32,
    route_from: Option<EventId>,
    apply_from: Option<JobId>,
    claim_from: Option<Timestamp>,
    claimed: Vec<(LeaseToken, Vec<ClaimedJob>)>,
}

impl<S: Stores> Pipeline<S> {
    pub async fn new(store: S, batch: u32) -> Self {
        let now = store.now().await.expect("the time");
        Self {
            calls: Calls::new(store, batch).await.expect("a subscription"),
            batch,
            now,
            inserted: 0,
            passes: 0,
            route_from: None,
            apply_from: None,
            claim_from: None,
            claimed: Vec::new(),
        }
    }

    /// Runs a stage for `batches` batches. Panics if a batch is not full.
    pub async fn run(&mut self, stage: Stage, batches: u32) {
        for _ in 0..batches {
            self.now = self.now.after(TICK);
            match stage {
                Stage::Insert => {
                    self.calls.insert(self.inserted, self.now).await.expect("events");
                    self.inserted += self.batch;
                }
                Stage::Route => self.route().await,
                Stage::Admit => {
                    assert_eq!(self.calls.admit(self.now).await.expect("admission"), self.batch as usize);
                }
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

    async fn route(&mut self) {
        self.passes += 1;
        if self.passes.is_multiple_of(BATCHES_PER_FULL_PASS) {
            (self.route_from, self.apply_from, self.claim_from) = (None, None, None);
        }
        let routed = self.calls.route(self.route_from, self.now).await.expect("routing");
        assert_eq!((routed.events, routed.pairs), (self.batch, self.batch));
        self.route_from = routed.lowest;
    }

    async fn claim(&mut self) {
        let claimed = self.calls.claim(self.claim_from, self.batch, self.now).await.expect("a claim");
        assert_eq!(claimed.1.len(), self.batch as usize);
        self.claim_from = claimed.1.iter().map(|job| job.claimable_since).min();
        self.claimed.push(claimed);
    }

    async fn load(&mut self) {
        for (_, jobs) in &self.claimed {
            self.calls.load(jobs).await.expect("events and a target");
        }
    }

    async fn report(&mut self) {
        for (token, jobs) in std::mem::take(&mut self.claimed) {
            self.now = self.now.after(TICK);
            self.calls.report(token, &jobs, self.now).await.expect("reports");
        }
    }

    async fn apply(&mut self) {
        let (applied, lowest) = self.calls.apply(self.apply_from, self.now).await.expect("results");
        assert_eq!(applied, self.batch as usize);
        self.apply_from = lowest;
    }
}
