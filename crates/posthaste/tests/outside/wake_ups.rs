//! Checks that processes on one PostgreSQL database wake each other up. Each role runs in a separate process that polls
//! once a minute, and twenty events must pass through all of them in less time.

use crate::served::{PATIENCE, ROOT_KEY, Served};
use crate::world;
use posthaste_testkit::commands::{MIGRATE, run};
use posthaste_testkit::fleet;
use posthaste_testkit::postgres::empty_database;
use posthaste_testkit::processes::{Process, Program};
use posthaste_testkit::receiver::Receiver;
use serde_json::json;
use std::time::{Duration, Instant};

const POLL: &str = "60s";
/// The time limit for all events. It is shorter than the poll interval, so waiting for a single poll fails the test.
const WITHIN: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread")]
async fn an_event_passes_four_processes_without_waiting_for_their_polls() {
    let database = empty_database("wakes").await;
    let settings = [
        ("POSTHASTE_DATABASE_URL", database.as_str()),
        ("POSTHASTE_LISTEN", "127.0.0.1:0"),
        ("POSTHASTE_ROOT_KEY", ROOT_KEY),
        ("POSTHASTE_POLL", POLL),
    ];
    run(MIGRATE, &settings[..1], "").expect(0);
    let program = Program::find();
    let others: Vec<Process> = ["router", "orchestrator", "worker"]
        .map(|role| program.serve(role, role, &fleet::settings(&settings)))
        .into();
    for process in &others {
        assert!(process.serves(PATIENCE).await, "{}: {:#?}", process.name, process.lines());
    }
    let api = Served::of_roles("api", tempfile::tempdir().expect("a folder"), &database, &settings).await;
    let receiver = Receiver::start(world::answer).await;
    world::subscribe(&api, "a", &receiver.url("/take"), 1);
    let began = Instant::now();
    for number in 1..=20 {
        let event = json!({"event_type": "a", "payload": number}).to_string();
        api.post("/v1/events", &event).expect(202);
        // Each event starts after the previous one is delivered, and needs all wake-ups again.
        let path = "/v1/deliveries?status=Completed";
        api.get_until(path, |answer| answer.json()["items"].as_array().map(Vec::len) == Some(number));
    }
    let took = began.elapsed();
    println!("twenty events in sequence: {took:?}");
    assert!(took < WITHIN, "a process waited for its poll: {took:?}");
}
