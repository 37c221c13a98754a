//! Checks that the program does not disclose secrets or payloads, which all contain markers. The tests make valid and
//! invalid calls, some of them while the store is unavailable, and search logs at level `trace`, errors, metrics and
//! responses for the markers.

use crate::served::{Engine, PATIENCE, Served};
use crate::{metrics, world};
use posthaste_testkit::client::Answer;
use posthaste_testkit::commands::{MIGRATE, run};
use posthaste_testkit::postgres::empty_database;
use posthaste_testkit::receiver::{self, Receiver};
use serde_json::{Value, json};

const ROOT_KEY: &str = "MARKER-ROOT-KEY-9f86d081884c7d659a2f";
const SECRET_KEY: &str = "5ec2e7005ec2e7015ec2e7025ec2e7035ec2e7045ec2e7055ec2e7065ec2e707";
const PASSWORD: &str = "MARKER-DATABASE-PASSWORD";
const BROKER_URL: &str = "https://broker.example/MARKER-BROKER-PATH";
const BROKER: &str = "Authorization: Bearer MARKER-BROKER-TOKEN; X-Other: MARKER-BROKER-OTHER";
const LOG_FILTER: &str = "info,posthaste=trace,posthaste_api=trace,posthaste_core=trace,\
    posthaste_services=trace,posthaste_store=trace";

/// The trace id of every order. It appears in the log, in the audit and in requests to the broker.
const TRACE: &str = "trace-of-the-desk-7f3a";

/// The idempotency keys of the orders. The broker returns the status after the dash, or resets the connection.
const ORDERS: [&str; 6] = ["order-200", "order-401", "order-409", "order-422", "order-500", "order-reset"];

/// The prefix of all markers. Keys and signing secrets created by the server contain no marker.
const MARKER_PREFIX: &str = "MARKER-";

/// Everything that the program printed or returned, as pairs of source and text.
#[derive(Default)]
struct Disclosed(Vec<(String, String)>);

impl Disclosed {
    fn add(&mut self, by: &str, text: impl Into<String>) {
        self.0.push((by.to_owned(), text.into()));
    }

    /// Adds a response that must not contain secrets.
    fn answer(&mut self, by: &str, answer: &Answer) {
        self.add(&format!("the answer {} to {by}", answer.status), answer.whole());
    }

    /// Checks that the text appears in each of the allowed sources, and in no other.
    #[track_caller]
    fn check_only(&self, text: &str, allowed: &[&str]) {
        let sources: Vec<&str> = self
            .0
            .iter()
            .filter(|(_, disclosed)| disclosed.contains(text))
            .map(|(by, _)| by.as_str())
            .collect();
        for part in allowed {
            assert!(sources.iter().any(|by| by.contains(part)), "{text} is missing in {part}");
        }
        let stray: Vec<_> =
            sources.iter().filter(|by| !allowed.iter().any(|part| by.contains(part))).collect();
        assert!(stray.is_empty(), "{text} is disclosed by {stray:?}");
    }

    #[track_caller]
    fn check(&self, secrets: &[&str]) {
        assert!(!self.0.is_empty());
        for secret in secrets.iter().chain([&MARKER_PREFIX, &SECRET_KEY]) {
            // The signing key without its prefix.
            let core = secret.trim_start_matches("whsec_");
            for (by, text) in &self.0 {
                assert!(!text.contains(core), "{core} is disclosed by {by}: {text}");
            }
        }
    }
}

fn settings<'a>(database: &'a str, broker: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("POSTHASTE_DATABASE_URL", database),
        ("POSTHASTE_LISTEN", "127.0.0.1:0"),
        ("POSTHASTE_ROOT_KEY", ROOT_KEY),
        ("POSTHASTE_SECRET_KEY", SECRET_KEY),
        ("POSTHASTE_BROKER_URL", broker),
        ("POSTHASTE_BROKER_HEADERS", BROKER),
        ("POSTHASTE_LOG", LOG_FILTER),
        ("POSTHASTE_RETRY_BASE", "1ms"),
    ]
}

/// Echoes the request in the headers and the body of the response. The status depends on the path.
fn parrot(received: &receiver::Received) -> receiver::Answer {
    if received.header("posthaste-event-type") == "posthaste.verification" {
        return world::answer(received);
    }
    let headers = vec![
        ("x-parrot".to_owned(), received.header("webhook-signature").to_owned()),
        ("retry-after".to_owned(), "MARKER-RETRY-AFTER".to_owned()),
        ("location".to_owned(), "https://MARKER-LOCATION.example/".to_owned()),
    ];
    let status = match received.path.split('?').next() {
        Some("/refuse") => 503,
        Some("/away") => 302,
        _ => 200,
    };
    receiver::Answer::With { status, headers, body: [b"MARKER-BODY ", &received.body[..]].concat() }
}

/// Echoes the order and the credentials in the headers and the body of the response. The status is the one in the
/// idempotency key.
fn broker(received: &receiver::Received) -> receiver::Answer {
    let (key, token) = (received.header("idempotency-key"), received.header("authorization"));
    let Some(status) = key.strip_prefix("order-").and_then(|status| status.parse().ok()) else {
        return receiver::Answer::Reset;
    };
    let order = String::from_utf8_lossy(&received.body);
    let body = json!({
        "idempotency_key": if status == 200 { key } else { "MARKER-FOREIGN-KEY" }, "status": "accepted",
        "broker_order_id": if status == 200 { "brk-1" } else { "MARKER-FOREIGN-ID" },
        "fills": ["MARKER-FILL"], "error": "MARKER-ERROR", "order": order, "token": token,
    });
    let headers = ["x-parrot", "retry-after", "location", "www-authenticate"]
        .map(|name| (name.to_owned(), format!("MARKER-HEADER {token}")));
    receiver::Answer::With { status, headers: headers.to_vec(), body: body.to_string().into_bytes() }
}

struct World<'a> {
    served: &'a Served,
    disclosed: Disclosed,
}

impl World<'_> {
    fn call(&self, method: &str, path: &str, key: &str, body: &[u8]) -> Answer {
        self.served.call(method, path).key(key).json(body).send_blocking()
    }

    fn submit(&self, key: &str, body: &[u8]) -> Answer {
        let call = self.served.call("POST", "/v1/orders").key(ROOT_KEY).header("idempotency-key", key);
        call.body(body).send_blocking()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.call("POST", path, ROOT_KEY, body.to_string().as_bytes());
        assert!(matches!(answer.status, 200..=202), "{path}: {}", answer.whole());
        answer.json()
    }

    fn wrong(&mut self, method: &str, path: &str, key: &str, body: &[u8]) {
        let answer = self.call(method, path, key, body);
        assert!(
            answer.status >= 400,
            "{method} {path} {}: {}",
            String::from_utf8_lossy(body),
            answer.whole()
        );
        self.disclosed.answer(&format!("{method} {}", path.replace(MARKER_PREFIX, "…")), &answer);
    }

    fn wrong_calls(&mut self, key: &str) {
        for body in [
            &br#"{"event_type":"a","payload":"MARKER-PAYLOAD""#[..],
            br#"{"event_type":"a","payload":"MARKER-PAYLOAD}"#,
            b"MARKER-PAYLOAD",
            b"\xffMARKER-PAYLOAD",
            br#"{"event_type":7,"payload":"MARKER-PAYLOAD"}"#,
            br#"{"event_type":"","payload":"MARKER-PAYLOAD"}"#,
            br#"[{"event_type":"a","payload":"MARKER-PAYLOAD"},{"event_type":"a"}]"#,
            br#"{"event_type":"a","payload":"MARKER-PAYLOAD","external_event_id":7}"#,
        ] {
            self.wrong("POST", "/v1/events", key, body);
        }
        self.wrong("POST", "/v1/events", "MARKER-WRONG-KEY", b"{}");
        self.wrong("GET", "/v1/keys", key, b"");
        for url in [
            "https://user:MARKER-URL-PASSWORD@example.com/",
            "ftp://example.com/?token=MARKER-QUERY",
            "https://10.0.0.1/?token=MARKER-QUERY",
            "MARKER-NO-URL",
        ] {
            let body = json!({"event_type": "a", "callback_url": url}).to_string();
            self.wrong("POST", "/v1/subscriptions", ROOT_KEY, body.as_bytes());
        }
        for (key, rest) in [
            ("k", r#""qty":0,"meta":{"a":"MARKER-META"}}"#),
            ("k", r#""qty":1,"meta":"MARKER-META"}"#),
            ("k", r#""qty":1,"meta":{"a":"MARKER-META""#),
            ("order-200", r#""qty":2,"meta":{"a":"MARKER-META"}}"#),
        ] {
            let body = format!(r#"{{"idempotency_key":"{key}","symbol":"X","intent":"BUY",{rest}"#);
            let answer = self.submit(key, body.as_bytes());
            assert!(answer.status >= 400, "{body}: {}", answer.whole());
            self.disclosed.answer("a wrong order", &answer);
        }
        self.wrong("GET", "/v1/events/99?MARKER-QUERY", ROOT_KEY, b"");
        self.wrong("GET", "/v1/nowhere/MARKER-PATH", ROOT_KEY, b"");
    }

    /// Submits the orders, and waits until the broker has responded to each.
    fn order(&self) {
        for key in ORDERS {
            let order = json!({
                "idempotency_key": key, "symbol": "USDJPY", "intent": "BUY", "qty": 1, "trace_id": TRACE,
                "meta": {"note": "MARKER-META"}, "account": "MARKER-ACCOUNT",
            });
            self.submit(key, order.to_string().as_bytes()).expect(202);
        }
        for key in ORDERS {
            let path = format!("/v1/orders/{key}/audit");
            self.served.get_as(ROOT_KEY, &path, |answer| {
                ["sent", "failed", "dead"]
                    .iter()
                    .any(|status| answer.text().contains(&format!("\"{status}\"")))
            });
        }
    }

    /// Reads lists, reports and single objects. Payloads and callback URLs are returned only by the calls for events,
    /// dead letters and subscriptions, and must not appear in other responses.
    fn listings(&mut self) {
        let own = ["/v1/keys", "/v1/deliveries", "/v1/deliveries/1", "/v1/events/1/explain"];
        let all =
            ["/readyz", "/metrics", "/openapi.json", "/v1/outbox", "/v1/doctor", "/v1/system", "/v1/stats"];
        for path in own.into_iter().chain(all).chain(["/v1/orders"]) {
            let answer = self.call("GET", path, ROOT_KEY, b"");
            self.disclosed.answer(path, &answer);
        }
        for key in ORDERS {
            let path = format!("/v1/orders/{key}/audit");
            let answer = self.call("GET", &path, ROOT_KEY, b"");
            self.disclosed.answer(&path, &answer);
            // Only this call returns the broker's response, and only in this field.
            let answer = self.call("GET", &format!("/v1/orders/{key}"), ROOT_KEY, b"");
            let mut order = answer.json();
            let result = order.as_object_mut().and_then(|fields| fields.remove("result"));
            let has_fill = |result: Value| result.to_string().contains("MARKER-FILL");
            assert_eq!(
                result.is_some_and(has_fill),
                answer.status == 200 && key == "order-200",
                "{}",
                answer.whole()
            );
            self.disclosed.add(&format!("the order {key}"), order.to_string());
        }
        for path in ["/v1/subscriptions", "/v1/subscriptions/1"] {
            let answer = self.call("GET", path, ROOT_KEY, b"");
            self.disclosed.add(path, answer.whole().replace("?token=MARKER-QUERY", "?…"));
        }
    }
}

async fn check(engine: Engine, format: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let database = match engine {
        Engine::Sqlite => format!("sqlite://{}", folder.path().join("posthaste.db").display()),
        // The test server accepts any password.
        Engine::Postgres => empty_database("secrets").await.replacen('@', &format!(":{PASSWORD}@"), 1),
    };
    let desk = Receiver::start(broker).await;
    let broker_url = desk.url("/MARKER-BROKER-PATH");
    let mut settings = settings(&database, &broker_url);
    settings.extend([("POSTHASTE_LOG_FORMAT", format), ("POSTHASTE_ALLOW_HTTP", "true")]);
    settings.push(("POSTHASTE_ALLOW_CIDRS", "127.0.0.0/8"));
    let migrated = run(MIGRATE, &settings, "").expect(0);
    let mut served = Served::over(folder, &database, &settings).await;
    let receiver = Receiver::start(parrot).await;
    let mut world = World { served: &served, disclosed: Disclosed::default() };
    world.disclosed.add("migrate", migrated.stdout + &migrated.stderr);

    let key = world.post("/v1/keys", &json!({"name": "marked", "role": "ingest"}))["key"].clone();
    let key = key.as_str().expect("a key");
    let mut secrets = vec![key.to_owned()];
    for path in ["/take", "/refuse", "/away"] {
        let url = receiver.url(&format!("{path}?token=MARKER-QUERY"));
        let subscription = json!({"event_type": "a", "callback_url": url, "max_retry_limit": 2});
        let created = world.post("/v1/subscriptions", &subscription);
        let path = format!("/v1/subscriptions/{}", created["id"]);
        let verified = world.post(&format!("{path}/verify"), &json!({}));
        assert_eq!(verified["verified"], true);
        let rotated = world.post(&format!("{path}/rotate-secret"), &json!({"overlap_s": 60}));
        let mut tested = world.post(&format!("{path}/test"), &json!({}));
        // The response to a test event contains the receiver's response body only in this field.
        let wrote = tested.as_object_mut().and_then(|fields| fields.remove("response_body"));
        assert!(wrote.is_some_and(|text| text.to_string().contains("MARKER-BODY")), "{tested}");
        world.disclosed.add("verify and test", format!("{verified}{tested}"));
        secrets.extend(
            [&created, &rotated].map(|answer| answer["secret"].as_str().expect("a secret").to_owned()),
        );
    }
    world.post("/v1/events", &json!({"event_type": "a", "payload": "MARKER-PAYLOAD"}));
    served.get_as(ROOT_KEY, "/v1/dead-letters", |answer| {
        answer.json()["items"].as_array().is_some_and(|items| items.len() == 2)
    });
    world.order();
    world.wrong_calls(key);
    world.listings();
    // The markers were actually sent to the broker.
    let sent = desk.received();
    for text in ["MARKER-META", "MARKER-ACCOUNT"] {
        assert!(sent.iter().all(|request| String::from_utf8_lossy(&request.body).contains(text)), "{text}");
    }
    for (name, value) in [
        ("authorization", "Bearer MARKER-BROKER-TOKEN"),
        ("x-other", "MARKER-BROKER-OTHER"),
        ("x-trace-id", TRACE),
    ] {
        assert!(sent.iter().all(|request| request.header(name) == value), "{name}: {sent:#?}");
    }
    if engine == Engine::Postgres {
        metrics::interrupt_the_store(&served, || {
            world.wrong("POST", "/v1/events", ROOT_KEY, br#"{"event_type":"a","payload":"MARKER-PAYLOAD"}"#);
            world.listings();
        })
        .await;
    }
    let mut disclosed = world.disclosed;
    served.process.terminate();
    served.process.end(PATIENCE).await.expect("the exit status");
    for line in served.process.lines() {
        disclosed.add("a log line", line.text);
    }
    let logged = |part: &str| disclosed.0.iter().any(|(by, text)| by == "a log line" && text.contains(part));
    // The log contains the lines to search, in the expected format.
    assert!(
        logged("request completed") && logged("HTTP_503") && logged("saga_id"),
        "the log is not at level trace"
    );
    for code in ["UNAUTHORIZED", "BROKER_5XX", "BAD_REQUEST", "UNKNOWN"] {
        assert!(logged(code), "no log line contains {code}");
    }
    assert_eq!(logged("\"level\":"), format == "json");
    disclosed.check_only(TRACE, &["a log line", "/audit"]);
    disclosed.check(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_disclosed_on_sqlite_with_human_logs() {
    check(Engine::Sqlite, "human").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_disclosed_on_postgres_with_json_logs() {
    check(Engine::Postgres, "json").await;
}

/// Checks that neither the output of `config` nor the error for an invalid setting contains a secret, and that the
/// error names the setting.
#[test]
fn settings_do_not_disclose_secrets() {
    let database = format!("postgres://user:{PASSWORD}@127.0.0.1:1/db");
    let good = settings(&database, BROKER_URL);
    let mut disclosed = Disclosed::default();
    for arguments in [&["config"][..], &["config", "--json"], &["migrate"], &["event", "list"]] {
        let ran = run(arguments, &good, "");
        assert!(ran.stdout.len() + ran.stderr.len() > 20, "{arguments:?}");
        // A path is not a secret and is shown.
        let text = (ran.stdout + &ran.stderr).replace("MARKER-BROKER-PATH", "…");
        disclosed.add(&arguments.join(" "), text);
    }
    for (name, value) in [
        ("POSTHASTE_ROOT_KEY", "MARKER-SHORT"),
        ("POSTHASTE_ROOT_KEY", "MARKER-AND spaces in it"),
        ("POSTHASTE_ROOT_KEY", "MARKER-TWICE-OVER-MARKER-TWICE-OVER-"),
        ("POSTHASTE_SECRET_KEY", "MARKER-NO-KEY"),
        ("POSTHASTE_BROKER_HEADERS", "MARKER-ALONE"),
        ("POSTHASTE_BROKER_HEADERS", "A: b; MARKER-ALONE"),
        ("POSTHASTE_DATABASE_URL", "mysql://user:MARKER-PASSWORD@db/x"),
        ("POSTHASTE_DATABASE_URL_WORKER", "user:MARKER-PASSWORD@db"),
        ("POSTHASTE_BROKER_URL", "https://user:MARKER-PASSWORD@broker.example/"),
    ] {
        for arguments in [["serve"], ["config"]] {
            let ran = run(&arguments, &[(name, value)], "").expect(1);
            assert!(ran.stderr.contains(name), "{ran:?}");
            disclosed.add(&format!("{} with a wrong {name}", arguments[0]), ran.stdout + &ran.stderr);
        }
    }
    disclosed.check(&[]);
}
