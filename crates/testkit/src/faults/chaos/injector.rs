//! Injects the faults of a plan at their scheduled times and records when each fault started and ended.

use super::evidence::Disturbance;
use super::plan::{Fault, Planned};
use crate::fleet::{Fleet, Role};
use crate::private_server::PrivateServer;
use crate::proxy::Proxy;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

/// An injected fault.
#[derive(Debug)]
pub struct Made {
    pub fault: Fault,
    /// The name of the affected process; empty if the fault affects the server.
    pub name: String,
    pub from: Duration,
    pub until: Duration,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, until) = (self.from.as_secs_f64(), self.until.as_secs_f64());
        write!(f, "{from:7.2} s to {until:7.2} s  {}", format!("{} {}", self.name, self.fault).trim())
    }
}

#[derive(Debug)]
pub struct Injector<'a> {
    server: &'a PrivateServer,
    fleet: &'a mut Fleet,
    /// The proxy of the client that inserts events directly. A fault that cuts a commit also cuts one there.
    acceptor: Option<&'a Proxy>,
    began: Instant,
    server_runs: bool,
    made: Vec<Made>,
}

/// A step of the injection. The steps are executed in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// The planned fault with this index starts.
    Begins(usize),
    /// The injected fault with this index ends.
    Ends(usize),
}

impl<'a> Injector<'a> {
    pub fn new(
        server: &'a PrivateServer,
        fleet: &'a mut Fleet,
        acceptor: Option<&'a Proxy>,
        began: Instant,
    ) -> Self {
        Self { server, fleet, acceptor, began, server_runs: true, made: Vec::new() }
    }

    /// Injects all faults of the plan and returns them. All processes are running again when it returns.
    pub async fn run(mut self, plan: &[Planned]) -> Vec<Made> {
        let mut edges: BTreeSet<(Duration, Edge)> =
            plan.iter().enumerate().map(|(number, planned)| (planned.at, Edge::Begins(number))).collect();
        while let Some((at, edge)) = edges.pop_first() {
            tokio::time::sleep_until((self.began + at).into()).await;
            match edge {
                Edge::Begins(number) => {
                    // The fault lasts as long as planned, even if it started late.
                    if let Some(made) = self.begin(plan[number].fault) {
                        edges.insert((self.began.elapsed() + plan[number].lasts, Edge::Ends(made)));
                    }
                }
                Edge::Ends(made) => self.end(made),
            }
        }
        self.made
    }

    fn name(&self, fault: Fault) -> String {
        match fault {
            Fault::KillServer => String::new(),
            Fault::Kill(place) | Fault::Freeze(place) | Fault::CutCommit(place) => {
                self.fleet.members[place].process.name.clone()
            }
        }
    }

    /// Starts a fault and returns its index in `made`, or `None` if its target is already down.
    fn begin(&mut self, fault: Fault) -> Option<usize> {
        let from = self.began.elapsed();
        match fault {
            Fault::Kill(place) => {
                let process = &mut self.fleet.members[place].process;
                if !process.is_running() {
                    return None;
                }
                process.kill();
            }
            Fault::KillServer => {
                if !std::mem::take(&mut self.server_runs) {
                    return None;
                }
                block_in_place(|| self.server.kill());
            }
            Fault::Freeze(place) => {
                let process = &mut self.fleet.members[place].process;
                if !process.is_running() {
                    return None;
                }
                process.freeze();
            }
            Fault::CutCommit(place) => {
                self.fleet.members[place].wire.as_ref().expect("a wire").trip();
                if let Some(acceptor) = self.acceptor {
                    acceptor.trip();
                }
            }
        }
        let until = self.began.elapsed();
        self.made.push(Made { fault, name: self.name(fault), from, until });
        Some(self.made.len() - 1)
    }

    fn end(&mut self, made: usize) {
        match self.made[made].fault {
            Fault::Kill(place) => self.fleet.restart(place),
            Fault::KillServer => {
                block_in_place(|| self.server.pg_ctl(&["start"]));
                self.server_runs = true;
            }
            Fault::Freeze(place) => self.fleet.members[place].process.thaw(),
            Fault::CutCommit(_) => return,
        }
        self.made[made].until = self.began.elapsed();
    }
}

/// Returns the faults during which a worker may lose its leases. Faults of other processes cannot cause that.
pub fn disturbances(made: &[Made], fleet: &Fleet, began: Instant) -> Vec<Disturbance> {
    let is_worker = |place: usize| fleet.members[place].role == Role::Worker;
    let mut all: Vec<Disturbance> = Vec::new();
    for one in made {
        // A killed process loses its leases immediately, not when it is replaced.
        let (counts, server, until) = match one.fault {
            Fault::Kill(place) => (is_worker(place), false, one.from),
            Fault::Freeze(place) => (is_worker(place), false, one.until),
            Fault::KillServer => (true, true, one.until),
            // Counted below, at the time of the actual break.
            Fault::CutCommit(_) => (false, false, one.until),
        };
        if counts {
            all.push(Disturbance { from: one.from, until, server });
        }
    }
    for place in fleet.places(Role::Worker) {
        for at in fleet.members[place].wire.iter().flat_map(Proxy::breaks) {
            let at = at.saturating_duration_since(began);
            all.push(Disturbance { from: at, until: at, server: false });
        }
    }
    all
}
