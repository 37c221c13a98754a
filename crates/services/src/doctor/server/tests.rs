//! Tests that each fault of a database server is reported by its check.

use super::*;
use crate::doctor::Status::{self, Ok, Problem, Warning};
use crate::doctor::{ROLES, examine_system};
use posthaste_core::WorkerId;
use posthaste_core::lane::Lane;
use posthaste_core::ports::{EngineFacts, ProcessSeen, Survey, TlsSession, Upkeep};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// The connections of the program: six pools of four for the role api, one for each other role, and a listener.
fn demand() -> ConnectionDemand {
    let by_role = ROLES.map(|role| (role, if role == "api" { 24 } else { 4 })).to_vec();
    ConnectionDemand { by_role, per_process: 1 }
}

struct World {
    server: ServerFacts,
    processes: Vec<ProcessSeen>,
    demand: Option<ConnectionDemand>,
}

fn seen(process_id: &str, role: &str) -> ProcessSeen {
    ProcessSeen {
        process_id: WorkerId::parse(process_id).expect("a name"),
        role: role.to_owned(),
        version: "0.0.0".to_owned(),
        started_at: NOW,
        seen_at: NOW,
    }
}

fn standby(is_synchronous: bool) -> Standby {
    Standby { name: "db2".to_owned(), is_synchronous, lag: Duration::ZERO, lag_bytes: 0 }
}

fn healthy() -> World {
    let tls = TlsSession { version: "TLSv1.3", verified: Verified::Host, expires: Some(NOW.after(DAY * 90)) };
    World {
        server: ServerFacts {
            connected: ConnectedServer {
                host: "db1".to_owned(),
                port: 5432,
                address: Some("192.0.2.1:5432".parse().expect("an address")),
                tls: Some(tls),
            },
            is_standby: false,
            durability: Durability {
                fsync: true,
                full_page_writes: true,
                synchronous_commit: "on".to_owned(),
            },
            standbys: Observed::Seen(vec![standby(true)]),
            transactions: IdAge { age: 200_000_001, freeze_max_age: 200_000_000 },
            multixacts: IdAge { age: 0, freeze_max_age: 400_000_000 },
            connections: ConnectionLimits { server: 97, database: None, login: None },
        },
        processes: ROLES.map(|role| seen("one", role)).to_vec(),
        demand: Some(demand()),
    }
}

/// Returns what the checks of the server found after `change` is applied to a healthy one.
fn checks(change: impl FnOnce(&mut World)) -> Vec<Check> {
    let mut world = healthy();
    change(&mut world);
    let upkeep = Upkeep {
        oldest_transaction: Observed::Without,
        oldest_prepared: Observed::Without,
        holding_slots: Observed::Without,
        dead_tuples: Observed::Without,
        exposed_files: Observed::Without,
        write_ahead_log: Observed::Without,
        has_roles: Observed::Without,
    };
    let engine = EngineFacts {
        name: "postgresql",
        version: "15.4".to_owned(),
        schema_version: 2,
        unfinished_migrations: 0,
        bytes: None,
        now: NOW,
    };
    let checks = examine_system(&SystemFacts {
        now: NOW,
        survey: &Survey::default(),
        engine: &engine,
        schema_needed: 2,
        machine_now: NOW,
        clock_step: None,
        lane: &Lane::open(NOW),
        processes: &world.processes,
        upkeep: &upkeep,
        server: Some(&world.server),
        connections: world.demand.as_ref(),
        warnings: &[],
        egress: &crate::doctor::EgressFacts::default(),
        long_timeouts: None,
        timeout_max: Duration::ZERO,
    });
    checks.into_iter().filter(|check| SERVER_CHECKS.contains(&check.name)).collect()
}

/// Asserts that exactly the check `name` reports a fault, with these words, after `change` is applied to a healthy
/// server.
fn check(name: &str, expected: Status, words: &str, change: impl FnOnce(&mut World)) {
    let checks = checks(change);
    let failing: Vec<_> = checks.iter().filter(|check| check.status != Ok).collect();
    assert!(failing.iter().all(|check| !check.to_do.is_empty()), "{failing:?}");
    let reported: Vec<_> = failing.iter().map(|check| (check.name, check.status)).collect();
    let expected: Vec<_> = if expected == Ok { vec![] } else { vec![(name, expected)] };
    assert_eq!(reported, expected, "{failing:?}");
    let found = checks.iter().find(|check| check.name == name).map_or("", |check| check.found.as_str());
    assert!(found.contains(words), "{words:?} in {found:?}");
}

fn tls(world: &mut World) -> &mut TlsSession {
    world.server.connected.tls.as_mut().expect("a session")
}

#[test]
fn a_healthy_server_passes_every_check() {
    let names: Vec<&str> = checks(|_| {}).iter().map(|check| check.name).collect();
    assert_eq!(names, SERVER_CHECKS);
    check("encryption", Ok, "TLSv1.3 to db1:5432, certificate and name verified", |_| {});
}

#[test]
fn connections_that_leave_the_machine_must_be_encrypted_and_verified() {
    let local = |world: &mut World| world.server.connected.address = "[::1]:5432".parse().ok();
    let plain = |world: &mut World| world.server.connected.tls = None;
    let unverified = |world: &mut World| tls(world).verified = Verified::No;
    check("encryption", Warning, "db1:5432 is not encrypted", plain);
    check("encryption", Warning, "its certificate is not checked", unverified);
    check("encryption", Warning, "its name is not checked", |world| {
        tls(world).verified = Verified::Authority;
    });
    check("encryption", Ok, "does not leave this machine", |world| {
        plain(world);
        local(world);
    });
    check("encryption", Ok, "does not leave this machine", |world| {
        unverified(world);
        local(world);
    });
    check("encryption", Ok, "does not leave this machine", |world| {
        plain(world);
        world.server.connected.address = None;
    });
}

#[test]
fn a_certificate_is_reported_14_days_before_it_expires() {
    let expires = |at: Timestamp| move |world: &mut World| tls(world).expires = Some(at);
    let second = Duration::from_secs(1);
    check("certificate", Ok, "valid until", expires(NOW.after(DAY * 14 + second)));
    check("certificate", Warning, "of db1 expires at", expires(NOW.after(DAY * 14)));
    check("certificate", Warning, "in 1 day", expires(NOW.after(DAY + second)));
    check("certificate", Problem, "new connections are refused", expires(NOW));
    check("certificate", Problem, "expired at", expires(NOW.before(DAY)));
    check("certificate", Ok, "cannot be read", |world| tls(world).expires = None);
    // An expired certificate that nobody checks refuses no connection.
    let checks = checks(|world| {
        tls(world).verified = Verified::No;
        tls(world).expires = Some(NOW);
    });
    assert!(checks.iter().any(|check| check.name == "certificate" && check.status == Warning), "{checks:?}");
}

#[test]
fn a_standby_that_falls_behind_is_reported() {
    let behind = |lag_s, lag_bytes| {
        move |world: &mut World| {
            let lag = Duration::from_secs(lag_s);
            let late = Standby { lag, lag_bytes, ..standby(false) };
            world.server.standbys = Observed::Seen(vec![late, standby(true)]);
        }
    };
    check("standbys", Ok, "db1 is the primary, 2 standbys keep up", behind(30, LAG_BYTES_MAX));
    check("standbys", Warning, "\"db2\" is 31 s and 0 MiB behind", behind(31, 0));
    check("standbys", Warning, "\"db2\" is 0 s and 256 MiB behind", behind(0, LAG_BYTES_MAX + 1));
    check("standbys", Ok, "no standby is attached", |world| world.server.standbys = Observed::Seen(vec![]));
    check("standbys", Warning, "not checked", |world| world.server.standbys = Observed::Denied);
    check("standbys", Problem, "db1 is a standby", |world| world.server.is_standby = true);
}

#[test]
fn a_failover_that_can_lose_events_is_reported() {
    check("failover", Ok, "commits wait for a synchronous standby (synchronous_commit is on)", |_| {});
    check("failover", Warning, "1 standby is attached and none is synchronous", |world| {
        world.server.standbys = Observed::Seen(vec![standby(false)]);
    });
    check("failover", Ok, "no standby is attached", |world| world.server.standbys = Observed::Seen(vec![]));
    let commit = |mode: &str| {
        let mode = mode.to_owned();
        move |world: &mut World| world.server.durability.synchronous_commit = mode
    };
    check("failover", Warning, "synchronous_commit is local", commit("local"));
    check("failover", Ok, "synchronous_commit is remote_apply", commit("remote_apply"));
    let reported = |check: &Check| (check.name == "failover").then_some(check.status);
    assert_eq!(checks(commit("off")).iter().find_map(reported), Some(Warning));
}

#[test]
fn settings_that_lose_commits_are_reported() {
    check("durability", Warning, "fsync is off", |world| world.server.durability.fsync = false);
    check("durability", Warning, "full_page_writes is off", |world| {
        world.server.durability.full_page_writes = false;
    });
    check("durability", Warning, "synchronous_commit is off", |world| {
        world.server.standbys = Observed::Seen(vec![]);
        world.server.durability.synchronous_commit = "off".to_owned();
    });
}

#[test]
fn ids_close_to_the_wraparound_are_reported() {
    let transactions = |age| move |world: &mut World| world.server.transactions.age = age;
    let multixacts = |age| move |world: &mut World| world.server.multixacts.age = age;
    check("wraparound", Ok, "400000000 transactions old", transactions(400_000_000));
    check("wraparound", Warning, "400000001 transactions old", transactions(400_000_001));
    check("wraparound", Problem, "1600000001 transactions old", transactions(FAILSAFE_AGE + 1));
    check("wraparound", Ok, "multixact id 800000000", multixacts(800_000_000));
    check("wraparound", Warning, "multixact id 800000001", multixacts(800_000_001));
    check("wraparound", Problem, "multixact id 1600000001", multixacts(FAILSAFE_AGE + 1));
    check("wraparound", Ok, "", |world| {
        // Autovacuum starts later, so this age is expected.
        world.server.transactions = IdAge { age: FAILSAFE_AGE, freeze_max_age: 1_500_000_000 };
    });
}

#[test]
fn limits_that_are_too_low_for_the_pools_are_reported() {
    // One process with every role: 24 + 5 × 4 + 1.
    let limit = |server, database, login| {
        move |world: &mut World| world.server.connections = ConnectionLimits { server, database, login }
    };
    check("connections", Ok, "may open 45 connections, allowed are 45 (max_", limit(45, None, None));
    check("connections", Warning, "may open 45 connections, allowed are 44 (max_", limit(44, None, None));
    check(
        "connections",
        Warning,
        "allowed are 20 (the CONNECTION LIMIT of the data",
        limit(97, Some(20), None),
    );
    check(
        "connections",
        Warning,
        "allowed are 9 (the CONNECTION LIMIT of the login",
        limit(97, Some(20), Some(9)),
    );
    check("connections", Warning, "may open 100 connections, allowed are 97", |world| {
        world.processes.extend((0..11).map(|number| seen(&format!("worker-{number}"), "worker")));
    });
    check("connections", Ok, "may open 45 connections", |world| {
        let offline = |number| ProcessSeen {
            seen_at: NOW.before(telemetry::GONE_AFTER * 2),
            ..seen(&format!("worker-{number}"), "worker")
        };
        world.processes.extend((0..11).map(offline));
    });
    check("connections", Ok, "a pooler", |world| {
        limit(1, None, None)(world);
        world.demand = None;
    });
}
