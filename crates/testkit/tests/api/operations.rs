//! Operational data in the API: statistics, backlog, processes and request metrics.

use crate::server::{SCHEMA_VERSION, SURVEY, TestApi};
use posthaste_core::ports::{PresenceStore as _, ProcessSeen, Rollup, Stores, SubscriptionStore as _};
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_services::step::Step as _;
use posthaste_services::survey::Surveyor;
use posthaste_services::telemetry::{Identity, Telemetry};
use posthaste_testkit::fixtures::{T0, actor, at, worker_id};
use posthaste_testkit::harness::Engine;
use posthaste_testkit::postgres::{admin_url, server_address};
use serde_json::{Value, json};
use std::time::Duration;

fn identity() -> Identity {
    Identity { process_id: worker_id(1), version: "0.0.0", started_at: T0, roles: vec!["api", "router"] }
}

pub(crate) async fn stats_sum_the_counters_of_all_processes<S: Stores>(api: &TestApi<S>) {
    let empty = api.get("/v1/stats").expect(200).await;
    assert_eq!((&empty["window"], &empty["success_ratio"]), (&"1h".into(), &Value::Null));
    assert_eq!((&empty["waiting"], &empty["outbox"]["paused"]), (&Value::Null, &false.into()));
    assert_eq!(empty["totals"]["orders_sent"], 0);

    let mut presence = Telemetry::new(api.h.store.presence(), identity(), api.metrics.clone());
    for (seconds, milliseconds) in [(0, 2), (10, 2), (600, 900)] {
        api.metrics.events_routed.inc_by(5);
        let took = Duration::from_millis(milliseconds);
        (0..10).for_each(|_| api.metrics.delivered(took));
        presence.step(at(seconds)).await.expect("a report");
    }
    // A second process adds to the same sums.
    let other = Identity { process_id: worker_id(2), ..identity() };
    let metrics = posthaste_services::metrics::Metrics::new();
    metrics.events_routed.inc_by(100);
    Telemetry::new(api.h.store.presence(), other, metrics).step(at(600)).await.expect("a report");
    api.clock.set(at(600));
    for (window, interval_s, intervals) in [("1h", 10, 360), ("24h", 300, 288)] {
        let stats = api.get(&format!("/v1/stats?window={window}")).expect(200).await;
        assert_eq!(
            (&stats["totals"]["events_routed"], &stats["interval_s"]),
            (&115.into(), &interval_s.into())
        );
        let series = stats["series"]["events_routed"].as_array().expect("a series");
        assert_eq!(series.len(), intervals, "{window}");
        assert_eq!(series.last(), Some(&105.into()), "{window}: the last interval is the present one");
        // Each bucket is 1.5 times as wide as the previous one: 2 ms is reported as 2.25 ms, 900 ms as 985 ms.
        let latency = &stats["latency"];
        assert_eq!((&latency["p50_ms"], &latency["p99_ms"]), (&2.25.into(), &985.261_253.into()), "{window}");
    }
    // Counts older than the short window appear only in the longer one.
    api.clock.set(at(4_000));
    let total = async |window| {
        let stats = api.get(&format!("/v1/stats?window={window}")).expect(200).await;
        stats["totals"]["events_routed"].clone()
    };
    assert_eq!((total("1h").await, total("24h").await), (105.into(), 115.into()));
    api.get("/v1/stats?window=2h").refused(422, "window").await;
    api.get("/v1/stats?windows=1h").refused(422, "windows").await;
}

/// Checks that counters with unknown names, which any database login may add, are not read.
pub(crate) async fn stats_show_known_counters_only<S: Stores>(api: &TestApi<S>) {
    let before = api.get("/v1/stats").expect(200).await;
    let seen = ProcessSeen {
        process_id: worker_id(1),
        role: "router".to_owned(),
        version: "1".to_owned(),
        started_at: T0,
        seen_at: T0,
    };
    let names = (0..500).map(|number| format!("invented_{number}")).chain(["latency_99".to_owned()]);
    let invented = names.map(|counter| Rollup { interval_start: T0, counter, amount: 1 }).collect();
    api.h.store.presence().report_presence(seen, invented).await.expect("a report");
    let after = api.get("/v1/stats").expect(200).await;
    for part in ["series", "totals"] {
        assert_eq!(
            after[part].as_object().map(serde_json::Map::len),
            before[part].as_object().map(serde_json::Map::len)
        );
    }
}

/// Checks that rows inserted by SQL are returned unchanged even if they are nested deeper than the API accepts.
pub(crate) async fn deeply_nested_rows_are_shown<S: Stores>(api: &TestApi<S>) {
    let moment =
        if api.h.engine == Engine::Sqlite { "1800000000000000" } else { "timestamptz '2027-01-15 08:00Z'" };
    let deep = format!("{}{}", "[".repeat(900), "]".repeat(900));
    api.h
        .direct
        .run(&format!(
            "INSERT INTO events (event_type, payload, created_at) VALUES ('a', '{deep}', {moment})"
        ))
        .await;
    {
        let path = "/v1/events/1";
        let answer = api.get(path).send().await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text().contains(&deep), "{path}");
    }
}

pub(crate) async fn the_backlog_is_counted_and_shown<S: Stores>(api: &TestApi<S>) {
    let (one, held) = (api.h.subscribe("a").await, api.h.subscribe("b").await);
    api.h.publish("a", 6).await;
    api.h.publish("b", 4).await;
    api.h.route_all(at(10)).await;
    let pause = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
    api.h
        .store
        .subscriptions()
        .update_subscription(held, pause, None, actor(), at(11))
        .await
        .expect("a pause");
    api.h.publish("a", 3).await;
    // Two jobs wait for a worker, one is leased and hangs, and one has finished but is not applied.
    let quota = posthaste_core::ports::Quota { subscription_id: one, jobs_max: 4, from: None };
    {
        use posthaste_core::ports::{OrchestratorStore as _, WorkerStore as _};
        let policy = posthaste_testkit::fixtures::POLICY;
        api.h.store.orchestrator().admit_due_sagas(vec![quota], policy, at(20)).await.expect("jobs");
        let claim = posthaste_testkit::fixtures::claim(2);
        let jobs = api.h.store.worker().claim_due_jobs(claim.clone(), at(30)).await.expect("a claim");
        let report = posthaste_testkit::fixtures::delivered(&jobs[0], claim.token);
        api.h.store.worker().report_jobs(vec![report], at(31)).await.expect("a report");
    }
    let mut surveyor = Surveyor::new(api.h.store.insight(), SURVEY, api.clock.clone(), api.metrics.clone());
    surveyor.step(at(200)).await.expect("a survey");
    let (survey, counted_at) = surveyor.last().get().expect("a survey");
    api.last_survey.set(survey, counted_at);
    let stats = api.get("/v1/stats").expect(200).await;
    let waiting = &stats["waiting"];
    let stage = |name: &str| {
        let all = waiting["stages"].as_array().expect("stages");
        let found = all.iter().find(|stage| stage["stage"] == name).expect("the stage");
        (found["depth"].clone(), found["oldest_age_s"].clone())
    };
    for (name, depth, age) in [
        ("routing", 3, 200.0),
        ("admission", 2, 190.0),
        ("delivery", 2, 180.0),
        // Claimed after 30 s, with a duration of 7 ms.
        ("results", 1, 169.993),
        ("outbox", 0, 0.0),
    ] {
        assert_eq!(stage(name), (depth.into(), age.into()), "{name}: {waiting}");
    }
    assert_eq!(
        (&waiting["held"], &waiting["stuck_jobs"], &waiting["stuck_orders"]),
        (&4.into(), &1.into(), &0.into())
    );
    let shown = async || {
        let metrics = api.get("/metrics").expect_text(200).await;
        for line in [
            r#"posthaste_queue_depth{stage="routing"} 3"#,
            r#"posthaste_queue_oldest_age_seconds{stage="admission"} 190.0"#,
            "posthaste_held_deliveries{} 4",
            r#"posthaste_stuck_rows{kind="job"} 1"#,
            r#"posthaste_stuck_rows{kind="order"} 0"#,
            "posthaste_queue_sampled_timestamp_seconds{} 1800000200.0",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
        }
    };
    shown().await;
    // If the store fails, the last count and its time are kept.
    api.h.direct.run("ALTER TABLE finished_jobs RENAME TO gone").await;
    surveyor.step(at(300)).await.expect_err("a table is gone");
    assert_eq!(surveyor.last().get(), Some((survey, counted_at)));
    shown().await;
}

pub(crate) async fn the_system_lists_its_processes<S: Stores>(api: &TestApi<S>) {
    api.clock.set(at(100));
    for (number, role, seconds) in [(1, "router", 95), (2, "worker", 40)] {
        let seen = ProcessSeen {
            process_id: worker_id(number),
            role: role.to_owned(),
            version: "0.0.0".to_owned(),
            started_at: T0,
            seen_at: at(seconds),
        };
        api.h.store.presence().report_presence(seen, vec![]).await.expect("a report");
    }
    let system = api.get("/v1/system").expect(200).await;
    assert_eq!(system["schema_version"], SCHEMA_VERSION);
    assert_eq!(system["server_time"], "2027-01-15T08:01:40.000000Z");
    let engine = &system["engine"];
    assert!(["sqlite", "postgresql"].contains(&engine["name"].as_str().expect("a name")), "{system}");
    assert!(engine["version"].is_string() && engine["bytes"].as_u64() > Some(10_000), "{system}");
    match api.h.engine {
        Engine::Sqlite => assert_eq!(system["database"], Value::Null),
        Engine::Postgres | Engine::PostgresCut => {
            let port = server_address(&admin_url()).port();
            let tls = json!({"in_use": false, "version": null, "verified": "none", "expires": null});
            let expected = json!({"host": "127.0.0.1", "port": port, "standby": false, "tls": tls});
            assert_eq!(system["database"], expected);
        }
    }
    let processes = system["processes"].as_array().expect("processes");
    let reported: Vec<_> =
        processes.iter().map(|one| (&one["role"], &one["age_s"], &one["running"])).collect();
    let (router, worker) = (Value::from("router"), Value::from("worker"));
    let expected = [(&router, &5.0.into(), &true.into()), (&worker, &60.0.into(), &false.into())];
    assert_eq!(reported, expected);
}

pub(crate) async fn requests_are_counted_by_call_and_status<S: Stores>(api: &TestApi<S>) {
    api.get("/v1/events/7").refused(404, "").await;
    api.get("/v1/events/8").refused(404, "").await;
    api.get("/v1/no/such/call").refused(404, "").await;
    api.call("BREW", "/v1/events").refused(405, "").await;
    let metrics = api.get("/metrics").expect_text(200).await;
    for line in [
        r#"posthaste_http_requests_total{call="GET /v1/events/{id}",status="404"} 2"#,
        r#"posthaste_http_requests_total{call="other",status="404"} 1"#,
        r#"posthaste_http_requests_total{call="other",status="405"} 1"#,
        r#"posthaste_http_request_seconds_count{call="GET /v1/events/{id}"} 2"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}
