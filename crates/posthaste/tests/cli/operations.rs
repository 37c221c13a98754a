//! Tests the commands for operators, and the health probes and metrics of processes with and without the API.

use posthaste_testkit::client::{Answer, Call};
use posthaste_testkit::commands::{Dev, Ran, Running, run};
use posthaste_testkit::fleet::free_address;
use posthaste_testkit::receiver::{self, Receiver};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn event_is_explained_and_working_system_is_healthy() {
    let folder = crate::folder();
    let dev = Dev::start(&folder);
    dev.run(&["event", "send", "demo.hello", "--payload", "1"]).expect(0);
    dev.json_until(&["delivery", "list", "--event", "1"], crate::is_completed);
    let output = dev.run(&["explain", "1"]).expect(0).stdout;
    for words in ["demo.hello", "routed to 1 subscription; 0 others", "Completed, delivered with 1 attempt"] {
        assert!(output.contains(words), "{words} in {output}");
    }
    assert_eq!(dev.json(&["explain", "1"])["deliveries"][0]["attempts"][0]["response_status"], 200);
    let unknown = dev.run(&["explain", "99"]).expect(4);
    assert!(unknown.stderr.contains("this event does not exist") && unknown.stdout.is_empty(), "{unknown:?}");

    // Repeated until every role has reported its presence.
    let until = Instant::now() + PATIENCE;
    loop {
        let ran = dev.run(&["doctor", "--json"]);
        let diagnosis: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let is_healthy = diagnosis["healthy"] == true;
        ran.expect(if is_healthy { 0 } else { 1 });
        if is_healthy {
            assert_eq!(
                (&diagnosis["examined"]["events"], &diagnosis["examined"]["faults"]),
                (&1.into(), &0.into())
            );
            break;
        }
        assert!(Instant::now() < until, "{diagnosis:#}");
    }
    let output = dev.run(&["doctor", "--recent"]).expect(0).stdout;
    for words in ["ok       conservation", "warning  settings", "POSTHASTE_ALLOW_HTTP", "healthy: 0 problems"]
    {
        assert!(output.contains(words), "{words} in {output}");
    }
}

#[test]
fn stats_and_system_are_shown() {
    let folder = crate::folder();
    let dev = Dev::start(&folder);
    dev.run(&["event", "send", "demo.hello", "--payload", "1"]).expect(0);
    for window in ["1h", "24h"] {
        let stats = dev.json_until(&["stats", "--window", window], |stats| {
            stats["totals"]["events_accepted"] == 1 && !stats["waiting"].is_null()
        });
        assert_eq!(stats["window"], window);
        let output = dev.run(&["stats", "--window", window]).expect(0).stdout;
        for words in
            ["broker lane", "success rate", "p99", "events_accepted", "BACKLOG", "held: 0, stuck attempts: 0"]
        {
            assert!(output.contains(words), "{words} in {output}");
        }
    }
    dev.run(&["stats", "--window", "7d"]).expect(2);
    let is_router = |process: &Value| process["role"] == "router" && process["running"] == true;
    dev.json_until(&["system"], |system| {
        system["processes"].as_array().is_some_and(|processes| processes.iter().any(is_router))
    });
    let output = dev.run(&["system"]).expect(0).stdout;
    for words in ["database       sqlite 3.", " MiB", "PROCESS", "  router "] {
        assert!(output.contains(words), "{words} in {output}");
    }
    assert!(!output.contains("database host"), "{output}");
}

#[test]
fn changes_by_people_are_listed() {
    let folder = crate::folder();
    let dev = Dev::start(&folder);
    dev.run(&["key", "create", "ann", "viewer"]).expect(0);
    let output = dev.run(&["audit", "list", "--action", "key_created"]).expect(0).stdout;
    for words in [
        "ADDRESS",
        "root",
        "127.0.0.1",
        "key_created",
        "keys/1",
        r#"{"name":"ann","role":"viewer","tenant":null}"#,
    ] {
        assert!(output.contains(words), "{words} in {output}");
    }
    let listed = dev.json(&["audit", "list", "--limit", "1"]);
    assert_eq!(listed["items"][0]["after"], json!({"name": "ann", "role": "viewer", "tenant": null}));
    assert!(
        dev.run(&["audit", "list", "--since", "9999-01-01T00:00:00Z"])
            .expect(0)
            .stdout
            .contains("no changes")
    );
    let wrong = dev.run(&["audit", "list", "--action", "anything"]).expect(1);
    assert!(wrong.stderr.contains("action must be one of"), "{wrong:?}");
}

#[test]
fn event_without_matches_counts_as_routed() {
    let folder = crate::folder();
    let dev = Dev::start(&folder);
    dev.run(&["event", "send", "nobody.listens", "--payload", "1"]).expect(0);
    dev.json_until(&["explain", "1"], |output| output["routed"] == true);
    let output = dev.run(&["explain", "1"]).expect(0).stdout;
    assert!(output.lines().any(|line| line == "routed       yes, time unknown"), "{output}");
}

/// Starts a server that responds to consecutive requests with the given bodies.
async fn server_of(pages: Vec<String>) -> Receiver {
    let pages = Mutex::new(pages.into_iter());
    Receiver::start(move |_| {
        let page = pages.lock().expect("the pages").next().unwrap_or_default();
        receiver::Answer::With { status: 200, headers: Vec::new(), body: page.into_bytes() }
    })
    .await
}

/// Runs a command against a server that returns the given responses.
async fn run_against(pages: Vec<String>, command: &[&str]) -> Ran {
    let server = server_of(pages).await;
    run(command, &[("POSTHASTE_URL", &server.url(""))], "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_response_fails_every_command() {
    let deep = format!(r#"{{"items":[{{"id":1,"payload":{}{}}}]}}"#, "[".repeat(200), "]".repeat(200));
    let bottomless = "[".repeat(4_000_000);
    let commands: &[&[&str]] = &[
        &["dead-letter", "list"],
        &["dead-letter", "list", "--json"],
        &["dead-letter", "show", "1"],
        &["dead-letter", "requeue", "1"],
        &["dead-letter", "requeue-all"],
        &["event", "list"],
        &["event", "show", "1"],
        &["event", "send", "a.b", "--payload", "1"],
        &["delivery", "list"],
        &["subscription", "list"],
        &["order", "list"],
        &["order", "audit", "k"],
        &["key", "list"],
        &["explain", "1"],
        &["stats"],
        &["system"],
        &["doctor"],
    ];
    for (body, message) in [
        (deep.as_str(), "nested deeper than 136 levels"),
        (bottomless.as_str(), "nested deeper than 136 levels"),
        ("<html>", "not JSON"),
        (r#"{"items":["#, "not JSON"),
    ] {
        for command in commands {
            let ran = run_against(vec![body.to_owned()], command).await.expect(1);
            assert!(
                ran.stderr.contains(message) && ran.stderr.contains("POSTHASTE_URL"),
                "{command:?}: {ran:?}"
            );
            assert_eq!(ran.stdout, "", "{command:?}");
        }
    }
    // A response without items is not an empty list.
    for command in commands.iter().filter(|command| command.contains(&"list")) {
        for body in ["", "null", "{}", "[]"] {
            let ran = run_against(vec![body.to_owned()], command).await.expect(1);
            assert!(ran.stderr.contains("it has no field items"), "{command:?} {body}: {ran:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deepest_payload_is_shown() {
    let payload = "[".repeat(128) + &"]".repeat(128);
    let letter =
        format!(r#"{{"id":7,"saga_id":9,"final_error_code":"HTTP_503","payload_snapshot":{payload}}}"#);
    let list = format!(r#"{{"items":[{letter}],"next_cursor":null}}"#);
    let ran = run_against(vec![list], &["dead-letter", "list"]).await.expect(0);
    assert!(ran.stdout.contains("HTTP_503") && !ran.stdout.contains("no dead letters"), "{ran:?}");
    let ran = run_against(vec![letter], &["dead-letter", "show", "7"]).await.expect(0);
    assert!(ran.stdout.contains(&payload), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_fetches_every_page_and_exits_with_1_on_a_problem() {
    let page = |status: &str, cursor: Option<&str>, through: u64| {
        let checks = json!([{"name": "conservation", "status": status, "found": "a finding", "to_do": null}]);
        let examined = json!({"events": 10, "deliveries": 20, "orders": 0, "undecidable": 0, "faults": 0});
        json!({
            "healthy": status != "problem", "checks": checks, "examined": examined, "server_time": "now",
            "examined_through": through, "last_event_id": 30, "next_cursor": cursor
        })
        .to_string()
    };
    let pages = vec![page("ok", Some("a"), 10), page("problem", Some("b"), 20), page("ok", None, 30)];
    let ran = run_against(pages, &["doctor"]).await.expect(1);
    assert_eq!(
        ran.stderr,
        "10 of 30: 10 events and 0 orders examined, 0 faults\n20 of 30: 20 events and 0 orders examined, 0 faults\n"
    );
    assert!(ran.stdout.contains("examined: 30 events, 60 deliveries"), "{ran:?}");
    assert!(ran.stdout.contains("not healthy: 1 problem,"), "{ran:?}");
}

fn get(address: SocketAddr, path: &str) -> Answer {
    Call::get(address, path).send_blocking()
}

fn until_listening(address: SocketAddr) {
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < until, "nothing listens on {address}");
    }
}

fn until_ready(address: SocketAddr) {
    let until = Instant::now() + PATIENCE;
    while get(address, "/readyz").status != 200 {
        assert!(Instant::now() < until, "{}", get(address, "/readyz").whole());
    }
}

#[test]
fn metrics_and_readiness_move_to_their_own_address() {
    let folder = crate::folder();
    let database = format!("sqlite://{}", folder.path().join("posthaste.db").display());
    run(&["migrate"], &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
    let (api, probes) = (free_address(), free_address());
    let (listen, metrics_listen) = (api.to_string(), probes.to_string());
    let environment = [
        ("POSTHASTE_DATABASE_URL", database.as_str()),
        ("POSTHASTE_LISTEN", &listen),
        ("POSTHASTE_METRICS_LISTEN", &metrics_listen),
        ("POSTHASTE_LOG", "error"),
    ];
    let _running = Running::start(folder.path(), &["serve"], &environment);
    [api, probes].into_iter().for_each(until_listening);
    for (address, path, status) in [
        (api, "/healthz", 200),
        (api, "/metrics", 404),
        (api, "/readyz", 404),
        (api, "/v1/events", 401),
        (probes, "/healthz", 200),
        (probes, "/metrics", 200),
        (probes, "/v1/events", 404),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.status, status, "{address} {path}: {}", answer.whole());
    }
    until_ready(probes);
}

#[test]
fn process_without_the_api_has_probes_and_metrics() {
    let folder = crate::folder();
    let database = format!("sqlite://{}", folder.path().join("posthaste.db").display());
    run(&["migrate"], &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
    let address = free_address();
    let metrics_listen = address.to_string();
    let environment = [
        ("POSTHASTE_DATABASE_URL", database.as_str()),
        ("POSTHASTE_ROLES", "cleaner,router"),
        ("POSTHASTE_METRICS_LISTEN", &metrics_listen),
        ("POSTHASTE_LOG", "error"),
    ];
    let _running = Running::start(folder.path(), &["serve"], &environment);
    until_listening(address);
    get(address, "/healthz").expect(200);
    until_ready(address);
    let metrics = get(address, "/metrics").text();
    for words in [
        r#"posthaste_step_seconds_count{service="router"}"#,
        r#"posthaste_store_seconds_count{role="router_worker"}"#,
        r#"posthaste_http_requests_total{call="GET /healthz",status="200"} 1"#,
    ] {
        assert!(metrics.contains(words), "{words} in {metrics}");
    }
    assert!(!metrics.contains("posthaste_queue_depth{"), "only the role api counts backlogs");
    get(address, "/v1/events").expect(404);
    let other = format!("{database}-other");
    let environment = [("POSTHASTE_DATABASE_URL", other.as_str()), ("POSTHASTE_ROLES", "cleaner")];
    run(&["migrate"], &environment, "").expect(0);
    let refused = run(
        &["serve"],
        &[&environment[..], &[("POSTHASTE_METRICS_LISTEN", metrics_listen.as_str())]].concat(),
        "",
    );
    assert!(refused.expect(1).stderr.contains("POSTHASTE_METRICS_LISTEN"));
}
