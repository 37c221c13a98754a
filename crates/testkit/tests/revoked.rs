//! Credentials that the broker stops to take while a thousand orders wait and three processes work: a
//! handful dies, everybody stops, and the rest goes through once it is mended.

use posthaste_core::lane::UNAUTHORIZED_MAX;
use posthaste_core::order::Order;
use posthaste_core::ports::{OutboxIntakeStore as _, OutboxWorkerStore as _, Stores as _};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::order;
use posthaste_testkit::fleet::{Fleet, Role, Wiring, settings};
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::LogLine;
use std::time::{Duration, Instant};

const ORDERS: u32 = 1_000;
const PROCESSES: usize = 3;
/// The senders of one process.
const PARALLELISM: i64 = 4;
const PATIENCE: Duration = Duration::from_secs(120);

async fn wait_until(direct: &Direct, what: &str, sql: &str, expected: i64) {
    let began = Instant::now();
    while direct.number(sql).await != expected {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn count(status: &str) -> String {
    format!("SELECT count(*) FROM outbox_orders WHERE status = '{status}'")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handful_dies_and_the_rest_goes_through_once_it_is_mended() {
    let server = PrivateServer::start("revoked");
    let store = server.migrated_store().await;
    let broker = TestBroker::start(Behaviour::Well).await;
    broker.set_trusting(false);
    let now = store.now().await.expect("the time");
    let orders: Vec<Order> = (0..ORDERS).map(|number| order(&format!("k-{number}"), number + 1)).collect();
    store.outbox_intake().submit_orders(orders, Duration::from_secs(86_400), now).await.expect("orders");

    let url = broker.url();
    let settings = settings(&[("POSTHASTE_BROKER_URL", &url)]);
    let fleet = Fleet::start(&server, Wiring::Direct, &[(Role::Outbox, PROCESSES)], &settings).await;
    let direct = Direct::postgres(&server.url("postgres")).await;
    wait_until(
        &direct,
        "the lane is paused",
        "SELECT count(*) FROM outbox_lane WHERE paused_at IS NOT NULL",
        1,
    )
    .await;
    wait_until(&direct, "nothing is under way", &count("sending"), 0).await;
    // What was out at the moment of the pause shares the fate of those before.
    let (dead, most) = (direct.number(&count("dead")).await, i64::from(UNAUTHORIZED_MAX) + PARALLELISM * 3);
    assert!((i64::from(UNAUTHORIZED_MAX)..=most).contains(&dead), "{dead} orders died");
    let doubtful = "SELECT count(*) FROM outbox_orders WHERE status = 'dead' AND maybe_executed";
    assert_eq!((direct.number(doubtful).await, broker.executions()), (0, 0));
    for member in &fleet.members {
        let says_so = |line: &LogLine| line.level == "ERROR" && line.message.contains("is paused");
        assert!(member.process.logs(says_so, PATIENCE).await, "{:#?}", member.process.lines());
    }

    broker.set_trusting(true);
    let now = store.now().await.expect("the time");
    store.outbox_worker().resume_lane(now).await.expect("to resume");
    wait_until(&direct, "the rest is sent", &count("sent"), i64::from(ORDERS) - dead).await;
    assert_eq!(direct.number(&count("dead")).await, dead, "nothing died after the pause");
    assert_eq!(broker.executions() as i64, i64::from(ORDERS) - dead);
    let senders = "SELECT count(DISTINCT worker_id) FROM outbox_audit WHERE status_to = 'sent'";
    assert_eq!(direct.number(senders).await, PROCESSES as i64, "all processes went on");
    assert_eq!(fleet.ended(), Vec::<String>::new());
}
