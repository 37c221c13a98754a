//! Tests times passed by callers: functions that any login may call limit them to within 5 s of the server's clock,
//! unless the owner has disabled the limit.

use super::postgres::{Database, login_url};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::client;
use tokio_postgres::Client;

/// The tolerance in seconds: far above 5 s, for a slow machine, and far below the differences that the tests use.
const NEAR_S: u32 = 60;

async fn guarded() -> Database {
    let h = Harness::postgres("times").await;
    h.direct.run("UPDATE clock_guard SET enforced = true").await;
    h
}

async fn login(h: &Database, role: &str, what: &str) -> Client {
    client(&login_url(h, role, what).await).await
}

/// Returns whether all stored times are close to the server's clock.
async fn is_now(h: &Database, time: &str, table: &str) -> bool {
    let sql = format!(
        "SELECT count(*) FROM {table} WHERE abs(extract(epoch FROM clock_timestamp() - {time})) > {NEAR_S}"
    );
    h.direct.number(&sql).await == 0
}

fn presence(seen_at: &str, interval: &str) -> String {
    format!(
        "SELECT posthaste.report_presence('p', 'router', '1', {seen_at}, {seen_at}, ARRAY[{interval}]::timestamptz[],
            '{{events_accepted}}', '{{7}}')"
    )
}

fn health(seen_at: &str, interval: &str, subscription: i64) -> String {
    format!(
        "SELECT posthaste.report_health({seen_at}, '{{{subscription}}}', ARRAY[{interval}]::timestamptz[], '{{1}}',
            '{{0,0,0,0,0,0,0,0,0,0,0,0}}', '{{TIMEOUT}}', ARRAY[{seen_at}]::timestamptz[])"
    )
}

const FAR: &str = "timestamptz '2096-01-01'";
const LONG_AGO: &str = "timestamptz '1999-01-01'";

#[tokio::test]
async fn a_report_with_a_future_time_deletes_no_counts() {
    let h = guarded().await;
    let subscription = h.subscribe("a").await.get();
    let caller = login(&h, "viewer", "future").await;
    let bin = "date_bin('10 min', now() - interval '1 hour', timestamptz '1970-01-01Z')";
    for sql in [presence("now()", "now() - interval '1 hour'"), health("now()", bin, subscription)] {
        caller.batch_execute(&sql).await.expect("a report");
    }
    let kept = async || {
        let rollups = h.direct.number("SELECT sum(amount)::bigint FROM rollups").await;
        (rollups, h.direct.number("SELECT count(*) FROM subscription_health").await)
    };
    assert_eq!(kept().await, (14, 1), "the previous hour is counted");
    for moment in [FAR, LONG_AGO, "timestamptz 'infinity'"] {
        for sql in [presence(moment, moment), health(moment, moment, subscription)] {
            caller.batch_execute(&sql).await.expect("a report");
        }
        assert_eq!(kept().await, (14, 1), "{moment}");
        assert!(is_now(&h, "seen_at", "processes").await, "{moment}");
        assert!(is_now(&h, "last_error_at", "subscription_health").await, "{moment}");
    }
    assert_eq!(
        h.direct
            .number(
                "SELECT count(*) FROM processes WHERE started_at > clock_timestamp() + interval '1 minute'"
            )
            .await,
        0
    );
}

#[tokio::test]
async fn requeue_and_resume_ignore_a_far_future_time() {
    let h = guarded().await;
    let (_, _, letter) = h.dead_letter("a").await;
    let caller = login(&h, "dead_letter_operator", "millennium").await;
    let sql = format!("SELECT * FROM posthaste.requeue({letter}, '9999-01-01')");
    caller.batch_execute(&sql).await.expect("a new delivery");
    let made = "(SELECT * FROM webhook_delivery_sagas WHERE requeued_from IS NOT NULL) AS made";
    assert_eq!(h.direct.number(&format!("SELECT count(*) FROM {made}")).await, 1);
    for time in ["next_attempt_at", "created_at", "updated_at"] {
        assert!(is_now(&h, time, made).await, "{time}");
    }
    caller.batch_execute("SELECT posthaste.resume_lane('9999-01-01')").await.expect("the lane");
    assert!(is_now(&h, "updated_at", "outbox_lane").await);
}

#[tokio::test]
async fn only_the_owner_can_disable_the_limit() {
    let h = guarded().await;
    let caller = login(&h, "viewer", "switch").await;
    let report = presence(LONG_AGO, "now()");
    caller.batch_execute(&report).await.expect("a report");
    assert!(is_now(&h, "seen_at", "processes").await);
    // The limit also applies if the row is missing.
    h.direct.run("DELETE FROM clock_guard").await;
    caller.batch_execute(&report).await.expect("a report");
    assert!(is_now(&h, "seen_at", "processes").await);
    h.direct.run("DELETE FROM processes").await;
    h.direct.run("INSERT INTO clock_guard (enforced) VALUES (false)").await;
    caller.batch_execute(&report).await.expect("a report");
    assert!(!is_now(&h, "seen_at", "processes").await, "without the limit, the caller's time is stored");
}
