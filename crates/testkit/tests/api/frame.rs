//! The common behavior of all calls: problems, request ids, health and the `Host` header.

use crate::server::TestApi;
use posthaste_core::lane::Lane;
use posthaste_core::ports::Stores;
use posthaste_testkit::client::Answer;
use posthaste_testkit::fixtures::T0;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

pub(crate) async fn every_failure_is_a_problem<S: Stores>(api: &TestApi<S>) {
    api.get("/nowhere").refused(404, "").await;
    api.get("/v1/nowhere").no_key().refused(404, "").await;
    api.get("/v1/events/").refused(404, "").await;
    api.get("/v1/events/7").refused(404, "").await;
    api.get("/v1/events/x").refused(422, "id").await;
    api.get("/v1/events/%ff").refused(400, "").await;
    api.get("/v1/events/99999999999999999999").refused(422, "id").await;
    for (path, methods) in [
        ("/v1/events", "GET, HEAD, POST"),
        ("/v1/subscriptions/7", "GET, HEAD, PATCH, DELETE"),
        ("/v1/subscriptions/7/verify", "POST"),
        ("/v1/keys", "GET, HEAD, POST"),
        ("/v1/keys/7", "DELETE"),
        ("/docs", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
        ("/metrics", "GET, HEAD"),
    ] {
        let answer = api.call("PUT", path).send().await;
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let detail = answer.json()["detail"].as_str().expect("a detail").to_owned();
        assert_eq!(detail, format!("this path does not support the method: use {methods}"), "{path}");
        let mut allowed: Vec<&str> = answer.header("allow").split(',').collect();
        let mut named: Vec<&str> = methods.split(", ").collect();
        allowed.sort_unstable();
        named.sort_unstable();
        assert_eq!(allowed, named, "{path}");
    }
    let answer = api.post("/v1/events").no_key().send().await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"));
    let long = "x".repeat(9 * 1024 * 1024);
    api.post("/v1/events").json(long).refused(413, "").await;
    api.post("/v1/subscriptions").json("x".repeat(65 * 1024)).refused(413, "").await;
}

pub(crate) async fn request_ids_are_returned<S: Stores>(api: &TestApi<S>) {
    let answer = api.get("/healthz").header("x-request-id", "mine-1").send().await;
    assert_eq!(answer.header("x-request-id"), "mine-1");
    assert_eq!(answer.header("cache-control"), "no-store");
    let made: Vec<String> = [
        api.get("/healthz").send().await,
        api.get("/healthz").header("x-request-id", "not mine").send().await,
        api.get("/nowhere").send().await,
        api.get("/v1/events").no_key().send().await,
    ]
    .iter()
    .map(|answer| answer.header("x-request-id").to_owned())
    .collect();
    for (index, id) in made.iter().enumerate() {
        assert_eq!(id.len(), 32, "{id}");
        assert!(!made[..index].contains(id), "{id} is not unique");
    }
}

pub(crate) async fn health_readiness_and_metrics_need_no_key<S: Stores>(api: &TestApi<S>) {
    let healthy = api.get("/healthz").no_key().expect(200).await;
    assert_eq!(healthy["status"], "ok");
    api.post("/v1/events").json(r#"{"event_type":"a","payload":1}"#).expect(202).await;
    let ready = api.get("/readyz").no_key().expect(200).await;
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["services"][0]["name"], "ingest");
    let metrics = api.get("/metrics").no_key().send().await;
    assert_eq!(metrics.status, 200);
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(
        metrics.text().contains("# TYPE posthaste_events_accepted_total counter\n"),
        "{}",
        metrics.text()
    );
    let open = api.get("/metrics").no_key().header("accept", "application/openmetrics-text").send().await;
    assert!(open.header("content-type").starts_with("application/openmetrics-text"));
    assert!(open.text().ends_with("# EOF\n"), "{}", open.text());
    assert!(metrics.text().contains("posthaste_events_accepted_total 1\n"), "{}", metrics.text());
}

pub(crate) async fn a_paused_lane_is_reported_and_stays_ready<S: Stores>(api: &TestApi<S>) {
    let unseen = api.get("/readyz").no_key().expect(200).await;
    assert!(unseen["outbox"].is_null(), "no lane is reported before its state is known");
    let open = Lane::open(T0);
    let paused = Lane { paused_at: Some(T0), reason: Some("refused".to_owned()), ..open.clone() };
    let away = Lane { faults_in_row: 7, ..open.clone() };
    let slow = Lane { rate: 500.0, ..open.clone() };
    let slow_and_paused = Lane { rate: 500.0, ..paused.clone() };
    let rows = [
        (paused, "paused"),
        (slow_and_paused, "paused"),
        (away, "one_at_a_time"),
        (slow, "throttled"),
        (open, "open"),
    ];
    for (lane, mode) in rows {
        let is_paused = lane.paused_at.is_some();
        api.lane.show(lane);
        let ready = api.get("/readyz").no_key().expect(200).await;
        assert_eq!((&ready["ready"], &ready["outbox"]["lane"]), (&true.into(), &mode.into()));
        assert_eq!(ready["outbox"]["paused"], is_paused);
        assert_eq!(ready["outbox"]["reason"].as_str(), is_paused.then_some("refused"));
        assert_eq!(ready["outbox"]["advice"].is_string(), is_paused);
        let metrics = api.get("/metrics").no_key().send().await;
        let line = format!("outbox_paused {}\n", u8::from(is_paused));
        assert!(metrics.text().contains(&line), "{line} in {}", metrics.text());
    }
}

pub(crate) async fn a_request_has_one_host<S: Stores>(api: &TestApi<S>) {
    for (version, hosts, status) in [
        ("1.1", "host: a\r\n", 200),
        ("1.0", "", 200),
        ("1.0", "host: a\r\n", 200),
        ("1.1", "", 400),
        ("1.1", "host: a\r\nhost: b\r\n", 400),
        ("1.1", "host: a\r\nhost: a\r\n", 400),
        ("1.0", "host: a\r\nhost: b\r\n", 400),
    ] {
        let mut stream = TcpStream::connect(api.address).await.expect("a connection");
        let request = format!("GET /healthz HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("to write");
        let answer = Answer::read(&mut stream).await;
        assert_eq!(answer.status, status, "{request}: {}", answer.text());
        if status == 400 {
            assert_eq!(answer.header("content-type"), "application/problem+json", "{request}");
        }
    }
}
