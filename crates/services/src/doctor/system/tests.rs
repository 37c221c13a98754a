//! Tests that each fault of a system is reported by its check.

use super::*;
use crate::clock::StepDirection;
use crate::doctor::Status::{self, Ok, Problem, Warning};
use posthaste_core::lane::{FAULTS_MAX, RATE_MAX};
use posthaste_core::{SubscriptionId, WorkerId};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn timeout(id: i64) -> SubscriptionTimeout {
    SubscriptionTimeout { id: SubscriptionId::from_store(id), timeout: SECOND * 30 }
}

struct World {
    survey: Survey,
    engine: EngineFacts,
    machine_now: Timestamp,
    clock_step: Option<ClockStep>,
    lane: Lane,
    processes: Vec<ProcessSeen>,
    upkeep: Upkeep,
    warnings: Vec<String>,
    long_timeouts: Option<Vec<SubscriptionTimeout>>,
}

fn seen(role: &str) -> ProcessSeen {
    ProcessSeen {
        process_id: WorkerId::parse("test-1").expect("a name"),
        role: role.to_owned(),
        version: "0.0.0".to_owned(),
        started_at: NOW,
        seen_at: NOW.before(SECOND),
    }
}

fn healthy() -> World {
    let (name, version, bytes) = ("postgresql", "15.4".to_owned(), None);
    World {
        survey: Survey::default(),
        engine: EngineFacts { name, version, schema_version: 2, unfinished_migrations: 0, bytes, now: NOW },
        machine_now: NOW,
        clock_step: None,
        lane: Lane::open(NOW),
        processes: ROLES.map(seen).to_vec(),
        upkeep: Upkeep {
            oldest_transaction: Observed::Seen(None),
            oldest_prepared: Observed::Seen(None),
            holding_slots: Observed::Seen(vec![]),
            dead_tuples: Observed::Seen(vec![]),
            write_ahead_log: Observed::Without,
            exposed_files: Observed::Seen(vec![]),
            has_roles: Observed::Seen(true),
        },
        warnings: vec![],
        long_timeouts: Some(vec![]),
    }
}

/// Asserts that exactly the check `name` reports a fault after `change` is applied to a healthy system.
fn check(name: &str, expected: Status, change: impl FnOnce(&mut World)) {
    let mut world = healthy();
    change(&mut world);
    let facts = SystemFacts {
        now: NOW,
        survey: &world.survey,
        engine: &world.engine,
        schema_needed: 2,
        machine_now: world.machine_now,
        clock_step: world.clock_step,
        lane: &world.lane,
        processes: &world.processes,
        upkeep: &world.upkeep,
        server: None,
        connections: None,
        warnings: &world.warnings,
        egress: &EgressFacts::default(),
        long_timeouts: world.long_timeouts.as_deref(),
        timeout_max: SECOND * 25,
    };
    let checks = examine_system(&facts);
    let failing: Vec<_> = checks.iter().filter(|check| check.status != Ok).collect();
    assert!(failing.iter().all(|check| !check.to_do.is_empty()), "{failing:?}");
    let reported: Vec<_> = failing.iter().map(|check| (check.name, check.status)).collect();
    let expected: Vec<_> = if expected == Ok { vec![] } else { vec![(name, expected)] };
    assert_eq!(reported, expected, "{failing:?}");
}

#[test]
fn each_fault_is_reported_by_its_own_check() {
    let waiting = |seconds| Waiting { depth: 1, oldest: Some(NOW.before(SECOND * seconds)) };
    let old =
        |seconds| Observed::Seen(Some(OldTransaction { who: "psql".to_owned(), age: SECOND * seconds }));
    check("", Ok, |_| {});
    check("leases", Problem, |world| world.survey.stuck_jobs = 1);
    check("sending", Problem, |world| world.survey.stuck_orders = 1);
    check("routing", Ok, |world| world.survey.routing = waiting(59));
    check("routing", Warning, |world| world.survey.routing = waiting(61));
    check("routing", Problem, |world| world.survey.routing = waiting(601));
    check("due", Warning, |world| world.survey.admission = waiting(301));
    check("due", Problem, |world| world.survey.admission = waiting(3_601));
    check("delivery", Ok, |world| world.survey.delivery = waiting(59));
    check("delivery", Warning, |world| world.survey.delivery = waiting(61));
    check("delivery", Problem, |world| world.survey.delivery = waiting(601));
    check("results", Warning, |world| world.survey.results = waiting(61));
    check("results", Problem, |world| world.survey.results = waiting(601));
    check("outbox", Ok, |world| world.survey.outbox = waiting(59));
    check("outbox", Warning, |world| world.survey.outbox = waiting(61));
    check("outbox", Problem, |world| world.survey.outbox = waiting(601));
    check("lane", Warning, |world| world.lane.rate = RATE_MAX / 2.0);
    check("lane", Ok, |world| world.lane.faults_in_row = FAULTS_MAX - 1);
    check("lane", Warning, |world| world.lane.faults_in_row = FAULTS_MAX);
    check("lane", Problem, |world| world.lane.paused_at = Some(NOW));
    check("roles", Problem, |world| world.processes.retain(|seen| seen.role != "router"));
    check("roles", Ok, |world| world.processes.retain(|seen| seen.role != "outbox"));
    check("roles", Problem, |world| {
        world.processes.retain(|seen| seen.role != "outbox");
        world.survey.outbox = waiting(1);
    });
    check("roles", Problem, |world| world.processes[2].seen_at = NOW.before(SECOND * 31));
    check("migrations", Problem, |world| world.engine.unfinished_migrations = 1);
    check("migrations", Warning, |world| world.engine.schema_version = 3);
    check("clock", Warning, |world| world.machine_now = NOW.before(SECOND * 3));
    check("clock", Warning, |world| world.machine_now = NOW.after(SECOND * 3));
    let step = |ago| ClockStep { direction: StepDirection::Back, size: SECOND * 3_587, at: NOW.before(ago) };
    check("clock_steps", Warning, |world| world.clock_step = Some(step(SECOND * 3_600)));
    check("clock_steps", Ok, |world| world.clock_step = Some(step(SECOND * 3_601)));
    check("settings", Warning, |world| world.warnings.push("no key".to_owned()));
    check("timeouts", Ok, |world| world.long_timeouts = None);
    check("timeouts", Warning, |world| world.long_timeouts = Some(vec![timeout(1)]));
    check("transactions", Warning, |world| world.upkeep.oldest_transaction = old(301));
    check("transactions", Problem, |world| world.upkeep.oldest_transaction = old(3_601));
    check("transactions", Warning, |world| world.upkeep.oldest_transaction = Observed::Denied);
    check("prepared", Problem, |world| world.upkeep.oldest_prepared = old(3_601));
    check("slots", Warning, |world| {
        world.upkeep.holding_slots = Observed::Seen(vec![("replica".to_owned(), SLOT_AGE_MAX + 1)]);
    });
    let log = |blocked_for| Observed::Seen(WriteAheadLog { bytes: 9 << 20, blocked_for });
    check("write_ahead_log", Ok, |world| world.upkeep.write_ahead_log = log(None));
    check("write_ahead_log", Warning, |world| world.upkeep.write_ahead_log = log(Some(SECOND)));
    check("write_ahead_log", Problem, |world| world.upkeep.write_ahead_log = log(Some(SECOND * 3_601)));
    let tuples = |live, dead| DeadTuples { table: "finished_jobs".to_owned(), live, dead };
    check("vacuum", Warning, |world| world.upkeep.dead_tuples = Observed::Seen(vec![tuples(100, 200_001)]));
    check("files", Warning, |world| world.upkeep.exposed_files = Observed::Seen(vec!["a.db".to_owned()]));
    check("rights", Warning, |world| world.upkeep.has_roles = Observed::Seen(false));
    check("vacuum", Ok, |world| world.upkeep.dead_tuples = Observed::Seen(vec![tuples(9_000_000, 200_001)]));
}

#[test]
fn capped_timeouts_are_listed_with_the_effective_value() {
    let found: Vec<_> = (1..=22).rev().map(timeout).collect();
    let check = timeouts(&found[20..], SECOND * 25);
    let expected = "the lease allows timeouts of up to 25s, which is used instead of the longer timeout of \
                    subscription 2 (30s), 1 (30s)";
    assert_eq!((check.status, check.found.as_str()), (Warning, expected));
    let check = timeouts(&found, SECOND * 25);
    assert!(check.found.ends_with("3 (30s) and at least 2 more"), "{}", check.found);
}
