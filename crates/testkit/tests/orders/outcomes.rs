//! Tests the effect of each broker response and fault on the state, error code, next attempt and audit note of an
//! order, with the real adapter.

use crate::broker::answer;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::{DeadLetterStore as _, Stores};
use posthaste_services::egress::EgressPolicy;
use posthaste_services::outbox::HttpBroker;
use posthaste_services::sender::{KeepAlive, Resolve, Resolving, Sender, Trust};
use posthaste_services::step::Step as _;
use posthaste_testkit::fixtures::actor;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::order_lane::{OrderRig, POLICY, http_broker, loopback_sender};
use posthaste_testkit::receiver::{Act, Receiver, closed_port};
use std::time::Duration;

const PATIENT: Duration = Duration::from_secs(30);
/// A deadline that is expected to expire.
const SHORT: Duration = Duration::from_millis(300);

/// The destination of an order.
enum Place {
    /// A broker that reads the order and then runs a script.
    Broker(Vec<Act>),
    /// A broker that resets the connection without reading the order.
    Unread,
    ClosedPort,
    /// A host name that does not resolve.
    NoName,
    /// An `https` URL of a server that does not support TLS.
    NoTls,
    /// An address that the address policy refuses.
    Blocked,
}

/// The expected result of sending an order.
enum Fate {
    /// The order is sent. An empty `note` means that the audit row has no note.
    Sent {
        code: &'static str,
        note: &'static str,
        broker_order_id: Option<&'static str>,
    },
    /// The order is retried. `seconds` is the range of the delay that the broker requested, or `None` for the
    /// backoff of the retry policy.
    Failed {
        code: &'static str,
        seconds: Option<(u64, u64)>,
        maybe_executed: bool,
        note: &'static str,
    },
    Dead {
        code: &'static str,
        note: &'static str,
    },
}

type Row = (&'static str, Place, Fate);

struct Nowhere;

impl Resolve for Nowhere {
    fn resolve<'a>(&'a self, _name: &'a str) -> Resolving<'a> {
        Box::pin(async { Err(std::io::ErrorKind::NotFound.into()) })
    }
}

const fn retried(code: &'static str, note: &'static str) -> Fate {
    Fate::Failed { code, seconds: None, maybe_executed: true, note }
}

const fn unsent(code: &'static str, note: &'static str) -> Fate {
    Fate::Failed { code, seconds: None, maybe_executed: false, note }
}

const fn limited(seconds: Option<(u64, u64)>) -> Fate {
    Fate::Failed { code: "RATE_LIMITED", seconds, maybe_executed: false, note: "" }
}

const fn sent(note: &'static str, broker_order_id: Option<&'static str>) -> Fate {
    Fate::Sent { code: "", note, broker_order_id }
}

const fn dead(code: &'static str, note: &'static str) -> Fate {
    Fate::Dead { code, note }
}

/// A placeholder in responses, replaced by the idempotency key of the row's order. Both have the same length.
const KEY: &str = "row-000-0";
const GOOD: &str = r#"{"broker_order_id":"brk-1","idempotency_key":"row-000-0"}"#;

fn answered(status: u16, headers: &str, body: &str) -> Place {
    Place::Broker(answer(status, headers, body))
}

/// Returns a broker that writes `head`, followed by an endless stream of bytes.
fn endless(head: &str) -> Place {
    Place::Broker(vec![Act::SayLong(head.to_owned()), Act::Endlessly(&[b'x'; 65_536])])
}

fn wrote(bytes: &str) -> Place {
    Place::Broker(vec![Act::SayLong(bytes.to_owned()), Act::Close])
}

fn successes() -> Vec<Row> {
    const NO_OBJECT: &str = "is not a JSON object";
    vec![
        ("200", answered(200, "", GOOD), sent("", Some("brk-1"))),
        ("201", answered(201, "", GOOD), sent("", Some("brk-1"))),
        (
            "202 with a number for an id",
            answered(202, "", r#"{"broker_order_id":17}"#),
            sent("has no", Some("17")),
        ),
        (
            "200 with another key",
            answered(200, "", r#"{"idempotency_key":"else"}"#),
            sent("has another", None),
        ),
        ("200 that is no JSON", answered(200, "", "<ok/>"), sent(NO_OBJECT, None)),
        ("204", wrote("HTTP/1.1 204 No Content\r\n\r\n"), sent(NO_OBJECT, None)),
        (
            "200 and no end",
            endless("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"),
            sent(NO_OBJECT, None),
        ),
        (
            "200 and a body that breaks off",
            wrote("HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n{\"broker_order_id\":\"brk"),
            sent(NO_OBJECT, None),
        ),
        (
            "409 with the key and an id",
            answered(409, "", GOOD),
            Fate::Sent { code: "CONFLICT_PROCESSED", note: "", broker_order_id: Some("brk-1") },
        ),
        (
            "409 with the key and the words",
            answered(409, "", r#"{"idempotency_key":"row-000-0","error":"Order Already Processed."}"#),
            Fate::Sent { code: "CONFLICT_PROCESSED", note: "", broker_order_id: None },
        ),
    ]
}

fn refusals() -> Vec<Row> {
    let mut rows: Vec<_> = [400, 404, 405, 410, 415, 418, 422, 451]
        .map(|status| ("a 4xx", answered(status, "", "{}"), dead("BAD_REQUEST", "the broker returned 4")))
        .into();
    rows.extend([401, 403].map(|status| {
        ("credentials", answered(status, "", "{}"), dead("UNAUTHORIZED", "the broker returned 40"))
    }));
    rows
}

fn unclear() -> Vec<Row> {
    let mut rows: Vec<_> = [300, 301, 302, 304, 307, 308]
        .map(|status| {
            let place = answered(status, "location: http://127.0.0.1:1/\r\n", "");
            ("a redirect", place, retried("UNKNOWN", "the broker returned 3"))
        })
        .into();
    rows.push(("409 with the words alone", answered(409, "", r#"{"error":"already processed"}"#), doubted()));
    rows.push((
        "409 under another key",
        answered(409, "", r#"{"idempotency_key":"else","broker_order_id":"b"}"#),
        doubted(),
    ));
    rows.push(("409 and nothing", answered(409, "", ""), doubted()));
    rows.push(("408", answered(408, "", "{}"), retried("NETWORK_TIMEOUT", "returned 408")));
    rows.push((
        "a status that no standard knows",
        answered(999, "", "{}"),
        retried("UNKNOWN", "returned 999"),
    ));
    rows
}

const fn doubted() -> Fate {
    retried("UNKNOWN", "409 without evidence")
}

fn slowed() -> Vec<Row> {
    // Two minutes after the start of the test. The row with this date is sent first.
    let date = "retry-after: Fri, 15 Jan 2027 08:02:00 GMT\r\n";
    let busy = |seconds| Fate::Failed {
        code: "BROKER_5XX",
        seconds,
        maybe_executed: true,
        note: "the broker returned 5",
    };
    vec![
        ("429 until a date", answered(429, date, "{}"), limited(Some((100, 120)))),
        ("429 for 90 s", answered(429, "retry-after: 90\r\n", "{}"), limited(Some((90, 90)))),
        ("429 for a day", answered(429, "retry-after: 86400\r\n", "{}"), limited(Some((3600, 3600)))),
        ("429 for no time", answered(429, "retry-after: 0\r\n", "{}"), limited(None)),
        ("429 until soon", answered(429, "retry-after: soon\r\n", "{}"), limited(None)),
        ("429 alone", answered(429, "", "{}"), limited(None)),
        ("500", answered(500, "retry-after: 90\r\n", "{}"), busy(None)),
        ("502", answered(502, "", "<html>"), busy(None)),
        ("503 for 90 s", answered(503, "retry-after: 90\r\n", "{}"), busy(Some((90, 90)))),
        ("503 alone", answered(503, "", "{}"), busy(None)),
        ("599", answered(599, "", ""), busy(None)),
    ]
}

fn faults() -> Vec<Row> {
    const TIMEOUT: &str = "NETWORK_TIMEOUT";
    vec![
        ("silence", Place::Broker(vec![Act::Hold]), retried(TIMEOUT, "deadline passed after")),
        ("a reset after reading", Place::Broker(vec![Act::Reset]), retried(TIMEOUT, "broke after")),
        ("a reset before reading", Place::Unread, retried(TIMEOUT, "broke after")),
        ("an orderly end without an answer", wrote(""), retried(TIMEOUT, "broke after")),
        ("a closed port", Place::ClosedPort, unsent(TIMEOUT, "no connection")),
        ("a name that does not resolve", Place::NoName, unsent(TIMEOUT, "did not resolve")),
        ("no TLS", Place::NoTls, unsent(TIMEOUT, "TLS handshake")),
        ("a blocked address", Place::Blocked, unsent(TIMEOUT, "address policy")),
        ("not HTTP", wrote("220 mail.example ESMTP\r\n"), retried("UNKNOWN", "not valid HTTP")),
        ("a head without an end", endless("HTTP/1.1 200 OK\r\nx: "), retried("UNKNOWN", "not valid HTTP")),
    ]
}

fn sender_with(policy: EgressPolicy, resolver: impl Resolve) -> Sender {
    Sender::with_resolver(policy, Trust::nobody(), KeepAlive::default(), resolver).expect("a sender")
}

/// Returns the broker adapter for `place` and its receiver, if any. The receiver must be kept alive.
async fn broker_at(place: Place, key: &IdempotencyKey) -> (HttpBroker, Option<Receiver>) {
    let strict = || sender_with(EgressPolicy { allow_http: true, ..EgressPolicy::default() }, Nowhere);
    match place {
        Place::ClosedPort => (http_broker(loopback_sender(), &closed_port("/orders").await, PATIENT), None),
        Place::NoName => (http_broker(strict(), "http://broker.example/orders", PATIENT), None),
        Place::Blocked => (http_broker(strict(), &closed_port("/orders").await, PATIENT), None),
        Place::NoTls => {
            let receiver = Receiver::unread(vec![Act::Say(b"220 mail.example ESMTP\r\n")]).await;
            let url = receiver.url("/orders").replace("http://", "https://");
            (http_broker(loopback_sender(), &url, PATIENT), Some(receiver))
        }
        Place::Unread => {
            let receiver = Receiver::unread(vec![Act::Reset]).await;
            (http_broker(loopback_sender(), &receiver.url("/orders"), PATIENT), Some(receiver))
        }
        Place::Broker(mut acts) => {
            let deadline = if matches!(acts[..], [Act::Hold]) { SHORT } else { PATIENT };
            if let Act::SayLong(text) = &mut acts[0] {
                *text = text.replace(KEY, key.as_str());
            }
            let receiver = Receiver::scripted(acts).await;
            (http_broker(loopback_sender(), &receiver.url("/orders"), deadline), Some(receiver))
        }
    }
}

async fn check<S: Stores>(rig: &mut OrderRig<S>, number: usize, (name, place, fate): Row) {
    let key = rig.submit(&format!("row-{number:03}"), 1).await.remove(0);
    let (broker, _receiver) = broker_at(place, &key).await;
    let mut process = rig.process(broker);
    process.worker.step(rig.now()).await.expect("a step");
    process.worker.settle().await;
    let order = rig.order(&key).await;
    let note = rig.audit(&key).await.last().and_then(|entry| entry.note.clone()).unwrap_or_default();
    let code = order.last_error.clone().unwrap_or_default();
    let wait = order.next_attempt_at.since(rig.now());
    let context = format!("{name}: {order:?}, {note:?}");
    let noted = |expected: &str| note.contains(expected) && note.is_empty() == expected.is_empty();
    match fate {
        Fate::Sent { code: expected, note, broker_order_id } => {
            assert_eq!((order.status, code.as_str()), (OrderStatus::Sent, expected), "{context}");
            assert_eq!((order.retry_count, order.maybe_executed), (0, false), "{context}");
            assert_eq!(order.broker_order_id.as_deref(), broker_order_id, "{context}");
            assert!(order.result_digest.is_some() && noted(note), "{context}");
        }
        Fate::Failed { code: expected, seconds, maybe_executed, note } => {
            assert_eq!((order.status, code.as_str()), (OrderStatus::Failed, expected), "{context}");
            assert_eq!((order.retry_count, order.maybe_executed), (1, maybe_executed), "{context}");
            match seconds {
                None => {
                    assert_eq!(wait.as_micros(), POLICY.backoff(key.as_str(), 1).as_micros(), "{context}");
                }
                Some((least, most)) => {
                    let allowed = Duration::from_secs(least)..=Duration::from_secs(most);
                    assert!(allowed.contains(&wait), "{wait:?} {context}");
                }
            }
            assert!(order.result_digest.is_none() && noted(note), "{context}");
        }
        Fate::Dead { code: expected, note } => {
            assert_eq!((order.status, code.as_str()), (OrderStatus::Dead, expected), "{context}");
            assert_eq!((order.retry_count, order.maybe_executed), (0, false), "{context}");
            assert!(order.result_digest.is_none() && noted(note), "{context}");
        }
    }
    // The next row requires an open lane at full rate.
    rig.h.store.dead_letters().resume_lane(actor(), rig.now()).await.expect("a result");
    rig.h.direct.run("UPDATE outbox_lane SET rate = 1000, next_send_at = NULL, slowed_at = NULL").await;
}

pub(crate) async fn each_response_and_fault_leads_to_its_outcome<S: Stores>(h: Harness<S>) {
    let mut rig = OrderRig::new(h);
    let rows = slowed().into_iter().chain(successes()).chain(refusals()).chain(unclear()).chain(faults());
    for (number, row) in rows.enumerate() {
        check(&mut rig, number, row).await;
    }
    assert_eq!(rig.metric(r#"outbox_send_total{outcome="conflict_processed"}"#), Some(2.0));
    rig.check_audit().await;
}
