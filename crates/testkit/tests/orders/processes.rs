//! Tests that running processes store and send an order once if it is submitted many times concurrently.

use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::client::Call;
use posthaste_testkit::faults::order_chaos::submitter::{key, order_text};
use posthaste_testkit::fleet::{Fleet, Role, Wiring, free_address, settings};
use posthaste_testkit::harness::SqliteFile;
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::Program;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const API_KEY: &str = "the-root-key-of-the-order-once-test";
const PATIENCE: Duration = Duration::from_secs(60);

/// Submits one order 10 times and another 200 times, distributed over all servers, and checks that each is sent
/// once.
async fn submit_and_check(addresses: &[SocketAddr], broker: &TestBroker) {
    for (number, times) in [(0, 10), (1, 200)] {
        let calls: Vec<_> = (0..times)
            .map(|turn| {
                let call = Call::new(addresses[turn % addresses.len()], "POST", "/v1/orders", API_KEY);
                let call = call.header("idempotency-key", &key(number)).json(order_text(number));
                tokio::spawn(call.try_send())
            })
            .collect();
        let mut new = 0;
        for answer in calls {
            let answer = answer.await.expect("a caller").expect("a response");
            assert!([200, 202].contains(&answer.status), "{}", answer.text());
            new += usize::from(answer.status == 202);
        }
        assert_eq!(new, 1, "one response reports it as new");
        let path = format!("/v1/orders/{}", key(number));
        let began = Instant::now();
        loop {
            let seen = Call::new(addresses[0], "GET", &path, API_KEY).send().await.json();
            if seen["status"] == "sent" {
                assert_eq!(seen["result"]["broker_order_id"], seen["broker_order_id"], "{seen}");
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{seen}");
        }
        let books = broker.books();
        let sends = books.sent.iter().filter(|sent| sent.key == Some(key(number))).count();
        assert_eq!((sends, books.executed.len()), (1, number as usize + 1), "{books:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_postgres_send_an_order_once() {
    let server = PrivateServer::start("once");
    drop(server.migrated_store().await);
    let broker = TestBroker::start(Behaviour::Well).await;
    let url = broker.url();
    let settings = settings(&[("POSTHASTE_ROOT_KEY", API_KEY), ("POSTHASTE_BROKER_URL", &url)]);
    let roles = [(Role::Api, 2), (Role::Outbox, 2)];
    let fleet = Fleet::start(&server, Wiring::Direct, &roles, &settings).await;
    let addresses: Vec<SocketAddr> = fleet.members.iter().filter_map(|member| member.address).collect();
    assert_eq!(addresses.len(), 2);
    submit_and_check(&addresses, &broker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_on_sqlite_sends_an_order_once() {
    let file = SqliteFile::migrated();
    let broker = TestBroker::start(Behaviour::Well).await;
    let (url, address) = (broker.url(), free_address());
    let settings = settings(&[
        ("POSTHASTE_ROOT_KEY", API_KEY),
        ("POSTHASTE_BROKER_URL", &url),
        ("POSTHASTE_DATABASE_URL", &file.url()),
        ("POSTHASTE_LISTEN", &address.to_string()),
    ]);
    let process = Program::find().serve("posthaste", "api,outbox", &settings);
    assert!(process.serves(PATIENCE).await, "the process does not serve: {:#?}", process.lines());
    submit_and_check(&[address], &broker).await;
}
