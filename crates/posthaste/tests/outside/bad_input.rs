//! What happens when what comes is bad, row by row: where each is shown, and, on the running program with its
//! default bounds, what no other test shows: bodies of every other wrong kind, crowds of slow and idle callers,
//! and how much memory they cost.

use crate::served::{Engine, PATIENCE, ROOT_KEY, Served};
use crate::tools;
use posthaste_bench::server::peak_memory_mib;
use posthaste_testkit::client::Answer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Instant;

/// What comes, and the tests that show what happens then.
const ROWS: [(&str, &[&str]); 9] = [
    ("not JSON, invalid UTF-8", &["testkit/tests/api/events.rs bad_events_are_refused_by_name", HERE_BODIES]),
    (
        "wrong types, unknown fields, malformed event_type, bad cursor or limit",
        &[
            "testkit/tests/api/events.rs bad_events_are_refused_by_name",
            "testkit/tests/api/pages.rs bad_cursors_and_limits_are_refused",
            "testkit/tests/api/subscriptions.rs bad_subscriptions_are_refused_by_name",
        ],
    ),
    (
        "too large, too many, too deep",
        &["testkit/tests/api/events.rs a_batch_is_all_or_nothing", HERE_BODIES, HERE_MEMORY],
    ),
    (
        "http, private addresses, userinfo in a callback URL",
        &["testkit/tests/api/subscriptions.rs refused_urls_name_the_violated_rule"],
    ),
    (
        "no key, a wrong key, a key of another role",
        &[
            "testkit/tests/api/roles.rs only_a_known_key_is_accepted",
            "testkit/tests/api/roles.rs each_role_may_make_its_own_calls_only",
        ],
    ),
    (
        "the database away",
        &[
            "testkit/tests/api/faults.rs an_unavailable_store_returns_503",
            "testkit/tests/api/faults.rs broken_connections_lose_no_acknowledged_event",
            "testkit/tests/faults/outage.rs an_outage_is_survived_with_few_log_lines",
        ],
    ),
    (
        "kill -9 anywhere",
        &[
            "testkit/tests/faults/chaos.rs nothing_acknowledged_is_lost_and_nothing_is_sent_twice_without_a_fault",
        ],
    ),
    (
        "a receiver that hangs, floods, redirects, resets",
        &[
            "testkit/tests/deliveries/misbehaving_receivers.rs misbehaving_receivers_do_not_affect_a_healthy_one",
            "testkit/tests/deliveries/isolation.rs one_hanging_receiver_does_not_delay_nineteen_others",
        ],
    ),
    ("SIGTERM", &["testkit/tests/faults/drain.rs every_role_exits_with_0_on_sigterm"]),
];
const HERE_BODIES: &str = "posthaste/tests/outside/bad_input.rs bodies_of_every_wrong_kind";
const HERE_MEMORY: &str = "posthaste/tests/outside/bad_input.rs a_thousand_large_uploads_share_their_memory";

/// What the program may use beside what callers send it.
const OWN_MIB: f64 = 128.0;
/// All bodies together: the API's own bound.
const UPLOADS_MIB: f64 = 256.0;
/// What a thousand connections hold that has not become a body yet.
const CONNECTIONS_MIB: f64 = 64.0;

/// What the tests beside this one have open at once.
const OTHER_FILES: u64 = 3_000;

const EVENT: &str = r#"{"event_type":"a","payload":1}"#;

#[test]
fn every_row_has_its_test() {
    for (row, tests) in ROWS {
        for test in tests {
            let (file, name) = test.split_once(' ').expect("a file and a test");
            let text = std::fs::read_to_string(tools::repository("crates").join(file)).unwrap_or_default();
            let is_there =
                [format!("fn {name}("), format!("fn {name}<")].iter().any(|found| text.contains(found));
            assert!(is_there, "{row}: there is no {name} in {file}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_every_wrong_kind() {
    let served = Served::start(Engine::Sqlite, &[]).await;
    let event = |payload: &str| format!(r#"{{"event_type":"a","payload":{payload}}}"#).into_bytes();
    let nested = |depth: usize| event(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    // "{}" as gzip makes it.
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
    let json = "content-type: application/json\r\n";
    for (what, headers, body, statuses) in [
        ("nothing", json, Vec::new(), &[400][..]),
        ("a nul", json, b"\0".to_vec(), &[400]),
        ("a byte order mark", json, [b"\xef\xbb\xbf", EVENT.as_bytes()].concat(), &[400]),
        ("UTF-16", json, EVENT.encode_utf16().flat_map(u16::to_le_bytes).collect(), &[400]),
        (
            "a byte that is no UTF-8 within a payload",
            json,
            b"{\"event_type\":\"a\",\"payload\":\"\xff\"}".to_vec(),
            &[400],
        ),
        (
            "a surrogate as UTF-8",
            json,
            b"{\"event_type\":\"a\",\"payload\":\"\xed\xa0\x80\"}".to_vec(),
            &[400],
        ),
        ("NaN", json, event("NaN"), &[400]),
        ("a comma too many", json, event("[1,]"), &[400]),
        ("single quotes", json, event("'x'"), &[400]),
        ("a comment", json, event("1 /* x */"), &[400]),
        ("a control character in a text", json, event("\"a\tb\""), &[400]),
        ("two documents", json, EVENT.repeat(2).into_bytes(), &[400]),
        ("half a document", json, EVENT.as_bytes()[..20].to_vec(), &[400]),
        ("a form", "content-type: application/x-www-form-urlencoded\r\n", b"event_type=a".to_vec(), &[415]),
        ("null", json, b"null".to_vec(), &[422]),
        ("a number", json, b"7".to_vec(), &[422]),
        ("a list within a list", json, format!("[[{EVENT}]]").into_bytes(), &[422]),
        ("one level too deep", json, nested(129), &[413, 422]),
        ("a hundred thousand levels", json, nested(100_000), &[413, 422]),
        (
            "a hundred thousand levels that never close",
            json,
            "[".repeat(100_000).into_bytes(),
            &[400, 413, 422],
        ),
        (
            "a payload of one byte too many",
            json,
            event(&format!("\"{}\"", "x".repeat(256 * 1024 - 1))),
            &[413],
        ),
        ("an event too many", json, format!("[{}]", vec![EVENT; 1001].join(",")).into_bytes(), &[413]),
        ("nine megabytes", json, vec![b' '; 9 << 20], &[413]),
        ("gzip", "content-encoding: gzip\r\n", gzip.to_vec(), &[415]),
        ("gzip that says nothing of it", json, gzip.to_vec(), &[400]),
        ("an unknown encoding", "content-encoding: br, gzip\r\n", gzip.to_vec(), &[415]),
    ] {
        let (name, value) = headers.trim().split_once(": ").expect("a header");
        let answer = served.call("POST", "/v1/events").header(name, value).body(body).send_blocking();
        assert!(statuses.contains(&answer.status), "{what}: {}", answer.whole());
        assert_eq!(answer.header("content-type"), "application/problem+json", "{what}: {}", answer.whole());
        assert!(answer.json()["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{what}");
    }
    for (what, request, status) in [
        ("no HTTP", "HELO example.com\r\n\r\n", 400),
        ("a length that is none", "POST /v1/events HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", 400),
        (
            "a head without an end",
            &format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)),
            431,
        ),
    ] {
        let mut stream = TcpStream::connect(served.address).expect("a connection");
        let _ = stream.write_all(request.as_bytes());
        let answer = Answer::read_blocking(&mut stream);
        assert_eq!(answer.status, status, "{what}: {}", answer.whole());
    }
    // A body that breaks off is not stored, and nobody is told anything.
    drop(begin(&served, 100, EVENT.as_bytes()));
    assert_eq!(served.get("/v1/events").expect(200).json()["items"].as_array().map(Vec::len), Some(0));
    served.post("/v1/events", EVENT).expect(202);
}

/// An upload that announces `length` bytes and has sent some of them.
fn begin(served: &Served, length: usize, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).expect("a connection");
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ROOT_KEY}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    // One that is refused may have been closed by now.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_slow_uploads_cost_little_and_stop_nobody() {
    allow_many_files();
    let served = Served::start(Engine::Sqlite, &[]).await;
    let mut slow: Vec<TcpStream> =
        (0..1_000).map(|_| begin(&served, EVENT.len(), &EVENT.as_bytes()[..10])).collect();
    served.post("/v1/events", EVENT).expect(202);
    served.get("/readyz").expect(200);
    let peak = peak_memory_mib(served.process.id()).expect("a running process");
    println!("1,000 slow uploads: {peak:.0} MiB at most");
    assert!(peak < OWN_MIB, "{peak:.0} MiB");
    // Whoever goes on after all is answered as if it had never been slow.
    let mut last = slow.pop().expect("one of them");
    last.write_all(&EVENT.as_bytes()[10..]).expect("to write the rest");
    Answer::read_blocking(&mut last).expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_large_uploads_share_their_memory() {
    allow_many_files();
    let served = Served::start(Engine::Sqlite, &[]).await;
    let megabyte = vec![b' '; 1 << 20];
    let large: Vec<TcpStream> = (0..1_000).map(|_| begin(&served, 8 << 20, &megabyte)).collect();
    served.get("/healthz").expect(200);
    // The memory for bodies does not hold them all: some are told so, and the others wait for their rest.
    let until = Instant::now() + PATIENCE;
    let mut refused = 0;
    while refused < 500 {
        refused = large.iter().filter(|stream| is_refused(stream)).count();
        assert!(Instant::now() < until, "{refused} of 1,000 were refused");
    }
    let peak = peak_memory_mib(served.process.id()).expect("a running process");
    println!("1,000 uploads of a megabyte and more: {peak:.0} MiB at most");
    // The allocator keeps some of the memory that growing buffers left behind.
    assert!(peak < 2.0 * UPLOADS_MIB + CONNECTIONS_MIB + OWN_MIB, "{peak:.0} MiB");
    drop(large);
    // Their memory is free again.
    let until = Instant::now() + PATIENCE;
    while served.post("/v1/events", EVENT).status != 202 {
        assert!(Instant::now() < until, "the memory for bodies is never free again");
    }
}

/// Whether it was answered by now, and asked to come again.
fn is_refused(stream: &TcpStream) -> bool {
    let mut begin = [0; 16];
    stream.set_nonblocking(true).expect("not to wait");
    stream.peek(&mut begin).is_ok_and(|_| begin.starts_with(b"HTTP/1.1 503 "))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_connections_let_others_through() {
    let files = allow_many_files();
    // The API's own bound, or what this machine allows.
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).min(10_000);
    assert!(connections >= 1_000, "this test needs more open files: ulimit -n says {files}");
    let served = Served::start(Engine::Sqlite, &[]).await;
    let connect = || TcpStream::connect(served.address).expect("a connection");
    let mut idle = Vec::new();
    while idle.len() + 500 < connections {
        idle.extend((0..450).map(|_| connect()));
        // Behind all of these: the queue of the socket, which has its own bound, is empty again.
        served.get("/healthz").expect(200);
    }
    served.get("/readyz").expect(200);
    served.post("/v1/events", EVENT).expect(202);
    let peak = peak_memory_mib(served.process.id()).expect("a running process");
    println!("{} idle connections: {peak:.0} MiB at most", idle.len());
    assert!(peak < UPLOADS_MIB + OWN_MIB, "{peak:.0} MiB");
    // Over the bound a caller waits until somebody leaves.
    idle.extend((0..600).map(|_| connect()));
    let mut waiting = connect();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("to ask");
    idle.truncate(connections / 2);
    Answer::read_blocking(&mut waiting).expect(200);
}

/// It takes the half minute that a body may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_takes_too_long_is_told_so() {
    let served = Served::start(Engine::Sqlite, &[]).await;
    let mut slow = begin(&served, EVENT.len(), &EVENT.as_bytes()[..10]);
    let answer = Answer::read_blocking(&mut slow).expect(408);
    assert!(answer.json()["detail"].as_str().is_some_and(|detail| detail.contains("send it again")));
    assert_eq!(served.get("/v1/events").expect(200).json()["items"].as_array().map(Vec::len), Some(0));
}

/// As many open files as this process and its children may have; answers how many that is.
fn allow_many_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum })
        .expect("more open files");
    most
}
