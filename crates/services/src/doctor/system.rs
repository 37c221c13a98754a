//! What runs: queues, leases, the lane, processes, clocks, settings, and how the database keeps up.

use super::{Check, counted};
use crate::clock::ClockStep;
use crate::telemetry;
use posthaste_core::Timestamp;
use posthaste_core::lane::{Lane, LaneMode};
use posthaste_core::ports::{
    DeadTuples, EngineFacts, Observed, OldTransaction, ProcessSeen, Survey, Upkeep, Waiting, WriteAheadLog,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Every role that somebody must run.
pub const ROLES: [&str; 6] = ["api", "router", "orchestrator", "worker", "cleaner", "outbox"];

/// What waits longer than the first is worth a look, longer than the second is stuck.
const ROUTING_AGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));
const READY_AGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));
const DUE_AGE: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(3_600));
const TRANSACTION_AGE: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(3_600));
/// Times come from the database; a clock that is off confuses people and their logs.
const CLOCK_OFFSET_MAX: Duration = Duration::from_secs(2);
/// How long a step of the clock is worth a warning: retries that wait for the time before it are over by then.
const CLOCK_STEP_AGE: Duration = Duration::from_secs(3_600);
/// Transactions that a slot may hold old rows back for.
const SLOT_AGE_MAX: u64 = 1_000_000;
/// Dead rows that no vacuum of ours leaves lying, and their share of the table.
const DEAD_ROWS_MAX: u64 = 200_000;

/// What is known about the system at one time.
#[derive(Debug)]
pub struct SystemFacts<'a> {
    pub now: Timestamp,
    pub survey: &'a Survey,
    pub engine: &'a EngineFacts,
    /// The schema that this program was made for.
    pub schema_needed: u32,
    /// What this machine's own clock says at the time of the engine's answer.
    pub machine_now: Timestamp,
    /// The last step of the clock that deliveries go by, since this process started.
    pub clock_step: Option<ClockStep>,
    pub lane: &'a Lane,
    pub processes: &'a [ProcessSeen],
    pub upkeep: &'a Upkeep,
    /// What the settings of this process leave open, for people.
    pub warnings: &'a [String],
}

pub fn examine_system(facts: &SystemFacts<'_>) -> Vec<Check> {
    let mut checks = vec![
        leases(facts.survey),
        sending(facts.survey),
        routing(facts),
        due(facts),
        delivery(facts),
        results(facts),
        outbox(facts),
        lane(facts.lane),
        roles(facts),
        migrations(facts),
        clock(facts),
        clock_steps(facts),
        settings(facts.warnings),
    ];
    checks.extend(upkeep(facts.upkeep));
    checks
}

fn leases(survey: &Survey) -> Check {
    match survey.stuck_jobs {
        0 => Check::ok("leases", "no lease is older than it can be"),
        count => {
            let found = format!("{} ran out and not given back", counted(count.into(), "lease", "leases"));
            Check::problem("leases", found, "run a process with the role cleaner, and read its log")
        }
    }
}

fn sending(survey: &Survey) -> Check {
    match survey.stuck_orders {
        0 => Check::ok("sending", "no order has been sending for too long"),
        count => {
            let found = format!("{} sending for too long", counted(count.into(), "order", "orders"));
            Check::problem("sending", found, "run a process with the role outbox, and read its log")
        }
    }
}

fn aged(
    name: &'static str,
    waiting: Waiting,
    now: Timestamp,
    bounds: (Duration, Duration),
    to_do: &'static str,
) -> Check {
    let age = waiting.oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
    let found = match waiting.depth {
        0 => "nothing waits".to_owned(),
        depth => format!("{depth} waiting, the oldest for {} s", age.as_secs()),
    };
    if age > bounds.1 {
        Check::problem(name, found, to_do)
    } else if age > bounds.0 {
        Check::warning(name, found, to_do)
    } else {
        Check::ok(name, found)
    }
}

fn routing(facts: &SystemFacts<'_>) -> Check {
    let to_do = "see that a process runs the role router and that its log shows no failing steps";
    aged("routing", facts.survey.routing, facts.now, ROUTING_AGE, to_do)
}

fn due(facts: &SystemFacts<'_>) -> Check {
    let to_do =
        "see that orchestrators and workers run and keep up: add workers, or look for receivers that hang";
    aged("due", facts.survey.admission, facts.now, DUE_AGE, to_do)
}

fn delivery(facts: &SystemFacts<'_>) -> Check {
    let to_do = "see that workers run and have room: add workers, or look for receivers that hang";
    aged("delivery", facts.survey.delivery, facts.now, READY_AGE, to_do)
}

fn results(facts: &SystemFacts<'_>) -> Check {
    let to_do = "see that a process runs the role orchestrator and that its log shows no failing steps";
    aged("results", facts.survey.results, facts.now, READY_AGE, to_do)
}

/// Orders that could be sent. What holds them back may be the lane, which is told of by itself.
fn outbox(facts: &SystemFacts<'_>) -> Check {
    let to_do = "see that a process runs the role outbox with a broker, that the lane is open, and that the broker answers";
    aged("outbox", facts.survey.outbox, facts.now, READY_AGE, to_do)
}

fn lane(lane: &Lane) -> Check {
    let rate = lane.rate_in_force();
    match lane.mode() {
        LaneMode::Open => Check::ok("lane", format!("open, {rate} sends a second at most")),
        LaneMode::Throttled => {
            let found =
                format!("throttled: {rate:.1} sends a second at most, because the broker answered 429");
            Check::warning("lane", found, "nothing, if orders keep up: each success lets more through")
        }
        LaneMode::OneAtATime => {
            let found =
                format!("one order at a time: the broker failed {} times in a row", lane.faults_in_row);
            Check::warning(
                "lane",
                found,
                "see whether the broker is up and reachable: the lane opens by itself",
            )
        }
        LaneMode::Paused => {
            let found = format!("paused: {}", lane.reason.as_deref().unwrap_or("no reason was kept"));
            let to_do = "mend the broker's credentials, then resume the lane: posthaste outbox resume, \
                         or POST /v1/outbox/resume";
            Check::problem("lane", found, to_do)
        }
    }
}

fn roles(facts: &SystemFacts<'_>) -> Check {
    let since = facts.now.before(telemetry::GONE_AFTER);
    let running: BTreeSet<&str> =
        facts.processes.iter().filter(|seen| seen.seen_at >= since).map(|seen| seen.role.as_str()).collect();
    let missing: Vec<&str> = ROLES.into_iter().filter(|role| !running.contains(role)).collect();
    let to_do = "start a process with these roles: posthaste serve --roles …";
    let found = format!("nobody runs {}", missing.join(", "));
    match missing[..] {
        [] => Check::ok("roles", "every role is run by somebody"),
        // Whoever sends no orders needs no outbox, and without a broker nobody runs it.
        ["outbox"] if facts.survey.outbox.depth == 0 => {
            Check::ok("roles", "every role is run by somebody, but outbox, for which no order waits")
        }
        [..] => Check::problem("roles", found, to_do),
    }
}

fn migrations(facts: &SystemFacts<'_>) -> Check {
    let EngineFacts { schema_version, unfinished_migrations, .. } = *facts.engine;
    if unfinished_migrations > 0 {
        let found = format!(
            "{} begun and not ended",
            counted(unfinished_migrations.into(), "migration", "migrations")
        );
        return Check::problem(
            "migrations",
            found,
            "run posthaste migrate: it goes on where it was broken off",
        );
    }
    let found =
        format!("the schema is at {schema_version}, this program was made for {}", facts.schema_needed);
    if schema_version == facts.schema_needed {
        Check::ok("migrations", found)
    } else {
        Check::warning("migrations", found, "bring every process to the newest version")
    }
}

fn clock(facts: &SystemFacts<'_>) -> Check {
    let (ours, theirs) = (facts.machine_now, facts.engine.now);
    let offset = ours.since(theirs).max(theirs.since(ours));
    let found = format!("this machine and the database are {} ms apart", offset.as_millis());
    if offset <= CLOCK_OFFSET_MAX {
        return Check::ok("clock", found);
    }
    Check::warning("clock", found, "set both by NTP: deliveries go by the database's, logs by the machine's")
}

fn clock_steps(facts: &SystemFacts<'_>) -> Check {
    let Some(step) = facts.clock_step else {
        return Check::ok("clock_steps", "no step since this process started");
    };
    let (direction, size, at) = (step.direction.as_str(), step.size.as_secs_f64(), step.at);
    let found = format!("the clock was set {direction} by {size:.3} s at {at}");
    if facts.now.since(step.at) > CLOCK_STEP_AGE {
        return Check::ok("clock_steps", found);
    }
    let to_do = "set the machine of the database (with SQLite, this one) by NTP: times stored before may be off by that much";
    Check::warning("clock_steps", found, to_do)
}

fn settings(warnings: &[String]) -> Check {
    if warnings.is_empty() {
        return Check::ok("settings", "nothing is left open");
    }
    let to_do = "change these settings before real data goes through, or know why not";
    Check::warning("settings", warnings.join("\n"), to_do)
}

fn upkeep(upkeep: &Upkeep) -> Vec<Check> {
    let mut checks = Vec::new();
    let to_do = "end what holds it open: the database cannot clear away rows that it may still see";
    match &upkeep.oldest_transaction {
        Observed::Without => {}
        Observed::Denied => checks.push(Check::warning(
            "transactions",
            "could not look: the role viewer sees its own transactions only",
            "GRANT pg_read_all_stats TO viewer",
        )),
        Observed::Seen(oldest) => checks.push(transaction("transactions", oldest.as_ref(), to_do)),
    }
    if let Observed::Seen(oldest) = &upkeep.oldest_prepared {
        let to_do = "end it with COMMIT PREPARED or ROLLBACK PREPARED: it holds old rows for ever";
        checks.push(transaction("prepared", oldest.as_ref(), to_do));
    }
    if let Observed::Seen(slots) = &upkeep.holding_slots {
        checks.push(slots_check(slots));
    }
    if let Observed::Seen(tables) = &upkeep.dead_tuples {
        checks.push(vacuum(tables));
    }
    if let Observed::Seen(log) = &upkeep.write_ahead_log {
        checks.push(write_ahead_log(*log));
    }
    if let Observed::Seen(files) = &upkeep.exposed_files {
        checks.push(files_check(files));
    }
    checks
}

fn write_ahead_log(log: WriteAheadLog) -> Check {
    let mebibytes = log.bytes >> 20;
    let Some(blocked_for) = log.blocked_for else {
        return Check::ok(
            "write_ahead_log",
            format!("{mebibytes} MiB, and no reader keeps it from being emptied"),
        );
    };
    let seconds = blocked_for.as_secs();
    let found = format!("{mebibytes} MiB: an open reader has kept it from being emptied for {seconds} s");
    let to_do =
        "end the program that keeps a read transaction open on the database file: the log grows until then";
    if blocked_for > TRANSACTION_AGE.1 {
        return Check::problem("write_ahead_log", found, to_do);
    }
    Check::warning("write_ahead_log", found, to_do)
}

fn files_check(exposed: &[String]) -> Check {
    if exposed.is_empty() {
        return Check::ok("files", "only their owner can open the files of the database");
    }
    let found = format!("other users of this machine can open {}", exposed.join(", "));
    Check::warning(
        "files",
        found,
        "chmod 600 these files, or chmod 700 their folder: they hold signing secrets",
    )
}

fn transaction(name: &'static str, oldest: Option<&OldTransaction>, to_do: &'static str) -> Check {
    let Some(oldest) = oldest else { return Check::ok(name, "none is open") };
    let found = format!("the oldest is {} s old, of {:?}", oldest.age.as_secs(), oldest.who);
    if oldest.age > TRANSACTION_AGE.1 {
        Check::problem(name, found, to_do)
    } else if oldest.age > TRANSACTION_AGE.0 {
        Check::warning(name, found, to_do)
    } else {
        Check::ok(name, found)
    }
}

fn slots_check(slots: &[(String, u64)]) -> Check {
    let old: Vec<String> = slots
        .iter()
        .filter(|(_, age)| *age > SLOT_AGE_MAX)
        .map(|(name, age)| format!("{name} for {age} transactions"))
        .collect();
    if old.is_empty() {
        return Check::ok("slots", "no replication slot holds old rows back");
    }
    let to_do = "let its replica catch up, or drop the slot with pg_drop_replication_slot";
    Check::warning("slots", format!("these hold old rows back: {}", old.join(", ")), to_do)
}

fn vacuum(tables: &[DeadTuples]) -> Check {
    let behind: Vec<String> = tables
        .iter()
        .filter(|table| table.dead > DEAD_ROWS_MAX && table.dead > table.live / 5)
        .map(|table| format!("{} has {} dead rows beside {} live ones", table.table, table.dead, table.live))
        .collect();
    if behind.is_empty() {
        return Check::ok("vacuum", "autovacuum keeps up");
    }
    let to_do = "look for old transactions, slots and a disabled autovacuum, then VACUUM these tables";
    Check::warning("vacuum", behind.join("; "), to_do)
}

#[cfg(test)]
mod tests;
