//! Tests for bad input and faults. A table lists the tests that cover each kind. The tests in this file run the program
//! with its default limits and cover the rest: invalid bodies, many slow or idle clients, and their memory usage.

use crate::served::{Engine, PATIENCE, ROOT_KEY, Served};
use crate::tools;
use posthaste_bench::server::peak_memory_mib;
use posthaste_testkit::client::Answer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Instant;

/// Each kind of bad input or fault, and the tests that cover it.
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
        "the store unavailable",
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
const HERE_BODIES: &str = "posthaste/tests/outside/bad_input.rs bad_bodies_are_refused";
const HERE_MEMORY: &str =
    "posthaste/tests/outside/bad_input.rs a_thousand_large_uploads_share_one_memory_limit";

/// The maximum memory usage of the program in MiB, without request bodies and connection buffers.
const OWN_MIB: f64 = 128.0;
/// The API's limit for the total size of all request bodies, in MiB.
const UPLOADS_MIB: f64 = 256.0;
/// The maximum memory usage of the buffers of a thousand connections, in MiB. Their data is not yet part of a body.
const CONNECTIONS_MIB: f64 = 64.0;

/// The number of open files reserved for the tests that run at the same time.
const OTHER_FILES: u64 = 3_000;

const EVENT: &str = r#"{"event_type":"a","payload":1}"#;

#[test]
fn every_row_names_existing_tests() {
    for (row, tests) in ROWS {
        for test in tests {
            let (file, name) = test.split_once(' ').expect("a file and a test");
            let text = std::fs::read_to_string(tools::repository("crates").join(file)).unwrap_or_default();
            let exists =
                [format!("fn {name}("), format!("fn {name}<")].iter().any(|found| text.contains(found));
            assert!(exists, "{row}: there is no {name} in {file}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_are_refused() {
    let served = Served::start(Engine::Sqlite, &[]).await;
    let event = |payload: &str| format!(r#"{{"event_type":"a","payload":{payload}}}"#).into_bytes();
    let nested = |depth: usize| event(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    // `{}` compressed by gzip.
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
    let json = "content-type: application/json\r\n";
    for (what, headers, body, statuses) in [
        ("an empty body", json, Vec::new(), &[400][..]),
        ("a NUL byte", json, b"\0".to_vec(), &[400]),
        ("a byte order mark", json, [b"\xef\xbb\xbf", EVENT.as_bytes()].concat(), &[400]),
        ("UTF-16", json, EVENT.encode_utf16().flat_map(u16::to_le_bytes).collect(), &[400]),
        ("invalid UTF-8 in a payload", json, b"{\"event_type\":\"a\",\"payload\":\"\xff\"}".to_vec(), &[400]),
        (
            "a surrogate encoded as UTF-8",
            json,
            b"{\"event_type\":\"a\",\"payload\":\"\xed\xa0\x80\"}".to_vec(),
            &[400],
        ),
        ("NaN", json, event("NaN"), &[400]),
        ("a trailing comma", json, event("[1,]"), &[400]),
        ("single quotes", json, event("'x'"), &[400]),
        ("a comment", json, event("1 /* x */"), &[400]),
        ("a control character in a string", json, event("\"a\tb\""), &[400]),
        ("two documents", json, EVENT.repeat(2).into_bytes(), &[400]),
        ("a truncated document", json, EVENT.as_bytes()[..20].to_vec(), &[400]),
        ("a form", "content-type: application/x-www-form-urlencoded\r\n", b"event_type=a".to_vec(), &[415]),
        ("null", json, b"null".to_vec(), &[422]),
        ("a number", json, b"7".to_vec(), &[422]),
        ("an array in an array", json, format!("[[{EVENT}]]").into_bytes(), &[422]),
        ("one level too deep", json, nested(129), &[413, 422]),
        ("a hundred thousand levels", json, nested(100_000), &[413, 422]),
        (
            "a hundred thousand levels that are not closed",
            json,
            "[".repeat(100_000).into_bytes(),
            &[400, 413, 422],
        ),
        ("a payload one byte too large", json, event(&format!("\"{}\"", "x".repeat(256 * 1024 - 1))), &[413]),
        (
            "a batch of one event too many",
            json,
            format!("[{}]", vec![EVENT; 1001].join(",")).into_bytes(),
            &[413],
        ),
        ("a body of 9 MiB", json, vec![b' '; 9 << 20], &[413]),
        ("gzip", "content-encoding: gzip\r\n", gzip.to_vec(), &[415]),
        ("gzip without content-encoding", json, gzip.to_vec(), &[400]),
        ("an unknown encoding", "content-encoding: br, gzip\r\n", gzip.to_vec(), &[415]),
    ] {
        let (name, value) = headers.trim().split_once(": ").expect("a header");
        let answer = served.call("POST", "/v1/events").header(name, value).body(body).send_blocking();
        assert!(statuses.contains(&answer.status), "{what}: {}", answer.whole());
        assert_eq!(answer.header("content-type"), "application/problem+json", "{what}: {}", answer.whole());
        assert!(answer.json()["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{what}");
    }
    for (what, request, status) in [
        ("a protocol other than HTTP", "HELO example.com\r\n\r\n", 400),
        (
            "a negative content-length",
            "POST /v1/events HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
            400,
        ),
        (
            "a request head of 1 MiB",
            &format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)),
            431,
        ),
    ] {
        let mut stream = TcpStream::connect(served.address).expect("a connection");
        let _ = stream.write_all(request.as_bytes());
        let answer = Answer::read_blocking(&mut stream);
        assert_eq!(answer.status, status, "{what}: {}", answer.whole());
    }
    // An incomplete body is not stored.
    drop(begin(&served, 100, EVENT.as_bytes()));
    assert_eq!(served.get("/v1/events").expect(200).json()["items"].as_array().map(Vec::len), Some(0));
    served.post("/v1/events", EVENT).expect(202);
}

/// Starts an upload with a content length of `length` bytes, and sends only `sent`.
fn begin(served: &Served, length: usize, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).expect("a connection");
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ROOT_KEY}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    // The server may already have refused the upload and closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_slow_uploads_use_little_memory_and_block_no_caller() {
    allow_many_files();
    let served = Served::start(Engine::Sqlite, &[]).await;
    let mut slow: Vec<TcpStream> =
        (0..1_000).map(|_| begin(&served, EVENT.len(), &EVENT.as_bytes()[..10])).collect();
    served.post("/v1/events", EVENT).expect(202);
    served.get("/readyz").expect(200);
    let peak = peak_memory_mib(served.process.id()).expect("a running process");
    println!("1,000 slow uploads: peak of {peak:.0} MiB");
    assert!(peak < OWN_MIB, "{peak:.0} MiB");
    // A slow upload that is completed is accepted.
    let mut last = slow.pop().expect("a slow upload");
    last.write_all(&EVENT.as_bytes()[10..]).expect("writing the rest");
    Answer::read_blocking(&mut last).expect(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_large_uploads_share_one_memory_limit() {
    allow_many_files();
    let served = Served::start(Engine::Sqlite, &[]).await;
    let megabyte = vec![b' '; 1 << 20];
    let large: Vec<TcpStream> = (0..1_000).map(|_| begin(&served, 8 << 20, &megabyte)).collect();
    served.get("/healthz").expect(200);
    // The bodies together exceed the memory limit: some uploads are refused, and the rest stay open.
    let until = Instant::now() + PATIENCE;
    let mut refused = 0;
    while refused < 500 {
        refused = large.iter().filter(|stream| is_refused(stream)).count();
        assert!(Instant::now() < until, "{refused} of 1,000 were refused");
    }
    let peak = peak_memory_mib(served.process.id()).expect("a running process");
    println!("1,000 uploads of 1 MiB or more: peak of {peak:.0} MiB");
    // The allocator retains some of the memory that growing buffers have freed.
    assert!(peak < 2.0 * UPLOADS_MIB + CONNECTIONS_MIB + OWN_MIB, "{peak:.0} MiB");
    drop(large);
    // Closing the connections releases the memory.
    let until = Instant::now() + PATIENCE;
    while served.post("/v1/events", EVENT).status != 202 {
        assert!(Instant::now() < until, "the memory for bodies is not released");
    }
}

/// Returns whether the server has responded with 503.
fn is_refused(stream: &TcpStream) -> bool {
    let mut begin = [0; 16];
    stream.set_nonblocking(true).expect("a nonblocking socket");
    stream.peek(&mut begin).is_ok_and(|_| begin.starts_with(b"HTTP/1.1 503 "))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_connections_do_not_block_others() {
    let files = allow_many_files();
    // The API's connection limit, or fewer connections if the limit on open files requires it.
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).min(10_000);
    assert!(connections >= 1_000, "this test needs more open files than the limit of {files}");
    let served = Served::start(Engine::Sqlite, &[]).await;
    let connect = || TcpStream::connect(served.address).expect("a connection");
    let mut idle = Vec::new();
    while idle.len() + 500 < connections {
        idle.extend((0..450).map(|_| connect()));
        // After this response, all previous connections are accepted and the listen queue, which is limited, is empty.
        served.get("/healthz").expect(200);
    }
    served.get("/readyz").expect(200);
    served.post("/v1/events", EVENT).expect(202);
    let peak = peak_memory_mib(served.process.id()).expect("a running process");
    println!("{} idle connections: peak of {peak:.0} MiB", idle.len());
    assert!(peak < UPLOADS_MIB + OWN_MIB, "{peak:.0} MiB");
    // Above the limit, a caller waits until another connection is closed.
    idle.extend((0..600).map(|_| connect()));
    let mut waiting = connect();
    waiting
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .expect("writing the request");
    idle.truncate(connections / 2);
    Answer::read_blocking(&mut waiting).expect(200);
}

/// This test takes 30 seconds, the time limit for receiving a body.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_takes_too_long_returns_408() {
    let served = Served::start(Engine::Sqlite, &[]).await;
    let mut slow = begin(&served, EVENT.len(), &EVENT.as_bytes()[..10]);
    let answer = Answer::read_blocking(&mut slow).expect(408);
    assert!(answer.json()["detail"].as_str().is_some_and(|detail| detail.contains("send it again")));
    assert_eq!(served.get("/v1/events").expect(200).json()["items"].as_array().map(Vec::len), Some(0));
}

/// Raises the limit on open files of this process and its children to the hard limit, and returns the limit.
fn allow_many_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum })
        .expect("raising the limit of open files");
    most
}
