//! Checks the evidence from a run and returns the violations. Does not depend on how the run was produced.
//!
//! For each pair of event and subscription, the requests in excess of its job rows are called "extra". Two bounds
//! apply to them:
//!
//! 1. extra ≤ the disturbances during the pair's leases. The database does not keep leases that have ended, but
//!    every request was sent under a lease that started at most one lease length before the request and ended at
//!    most one lease length after it. A disturbance counts if it overlaps that span for any request of the pair.
//!    Without a disturbance, no request may be extra.
//! 2. extra ≤ the lease resets of the pair's jobs + the server kills during its leases. A job is sent again only
//!    after the cleaner has reset its lease, which is counted, or after the server has lost the lease in a crash,
//!    which is not. (A lease released at shutdown would count too, but no process is shut down in a chaos run.)

use super::evidence::{Evidence, JobRow, Pair, Request, SagaRow};
use crate::faults::Complaint;
use std::collections::HashMap;

/// The rule that was violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// An acknowledged event has no saga for a subscription that it matches.
    SagaMissing,
    SagaTwice,
    /// There is a saga or a request for an unexpected pair of event and subscription.
    Unasked,
    SagaUnfinished,
    /// A saga is completed, but the receiver never responded with 2xx.
    CompletedUnanswered,
    /// A dead-lettered saga does not have exactly one dead letter, or another saga has one.
    DeadLetters,
    /// A job is still `Pending` or `Leased` at the end.
    JobActive,
    TwoJobsActive,
    /// The `attempt_count` of a saga is not the number of its finished jobs.
    AttemptCount,
    /// There are more requests than the disturbances explain.
    ExtraBeyondDisturbances,
    /// There are more requests than the lost leases explain.
    ExtraBeyondLeases,
    /// A queue is not empty at the end.
    LeftOver,
}

/// Returns all violations.
pub fn check(evidence: &Evidence) -> Vec<Complaint<Rule>> {
    let mut checker = Checker::new(evidence);
    checker.check_pairs();
    evidence.sagas.iter().for_each(|saga| checker.check_saga(saga));
    checker.check_left_over();
    checker.complaints
}

/// Returns the total number of requests in excess of the job rows.
pub fn extra_requests(evidence: &Evidence) -> usize {
    let checker = Checker::new(evidence);
    evidence.sagas.iter().map(|saga| checker.extra(saga)).sum()
}

struct Checker<'a> {
    evidence: &'a Evidence,
    sagas: HashMap<Pair, usize>,
    jobs: HashMap<i64, Vec<&'a JobRow>>,
    letters: HashMap<i64, usize>,
    requests: HashMap<Pair, Vec<&'a Request>>,
    complaints: Vec<Complaint<Rule>>,
}

impl<'a> Checker<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        let mut checker = Self {
            evidence,
            sagas: HashMap::new(),
            jobs: HashMap::new(),
            letters: HashMap::new(),
            requests: HashMap::new(),
            complaints: Vec::new(),
        };
        evidence.sagas.iter().for_each(|saga| *checker.sagas.entry(saga.pair).or_default() += 1);
        evidence.jobs.iter().for_each(|job| checker.jobs.entry(job.saga_id).or_default().push(job));
        evidence.dead_letters.iter().for_each(|saga| *checker.letters.entry(*saga).or_default() += 1);
        evidence.requests.iter().for_each(|one| checker.requests.entry(one.pair).or_default().push(one));
        checker
    }

    fn complain(&mut self, rule: Rule, about: String) {
        self.complaints.push(Complaint { rule, about });
    }

    fn check_pairs(&mut self) {
        for pair in &self.evidence.expected {
            match self.sagas.get(pair) {
                Some(1) => {}
                None => self.complain(Rule::SagaMissing, format!("{pair:?}")),
                Some(count) => {
                    let about = format!("{pair:?} has {count}");
                    self.complain(Rule::SagaTwice, about);
                }
            }
        }
        let mut known: Vec<Pair> = self.sagas.keys().chain(self.requests.keys()).copied().collect();
        known.sort_unstable();
        known.dedup();
        for pair in known.iter().filter(|pair| !self.evidence.expected.contains(pair)) {
            self.complain(Rule::Unasked, format!("{pair:?}"));
        }
    }

    fn check_saga(&mut self, saga: &SagaRow) {
        let letters = self.letters.get(&saga.id).copied().unwrap_or_default();
        let letters_due = usize::from(saga.status == "DeadLettered");
        if letters != letters_due {
            self.complain(Rule::DeadLetters, format!("{saga:?} has {letters}"));
        }
        if !["Completed", "DeadLettered"].contains(&saga.status.as_str()) {
            self.complain(Rule::SagaUnfinished, format!("{saga:?}"));
        }
        let succeeded =
            |request: &&Request| request.answer.is_some_and(|status| (200..300).contains(&status));
        if saga.status == "Completed" && !self.requests_of(saga).iter().any(succeeded) {
            self.complain(Rule::CompletedUnanswered, format!("{saga:?}"));
        }
        self.check_jobs(saga);
        self.check_extra(saga);
    }

    fn check_jobs(&mut self, saga: &SagaRow) {
        let jobs = self.jobs_of(saga);
        let is_active = |job: &&&JobRow| ["Pending", "Leased"].contains(&job.status.as_str());
        let active = jobs.iter().filter(is_active).count();
        let finished = jobs.len() - active;
        if active > 0 {
            self.complain(Rule::JobActive, format!("{saga:?} has {active}"));
        }
        if active > 1 {
            self.complain(Rule::TwoJobsActive, format!("{saga:?} has {active}"));
        }
        if saga.attempt_count != finished as i64 {
            self.complain(Rule::AttemptCount, format!("{saga:?} has {finished} finished jobs"));
        }
    }

    fn check_extra(&mut self, saga: &SagaRow) {
        let (extra, requests) = (self.extra(saga), self.requests_of(saga));
        if extra == 0 {
            return;
        }
        let (lease, all) = (self.evidence.lease, &self.evidence.disturbances);
        let fell_inside = |from, until| {
            let overlaps =
                |request: &&Request| from <= request.at + lease && request.at.saturating_sub(lease) <= until;
            requests.iter().any(overlaps)
        };
        let inside: Vec<_> = all.iter().filter(|one| fell_inside(one.from, one.until)).collect();
        let (disturbances, kills) = (inside.len(), inside.iter().filter(|one| one.server).count());
        let resets: i64 = self.jobs_of(saga).iter().map(|job| job.lease_resets).sum();
        let times: Vec<f64> = requests.iter().map(|request| request.at.as_secs_f64()).collect();
        let about = format!(
            "{saga:?}: {extra} extra; requests at {times:?}, {resets} resets, {disturbances} disturbances, {kills} server kills"
        );
        if extra > disturbances {
            self.complain(Rule::ExtraBeyondDisturbances, about.clone());
        }
        if extra as i64 > resets + kills as i64 {
            self.complain(Rule::ExtraBeyondLeases, about);
        }
    }

    fn check_left_over(&mut self) {
        let Evidence { unrouted, unapplied, .. } = *self.evidence;
        if unrouted > 0 || unapplied > 0 {
            let about = format!("{unrouted} in routing_queue, {unapplied} in finished_jobs");
            self.complain(Rule::LeftOver, about);
        }
    }

    fn jobs_of(&self, saga: &SagaRow) -> &[&'a JobRow] {
        self.jobs.get(&saga.id).map_or(&[], Vec::as_slice)
    }

    fn requests_of(&self, saga: &SagaRow) -> &[&'a Request] {
        self.requests.get(&saga.pair).map_or(&[], Vec::as_slice)
    }

    fn extra(&self, saga: &SagaRow) -> usize {
        self.requests_of(saga).len().saturating_sub(self.jobs_of(saga).len())
    }
}

#[cfg(test)]
mod tests;
