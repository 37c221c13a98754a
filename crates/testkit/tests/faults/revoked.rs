//! Tests revoked broker credentials with 1,000 orders and three sending processes. A few orders become `dead`,
//! all processes pause, and the remaining orders are sent once the credentials are valid again.

use posthaste_core::lane::UNAUTHORIZED_MAX;
use posthaste_core::order::Order;
use posthaste_core::ports::{DeadLetterStore as _, OutboxIntakeStore as _, Stores as _};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::{actor, order};
use posthaste_testkit::fleet::{Fleet, Role, Wiring, settings};
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::LogLine;
use std::time::Duration;

const ORDERS: u32 = 1_000;
/// The number of orders that the broker executes before it refuses the credentials.
const BEFORE: usize = 200;
const PROCESSES: usize = 3;
/// The number of concurrent senders per process.
const PARALLELISM: i64 = 4;
const PATIENCE: Duration = Duration::from_secs(120);

fn count(status: &str) -> String {
    format!("SELECT count(*) FROM outbox_orders WHERE status = '{status}'")
}

/// The way in which the lane opens again once the credentials are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    /// An operator resumes the lane.
    Resumed,
    /// A probe succeeds.
    Probed,
}

async fn check(name: &str, recovery: Recovery) {
    let server = PrivateServer::start(name);
    let store = server.migrated_store().await;
    let broker = TestBroker::start(Behaviour::Well).await;
    broker.revoke_after(BEFORE);
    let now = store.now().await.expect("the time");
    let orders: Vec<Order> = (0..ORDERS).map(|number| order(&format!("k-{number}"), number + 1)).collect();
    store.outbox_intake().submit_orders(orders, Duration::from_secs(86_400), now).await.expect("orders");

    let url = broker.url();
    let settings = settings(&[("POSTHASTE_BROKER_URL", &url)]);
    let fleet = Fleet::start(&server, Wiring::Direct, &[(Role::Outbox, PROCESSES)], &settings).await;
    let direct = Direct::postgres(&server.url("postgres")).await;
    let paused = "SELECT count(*) FROM outbox_lane WHERE paused_at IS NOT NULL";
    // One statement checks all conditions, including that all executed orders are settled. A request that is in
    // progress when the lane pauses may still succeed and open the lane, until the next refusals pause it again.
    let settled = format!(
        "{paused} AND NOT EXISTS (SELECT FROM outbox_orders WHERE status = 'sending')
            AND {BEFORE} = ({})",
        count("sent")
    );
    direct.until("the lane is paused and no send is in progress", &settled, 1, PATIENCE).await;
    // Requests in progress when the lane pauses are refused too.
    let handful = i64::from(UNAUTHORIZED_MAX) + PARALLELISM * PROCESSES as i64;
    let dead = direct.number(&count("dead")).await;
    assert!((i64::from(UNAUTHORIZED_MAX)..=2 * handful).contains(&dead), "{dead} orders are dead");
    let doubtful = "SELECT count(*) FROM outbox_orders WHERE status = 'dead' AND maybe_executed";
    assert_eq!((direct.number(doubtful).await, broker.executions()), (0, BEFORE));
    for member in &fleet.members {
        let says_so = |line: &LogLine| line.level == "ERROR" && line.message.contains("broker lane paused");
        assert!(member.process.logs(says_so, PATIENCE).await, "{:#?}", member.process.lines());
    }

    let last = direct.number("SELECT max(id) FROM outbox_audit").await;
    broker.set_trusting(true);
    if recovery == Recovery::Resumed {
        let now = store.now().await.expect("the time");
        store.dead_letters().resume_lane(actor(), now).await.expect("to resume");
    }
    direct.until("the rest is sent", &count("sent"), i64::from(ORDERS) - dead, PATIENCE).await;
    assert_eq!(direct.number(&count("dead")).await, dead, "no order died after the pause");
    assert_eq!(broker.executions() as i64, i64::from(ORDERS) - dead);
    assert_eq!(direct.number(paused).await, 0, "the lane is open again");
    let senders = format!(
        "SELECT count(DISTINCT worker_id) FROM outbox_audit WHERE status_to = 'sent' AND id > {last}"
    );
    assert_eq!(direct.number(&senders).await, PROCESSES as i64, "all processes continued");
    assert_eq!(fleet.ended(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_revoked_credentials_the_rest_is_sent_once_resumed() {
    let _in_pairs = crate::in_pairs().await;
    check("revoked", Recovery::Resumed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_revoked_credentials_a_probe_resumes_the_lane() {
    let _in_pairs = crate::in_pairs().await;
    check("probed", Recovery::Probed).await;
}
