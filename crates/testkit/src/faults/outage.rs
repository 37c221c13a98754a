//! Stops PostgreSQL for a while and restarts it. Checks that no acknowledged event is lost or sent twice, that
//! the processes log little and use little CPU during the outage, and that they recover without intervention.

use crate::direct::Direct;
use crate::faults::acceptor::Acceptor;
use crate::faults::poster::Poster;
use crate::fleet::{Fleet, Role, Wiring, settings};
use crate::private_server::PrivateServer;
use crate::receiver::{Answer, Receiver};
use crate::subscribers::{parse_webhook_id, send_plain_ids, subscribe};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

const KIND: &str = "outage.event";
const API_KEY: &str = "the-root-key-of-the-broker-outage-run";
const ROLES: [(Role, usize); 5] =
    [(Role::Router, 1), (Role::Orchestrator, 1), (Role::Worker, 1), (Role::Cleaner, 1), (Role::Api, 1)];
/// The settings of all processes. Leases expire during the outage, after the requests in flight have been answered;
/// their reports must be written before the cleaner resets the leases.
const SETTINGS: [(&str, &str); 4] = [
    ("POSTHASTE_LEASE", "8s"),
    ("POSTHASTE_REQUEST_TIMEOUT", "3s"),
    ("POSTHASTE_CLEANER_INTERVAL", "200ms"),
    ("POSTHASTE_ROOT_KEY", API_KEY),
];
/// The log message for a failed API call. It is not counted, because every caller causes one.
const OF_A_CALLER: &str = "request failed";
const ANSWERS_AFTER: Duration = Duration::from_millis(500);
const EVENTS_PER_SECOND: usize = 40;
/// The number of deliveries that proves that all components work.
const SOME: usize = 50;
/// The maximum number of log lines per service or job: one when the outage starts, one when it ends, and one for a
/// fault that is reported twice.
const LINES_MAX: usize = 3;
const PATIENCE: Duration = Duration::from_secs(120);

/// The result of a run.
#[derive(Debug)]
pub struct OutageReport {
    pub away: Duration,
    pub acknowledged: usize,
    /// The time from the restart of the server to the first delivery.
    pub first_delivery: Duration,
    /// The maximum CPU time of a process during the outage.
    pub cpu_max: Duration,
    /// The maximum number of log lines from one service.
    pub lines_max: usize,
    /// The violations found; empty if the run passed.
    pub complaints: Vec<String>,
}

pub async fn run(away: Duration) -> OutageReport {
    let server = PrivateServer::start("outage");
    let store = server.migrated_store().await;
    send_plain_ids(&Direct::postgres(&server.url("postgres")).await).await;
    let receiver = Receiver::start(|_| Answer::Status(200).after(ANSWERS_AFTER)).await;
    subscribe(&store, KIND, &receiver.url("/"), None).await;
    let fleet = Fleet::start(&server, Wiring::Direct, &ROLES, &settings(&SETTINGS)).await;
    let acceptor = Acceptor::start(store, &[KIND], 1, EVENTS_PER_SECOND);
    let addresses: Vec<_> = fleet.members.iter().filter_map(|member| member.address).collect();
    let posters: Vec<_> = addresses.iter().map(|address| Poster::start(*address, API_KEY, KIND)).collect();
    receiver.wait_for(SOME).await;

    let said: Vec<usize> = fleet.members.iter().map(|member| member.process.lines().len()).collect();
    block_in_place(|| server.pg_ctl(&["stop", "-m", "fast"]));
    let used = cpu_of(&fleet);
    tokio::time::sleep(away).await;
    let used: Vec<Duration> =
        cpu_of(&fleet).iter().zip(used).map(|(after, before)| after.saturating_sub(before)).collect();
    let received = receiver.received().len();
    block_in_place(|| server.pg_ctl(&["start"]));
    let back = Instant::now();
    receiver.wait_for(received + 1).await;
    let first_delivery = back.elapsed();
    receiver.wait_for(received + SOME).await;
    let mut events = acceptor.end().await.events;
    let mut refused = 0;
    for poster in posters {
        let posted = poster.end().await;
        refused += posted.repeated;
        events.extend(posted.events);
    }
    settle(&server).await;

    let lines = lines_of(&fleet, &said);
    let cpu_max = used.into_iter().max().unwrap_or_default();
    let lines_max = lines.values().map(Vec::len).max().unwrap_or_default();
    let mut complaints: Vec<String> = fleet.ended().iter().map(|name| format!("{name} exited")).collect();
    if lines_max > LINES_MAX {
        complaints.push(format!("too many log lines: {lines:#?}"));
    }
    if refused == 0 {
        complaints.push("no API call failed during the outage, so its logging was not tested".to_owned());
    }
    // A process that retries without a pause would use a whole processor.
    if cpu_max > away / 2 {
        complaints.push(format!("a process used {cpu_max:?} of CPU during an outage of {away:?}"));
    }
    complaints.extend(not_once(&events, &receiver));
    let acknowledged = events.len();
    OutageReport { away, acknowledged, first_delivery, cpu_max, lines_max, complaints }
}

fn cpu_of(fleet: &Fleet) -> Vec<Duration> {
    fleet.members.iter().map(|member| member.process.cpu_time()).collect()
}

/// Returns the log lines of each service and each job of each process, without the first `known` lines of the process.
fn lines_of(fleet: &Fleet, known: &[usize]) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (member, known) in fleet.members.iter().zip(known) {
        let services = member.process.lines().into_iter().skip(*known);
        for line in services.filter(|line| line.message != OF_A_CALLER) {
            // A line about a job that was claimed before the outage has no service.
            let about = line.service.clone().unwrap_or_else(|| job_in(&line.text));
            lines.entry(format!("{} {about}", member.process.name)).or_default().push(line.text);
        }
    }
    lines
}

/// Returns the job that a line of the log is about, or an empty text.
fn job_in(line: &str) -> String {
    let fields: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    fields["job_id"].as_str().map_or_else(String::new, |job| format!("job {job}"))
}

async fn settle(server: &PrivateServer) {
    let direct = Direct::postgres(&server.url("postgres")).await;
    let sql = "SELECT (SELECT count(*) FROM webhook_delivery_sagas WHERE status <> 'Completed')
        + (SELECT count(*) FROM routing_queue)";
    direct.until("nothing is left to do", sql, 0, PATIENCE).await;
}

/// Describes the events that were not received exactly once.
fn not_once(events: &[(i64, String)], receiver: &Receiver) -> Vec<String> {
    let mut times: BTreeMap<i64, usize> = events.iter().map(|(event, _)| (*event, 0)).collect();
    for received in receiver.received() {
        let (event, _) = parse_webhook_id(received.webhook_id()).unwrap_or_default();
        *times.entry(event).or_default() += 1;
    }
    let odd = times.into_iter().filter(|(_, times)| *times != 1);
    odd.map(|(event, times)| format!("event {event} was sent {times} times")).collect()
}

impl OutageReport {
    /// Prints the result.
    ///
    /// # Panics
    ///
    /// Panics if there are violations.
    pub fn conclude(&self) {
        println!(
            "PostgreSQL down for {:.0} s: {} events acknowledged; first delivery {:.1} s after the restart; \
             at most {:.2} s of CPU per process and {} log lines per service",
            self.away.as_secs_f64(),
            self.acknowledged,
            self.first_delivery.as_secs_f64(),
            self.cpu_max.as_secs_f64(),
            self.lines_max
        );
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
    }
}
