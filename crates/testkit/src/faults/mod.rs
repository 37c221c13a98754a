//! Faults that the program must survive. [`chaos`] breaks processes, PostgreSQL and connections during deliveries,
//! [`order_chaos`] breaks these and the broker during orders, [`outage`] stops PostgreSQL temporarily, and [`failover`]
//! kills the primary server of a cluster. Each of them runs a [`Fleet`](crate::fleet::Fleet) under load, and then
//! compares the acknowledged work with the actual outcome.

use std::fmt;

pub mod acceptor;
pub mod chaos;
pub mod failover;
pub mod order_chaos;
pub mod outage;
mod poster;

/// A violation: the rule, and the rows or requests that violate it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint<R> {
    pub rule: R,
    pub about: String,
}

impl<R: fmt::Debug> fmt::Display for Complaint<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.about)
    }
}

/// Panics if there are violations, after writing the logs of the run to a file that the message names.
fn conclude(name: &str, complaints: &[String], logs: &[String]) {
    if complaints.is_empty() {
        return;
    }
    let path = std::env::temp_dir().join(format!("posthaste-{name}.log"));
    std::fs::write(&path, logs.join("\n")).expect("to keep the logs");
    let first: Vec<_> = complaints.iter().take(20).collect();
    panic!("{} violations (logs: {}), the first: {first:#?}", complaints.len(), path.display());
}
