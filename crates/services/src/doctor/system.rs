//! Checks the running system: queues, leases, the lane, processes, clocks, settings, egress rules and database
//! maintenance.

use super::egress::{EgressFacts, egress};
use super::server::{ConnectionDemand, examine_server};
use super::{Check, counted};
use crate::clock::ClockStep;
use crate::telemetry;
use posthaste_core::Timestamp;
use posthaste_core::duration;
use posthaste_core::lane::{Lane, LaneMode};
use posthaste_core::ports::{
    DeadTuples, EngineFacts, Observed, OldTransaction, ProcessSeen, ServerFacts, SubscriptionTimeout, Survey,
    Upkeep, Waiting, WriteAheadLog,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The roles that must each be run by at least one process.
pub const ROLES: [&str; 6] = ["api", "router", "orchestrator", "worker", "cleaner", "outbox"];

/// The ages above which the oldest unrouted event is a warning and a problem, respectively.
const ROUTING_AGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));
/// The ages above which the oldest pending job, result or order is a warning and a problem, respectively.
const READY_AGE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));
/// The ages above which the oldest due delivery is a warning and a problem, respectively.
const DUE_AGE: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(3_600));
/// The ages above which the oldest open transaction is a warning and a problem, respectively.
const TRANSACTION_AGE: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(3_600));
/// The maximum offset between the clocks of this machine and the database. Deliveries use the database's
/// time, so a larger offset only makes logs harder to compare.
const CLOCK_OFFSET_MAX: Duration = Duration::from_secs(2);
/// The time for which a clock step is reported as a warning. Retries that were scheduled before the step have
/// run by then.
const CLOCK_STEP_AGE: Duration = Duration::from_secs(3_600);
/// The maximum age of a replication slot's xmin, in transactions. An older xmin retains too many dead rows.
const SLOT_AGE_MAX: u64 = 1_000_000;
/// The number of dead rows in a table above which vacuum may be falling behind, if they are also more than a
/// fifth of the live rows.
const DEAD_ROWS_MAX: u64 = 200_000;

/// The maximum number of subscriptions that the check of timeouts lists.
const TIMEOUTS_LISTED_MAX: usize = 20;

/// The state of the system at one point in time.
#[derive(Debug)]
pub struct SystemFacts<'a> {
    pub now: Timestamp,
    pub survey: &'a Survey,
    pub engine: &'a EngineFacts,
    /// The schema version that this program requires.
    pub schema_needed: u32,
    /// The time of this machine's clock when the engine's time was read.
    pub machine_now: Timestamp,
    /// The last clock step since this process started, if any.
    pub clock_step: Option<ClockStep>,
    pub lane: &'a Lane,
    pub processes: &'a [ProcessSeen],
    pub upkeep: &'a Upkeep,
    /// The database server, or `None` if the engine is embedded.
    pub server: Option<&'a ServerFacts>,
    /// The connections that processes may open to the server, or `None` if they use a connection pooler.
    pub connections: Option<&'a ConnectionDemand>,
    /// Warnings about the settings of this process.
    pub warnings: &'a [String],
    pub egress: &'a EgressFacts,
    /// The subscriptions whose timeout is longer than `timeout_max`, or `None` if they were not read.
    pub long_timeouts: Option<&'a [SubscriptionTimeout]>,
    /// The longest timeout that the lease allows.
    pub timeout_max: Duration,
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
        egress(facts.egress),
    ];
    checks.extend(facts.long_timeouts.map(|found| timeouts(found, facts.timeout_max)));
    checks.extend(upkeep(facts.upkeep));
    checks.extend(facts.server.map(|server| examine_server(server, facts)).unwrap_or_default());
    checks
}

fn leases(survey: &Survey) -> Check {
    match survey.stuck_jobs {
        0 => Check::ok("leases", "no expired leases"),
        count => {
            let found = format!("{} expired and not reset", counted(count.into(), "lease", "leases"));
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
        0 => "queue empty".to_owned(),
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
    let to_do = "check that a process runs the role router and that its log shows no failing steps";
    aged("routing", facts.survey.routing, facts.now, ROUTING_AGE, to_do)
}

fn due(facts: &SystemFacts<'_>) -> Check {
    let to_do =
        "check that orchestrators and workers run and keep up: add workers, or find receivers that hang";
    aged("due", facts.survey.admission, facts.now, DUE_AGE, to_do)
}

fn delivery(facts: &SystemFacts<'_>) -> Check {
    let to_do = "check that workers run and have free slots: add workers, or find receivers that hang";
    aged("delivery", facts.survey.delivery, facts.now, READY_AGE, to_do)
}

fn results(facts: &SystemFacts<'_>) -> Check {
    let to_do = "check that a process runs the role orchestrator and that its log shows no failing steps";
    aged("results", facts.survey.results, facts.now, READY_AGE, to_do)
}

/// Checks the backlog of orders. A lane that holds them back is reported separately, by the check `lane`.
fn outbox(facts: &SystemFacts<'_>) -> Check {
    let to_do =
        "check that a process runs the role outbox, that the lane is open, and that the broker responds";
    aged("outbox", facts.survey.outbox, facts.now, READY_AGE, to_do)
}

fn lane(lane: &Lane) -> Check {
    let rate = lane.rate_in_force();
    match lane.mode() {
        LaneMode::Open => Check::ok("lane", format!("open, at most {rate} sends per second")),
        LaneMode::Throttled => {
            let found =
                format!("throttled: at most {rate:.1} sends per second, because the broker returned 429");
            Check::warning("lane", found, "no action if orders keep up: the rate rises with each success")
        }
        LaneMode::OneAtATime => {
            let found =
                format!("one order at a time: the broker failed {} times in a row", lane.faults_in_row);
            Check::warning(
                "lane",
                found,
                "check that the broker is up and reachable: the lane then opens by itself",
            )
        }
        LaneMode::Paused => {
            let found = format!("paused: {}", lane.reason.as_deref().unwrap_or("no reason recorded"));
            let to_do = "fix the broker's credentials, then resume the lane: posthaste outbox resume, \
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
    let found = format!("no process runs {}", missing.join(", "));
    match missing[..] {
        [] => Check::ok("roles", "every role is running"),
        // The role `outbox` is optional: it needs a broker, and is not needed while no order is queued.
        ["outbox"] if facts.survey.outbox.depth == 0 => {
            Check::ok("roles", "every role is running except outbox, for which no order waits")
        }
        [..] => Check::problem("roles", found, to_do),
    }
}

fn migrations(facts: &SystemFacts<'_>) -> Check {
    let EngineFacts { schema_version, unfinished_migrations, .. } = *facts.engine;
    if unfinished_migrations > 0 {
        let found = format!(
            "{} started and not finished",
            counted(unfinished_migrations.into(), "migration", "migrations")
        );
        return Check::problem(
            "migrations",
            found,
            "run posthaste migrate: it continues where it was interrupted",
        );
    }
    let found = format!("the schema version is {schema_version}, this program needs {}", facts.schema_needed);
    if schema_version == facts.schema_needed {
        Check::ok("migrations", found)
    } else {
        Check::warning("migrations", found, "upgrade every process to the newest version")
    }
}

fn clock(facts: &SystemFacts<'_>) -> Check {
    let (ours, theirs) = (facts.machine_now, facts.engine.now);
    let offset = ours.since(theirs).max(theirs.since(ours));
    let found = format!("the clocks of this machine and the database differ by {} ms", offset.as_millis());
    if offset <= CLOCK_OFFSET_MAX {
        return Check::ok("clock", found);
    }
    Check::warning(
        "clock",
        found,
        "synchronize both with NTP: deliveries use the database's clock, logs the machine's",
    )
}

fn clock_steps(facts: &SystemFacts<'_>) -> Check {
    let Some(step) = facts.clock_step else {
        return Check::ok("clock_steps", "no clock step since this process started");
    };
    let (direction, size, at) = (step.direction.as_str(), step.size.as_secs_f64(), step.at);
    let found = format!("the clock was set {direction} by {size:.3} s at {at}");
    if facts.now.since(step.at) > CLOCK_STEP_AGE {
        return Check::ok("clock_steps", found);
    }
    let to_do = "synchronize the database server (with SQLite, this machine) with NTP: \
                 times stored before may be off by that much";
    Check::warning("clock_steps", found, to_do)
}

fn settings(warnings: &[String]) -> Check {
    if warnings.is_empty() {
        return Check::ok("settings", "no warnings");
    }
    let to_do = "change these settings before production use, unless they are intended";
    Check::warning("settings", warnings.join("\n"), to_do)
}

/// Checks the timeouts of subscriptions. The lease may have been lowered after they were set.
fn timeouts(found: &[SubscriptionTimeout], timeout_max: Duration) -> Check {
    let effective = duration::format(timeout_max);
    if found.is_empty() {
        return Check::ok("timeouts", format!("no subscription has a timeout longer than {effective}"));
    }
    let listed = found.iter().take(TIMEOUTS_LISTED_MAX);
    let listed: Vec<String> =
        listed.map(|one| format!("{} ({})", one.id, duration::format(one.timeout))).collect();
    let rest = match found.len().saturating_sub(TIMEOUTS_LISTED_MAX) {
        0 => String::new(),
        more => format!(" and at least {more} more"),
    };
    let found = format!(
        "the lease allows timeouts of up to {effective}, which is used instead of the longer timeout of subscription \
         {}{rest}",
        listed.join(", ")
    );
    let to_do = "raise POSTHASTE_LEASE to at least 5s more than the longest timeout, or set shorter timeouts";
    Check::warning("timeouts", found, to_do)
}

fn upkeep(upkeep: &Upkeep) -> Vec<Check> {
    let mut checks = Vec::new();
    let to_do = "end the session that holds it open: vacuum cannot remove rows that it may still see";
    match &upkeep.oldest_transaction {
        Observed::Without => {}
        Observed::Denied => checks.push(Check::warning(
            "transactions",
            "not checked: the role viewer sees only its own transactions",
            "GRANT pg_read_all_stats TO viewer (with the prefix in POSTHASTE_ROLE_PREFIX)",
        )),
        Observed::Seen(oldest) => checks.push(transaction("transactions", oldest.as_ref(), to_do)),
    }
    if let Observed::Seen(oldest) = &upkeep.oldest_prepared {
        let to_do =
            "end it with COMMIT PREPARED or ROLLBACK PREPARED: vacuum cannot remove old rows until then";
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
    if let Observed::Seen(has_roles) = upkeep.has_roles {
        checks.push(rights(has_roles));
    }
    checks
}

fn rights(has_roles: bool) -> Check {
    if has_roles {
        return Check::ok("rights", "each component has only the rights of its database role");
    }
    let found = "the database was migrated with --roles none: every component logs in as the owner of the tables, so \
                 each can read all payloads, signing secrets and key hashes, change every table, and disable the \
                 triggers that protect the history";
    let to_do = "let an administrator run the SQL that `posthaste migrate --print-roles` prints, then run \
                 `posthaste migrate --roles existing` and restart all processes";
    Check::warning("rights", found, to_do)
}

fn write_ahead_log(log: WriteAheadLog) -> Check {
    let mebibytes = log.bytes >> 20;
    let Some(blocked_for) = log.blocked_for else {
        return Check::ok("write_ahead_log", format!("{mebibytes} MiB, checkpoints are not blocked"));
    };
    let seconds = blocked_for.as_secs();
    let found = format!("{mebibytes} MiB: an open reader has blocked checkpoints for {seconds} s");
    let to_do =
        "end the program that keeps a read transaction open on the database file: the log grows until then";
    if blocked_for > TRANSACTION_AGE.1 {
        return Check::problem("write_ahead_log", found, to_do);
    }
    Check::warning("write_ahead_log", found, to_do)
}

fn files_check(exposed: &[String]) -> Check {
    if exposed.is_empty() {
        return Check::ok("files", "the database files are readable by their owner only");
    }
    let found = format!("other users of this machine can read {}", exposed.join(", "));
    Check::warning(
        "files",
        found,
        "chmod 600 these files, or chmod 700 their folder: they contain signing secrets",
    )
}

fn transaction(name: &'static str, oldest: Option<&OldTransaction>, to_do: &'static str) -> Check {
    let Some(oldest) = oldest else { return Check::ok(name, "no open transaction") };
    let found = format!("the oldest is {} s old, from {:?}", oldest.age.as_secs(), oldest.who);
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
        return Check::ok("slots", "no replication slot keeps old rows");
    }
    let to_do = "let its replica catch up, or drop the slot with pg_drop_replication_slot";
    Check::warning("slots", format!("these slots keep old rows: {}", old.join(", ")), to_do)
}

fn vacuum(tables: &[DeadTuples]) -> Check {
    let behind: Vec<String> = tables
        .iter()
        .filter(|table| table.dead > DEAD_ROWS_MAX && table.dead > table.live / 5)
        .map(|table| format!("{} has {} dead and {} live rows", table.table, table.dead, table.live))
        .collect();
    if behind.is_empty() {
        return Check::ok("vacuum", "autovacuum keeps up");
    }
    let to_do = "check for old transactions, old slots and a disabled autovacuum, then VACUUM these tables";
    Check::warning("vacuum", behind.join("; "), to_do)
}

#[cfg(test)]
mod tests;
