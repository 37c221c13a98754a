//! Checks the evidence from a run and returns the violations. Does not depend on how the run was produced.
//!
//! The broker identifies an order by its `Idempotency-Key` header, so executing it once depends on Posthaste:
//! every request for an order must carry the same key and body, and no other order may carry them. The body also
//! contains a unique number, which reveals an execution under a second key.
//!
//! Two rules limit the requests:
//!
//! 1. A key is sent at most as often as it was claimed. Each claim is a row in the audit.
//! 2. No request arrives after its order has finished, with two exceptions: a request in progress when its sender was
//!    killed may arrive up to one request timeout later, and a request whose sender was frozen while the order
//!    finished may arrive when the sender resumes, because nothing is checked between reading the clock and
//!    writing the first byte.

use super::evidence::{AuditRow, Evidence, OrderRow};
use crate::broker::accounts::Sent;
use crate::faults::Complaint;
use std::collections::{BTreeMap, BTreeSet};

/// The rule that was violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// An order was acknowledged but is not stored.
    OrderMissing,
    /// An order was acknowledged as new more than once.
    AcceptedTwice,
    /// There is an order, a request or an execution with a key that was not submitted.
    Unasked,
    Unfinished,
    /// An order is `sent`, but the broker never executed it.
    SentUnexecuted,
    /// An order is `dead` without `maybe_executed`, but the broker executed it.
    DeadYetExecuted,
    ExecutedTwice,
    /// A request lacks its key, or its body differs from the order.
    BodyChanged,
    SentBeyondClaims,
    SentAfterEnd,
    /// The audit does not lead to the current state of the order.
    AuditBroken,
}

/// Returns all violations.
pub fn check(evidence: &Evidence) -> Vec<Complaint<Rule>> {
    let mut checker = Checker::new(evidence);
    checker.check_submissions();
    checker.check_executions();
    evidence.orders.iter().for_each(|order| checker.check_order(order));
    checker.complaints
}

struct Checker<'a> {
    evidence: &'a Evidence,
    audit: BTreeMap<&'a str, Vec<&'a AuditRow>>,
    sends: BTreeMap<&'a str, Vec<&'a Sent>>,
    complaints: Vec<Complaint<Rule>>,
}

impl<'a> Checker<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        let mut audit: BTreeMap<&str, Vec<&AuditRow>> = BTreeMap::new();
        evidence.audit.iter().for_each(|row| audit.entry(&row.key).or_default().push(row));
        let mut sends: BTreeMap<&str, Vec<&Sent>> = BTreeMap::new();
        for send in &evidence.books.sent {
            sends.entry(send.key.as_deref().unwrap_or_default()).or_default().push(send);
        }
        Self { evidence, audit, sends, complaints: Vec::new() }
    }

    fn complain(&mut self, rule: Rule, about: String) {
        self.complaints.push(Complaint { rule, about });
    }

    fn check_submissions(&mut self) {
        let evidence = self.evidence;
        let stored: BTreeSet<&str> = evidence.orders.iter().map(|order| order.key.as_str()).collect();
        for (key, responses) in &evidence.responses {
            if responses.new + responses.same > 0 && !stored.contains(key.as_str()) {
                self.complain(Rule::OrderMissing, format!("{key}: {responses:?}"));
            }
            if responses.new > 1 {
                self.complain(Rule::AcceptedTwice, format!("{key}: {responses:?}"));
            }
        }
        let executed = evidence.books.executed.iter().map(|one| one.key.as_str());
        let known: BTreeSet<&str> =
            stored.iter().copied().chain(self.sends.keys().copied()).chain(executed).collect();
        for key in known.into_iter().filter(|key| !evidence.responses.contains_key(*key)) {
            self.complain(Rule::Unasked, key.to_owned());
        }
    }

    fn check_executions(&mut self) {
        let (mut by_key, mut by_order) = (BTreeSet::new(), BTreeSet::new());
        for one in &self.evidence.books.executed {
            let again = one.order.is_some_and(|order| !by_order.insert(order));
            if !by_key.insert(one.key.as_str()) || again {
                self.complain(Rule::ExecutedTwice, format!("{one:?}"));
            }
        }
    }

    fn check_order(&mut self, order: &'a OrderRow) {
        let executed = self.evidence.books.executed.iter().any(|one| one.key == order.key);
        match order.status.as_str() {
            "sent" if !executed => self.complain(Rule::SentUnexecuted, format!("{order:?}")),
            "dead" if executed && !order.maybe_executed => {
                self.complain(Rule::DeadYetExecuted, format!("{order:?}"));
            }
            "sent" | "dead" => {}
            _ => self.complain(Rule::Unfinished, format!("{order:?}")),
        }
        let audit = self.audit.get(order.key.as_str()).cloned().unwrap_or_default();
        let sends = self.sends.get(order.key.as_str()).cloned().unwrap_or_default();
        if !leads_to(&audit, order) {
            self.complain(Rule::AuditBroken, format!("{order:?}: {audit:?}"));
        }
        self.check_sends(order, &audit, &sends);
    }

    fn check_sends(&mut self, order: &OrderRow, audit: &[&AuditRow], sends: &[&Sent]) {
        for send in sends {
            let is_whole = send.body_key == send.key && send.body_digest == order.request_digest;
            if !is_whole {
                self.complain(Rule::BodyChanged, format!("{order:?}: {send:?}"));
            }
        }
        let claims = audit.iter().filter(|row| row.to == "sending").count();
        if sends.len() > claims {
            self.complain(Rule::SentBeyondClaims, format!("{order:?}: {claims} claims, {sends:?}"));
        }
        let end = audit.last().filter(|row| ["sent", "dead"].contains(&row.to.as_str()));
        for send in sends {
            if end.is_none_or(|end| self.may_come(send, end.at_us)) {
                continue;
            }
            self.complain(Rule::SentAfterEnd, format!("{order:?}: {send:?}, {audit:?}"));
        }
    }

    /// Returns whether a request may arrive at its recorded time if the order finished at `ended_us`.
    fn may_come(&self, send: &Sent, ended_us: i64) -> bool {
        let late_us = self.evidence.request_timeout.as_micros() as i64;
        let was_frozen = |(from, until): &(i64, i64)| {
            *from <= ended_us && ended_us <= *until + late_us && send.at_us <= *until + late_us
        };
        send.at_us <= ended_us + late_us || self.evidence.freezes_us.iter().any(was_frozen)
    }
}

/// Returns whether the audit starts with the insert, has no gaps, and ends in the current state of the order.
fn leads_to(audit: &[&AuditRow], order: &OrderRow) -> bool {
    let begins = audit.first().is_some_and(|first| first.from.is_none() && first.to == "queued");
    let hangs = audit.windows(2).all(|pair| pair[1].from.as_ref() == Some(&pair[0].to));
    let ends = audit.last().is_some_and(|last| {
        (&last.to, last.retry_count, &last.last_error)
            == (&order.status, order.retry_count, &order.last_error)
    });
    begins && hangs && ends
}

#[cfg(test)]
mod tests;
