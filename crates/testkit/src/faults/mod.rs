//! What the program must survive: [`chaos`] breaks processes, PostgreSQL and connections under deliveries, [`order_chaos`]
//! the same and the broker under orders, [`outage`] takes PostgreSQL away for a while. Each runs a
//! [`Fleet`](crate::fleet::Fleet) under load, and a checker compares what was acknowledged with what happened.

use std::fmt;

pub mod acceptor;
pub mod chaos;
pub mod order_chaos;
pub mod outage;

/// What a checker found wrong: the rule that was broken, and by what.
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

/// Fails if there is a complaint, and keeps the logs of the run in a file that the failure names.
fn conclude(name: &str, complaints: &[String], logs: &[String]) {
    if complaints.is_empty() {
        return;
    }
    let path = std::env::temp_dir().join(format!("posthaste-{name}.log"));
    std::fs::write(&path, logs.join("\n")).expect("to keep the logs");
    let first: Vec<_> = complaints.iter().take(20).collect();
    panic!("{} complaints (logs: {}), the first: {first:#?}", complaints.len(), path.display());
}
