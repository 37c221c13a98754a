//! Tests wake-ups between processes through PostgreSQL: a notification reaches every listener, a cancelled wait loses
//! no notification, and a broken connection is reported once and re-established.

use posthaste_core::JobId;
use posthaste_core::ports::{AnnounceStore as _, Announcement, ListenStore as _, Stage, StoreError};
use posthaste_store::postgres::{ConnectionMonitor, PostgresListener, PostgresStore};
use posthaste_testkit::harness::Harness;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// The timeout for expected notifications, so that a lost one fails the test instead of blocking it.
const PATIENCE: Duration = Duration::from_secs(30);

type Database = Harness<PostgresStore>;

async fn announce(h: &Database, stages: &[Stage]) {
    let announcement = Announcement { stages: stages.iter().copied().collect(), lowest_finished: None };
    h.store.announcer().announce(announcement).await.expect("to announce");
}

async fn next(listener: &mut PostgresListener) -> Result<Vec<Stage>, StoreError> {
    let heard = timeout(PATIENCE, listener.next_announcements()).await.expect("a notification in time");
    heard.map(|heard| heard.stages.into_iter().collect())
}

/// Creates a connected listener without pending notifications.
async fn connected(h: &Database) -> PostgresListener {
    let mut listener = PostgresListener::new(h.url(), &ConnectionMonitor::default()).expect("a listener");
    assert_eq!(next(&mut listener).await.expect("the first notification"), Stage::ALL);
    listener
}

#[tokio::test]
async fn notifications_reach_every_listener_and_are_merged() {
    let h = Harness::postgres("announce").await;
    let (mut one, mut two) = (connected(&h).await, connected(&h).await);
    // No listener waits during this time. Unknown payloads are ignored.
    for _ in 0..200 {
        announce(&h, &[Stage::Delivery, Stage::Results, Stage::Delivery]).await;
    }
    h.direct
        .run("SELECT pg_notify('posthaste', 'stage of a later version'), pg_notify('posthaste', '')")
        .await;
    announce(&h, &[]).await;
    announce(&h, &[Stage::Outbox]).await;
    for listener in [&mut one, &mut two] {
        let mut answers = 0;
        let mut heard = BTreeSet::new();
        while !heard.contains(&Stage::Outbox) {
            let stages = next(listener).await.expect("notifications");
            assert_eq!(stages.iter().collect::<BTreeSet<_>>().len(), stages.len(), "each stage once");
            heard.extend(stages);
            answers += 1;
        }
        assert_eq!(heard, BTreeSet::from([Stage::Delivery, Stage::Results, Stage::Outbox]));
        assert!(answers < 200, "{answers} results for 200 equal notifications");
    }
}

#[tokio::test]
async fn a_broken_connection_is_reported_once_and_re_established() {
    let h = Harness::postgres("announce").await;
    let mut listener = connected(&h).await;
    for _ in 0..3 {
        let cut = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'posthaste listener'";
        assert_eq!(h.direct.number(cut).await, 1);
        announce(&h, &[Stage::Routing]).await;
        let received = next(&mut listener).await;
        assert!(matches!(received, Err(StoreError::Unavailable { .. })), "{received:?}");
        assert_eq!(next(&mut listener).await.expect("a new connection"), Stage::ALL);
        announce(&h, &[Stage::Admission]).await;
        assert_eq!(next(&mut listener).await.expect("a notification"), [Stage::Admission]);
    }
}

#[tokio::test]
async fn cancelling_a_wait_loses_no_notification() {
    let h = Harness::postgres("announce").await;
    let mut listener = PostgresListener::new(h.url(), &ConnectionMonitor::default()).expect("a listener");
    // Each wait is too short to connect, but the connection is still established.
    let mut first = None;
    for _ in 0..10_000 {
        first = timeout(Duration::from_millis(1), listener.next_announcements()).await.ok();
        if first.is_some() {
            break;
        }
    }
    assert_eq!(first.expect("a result").expect("the first notification"), Announcement::all());
    for stage in Stage::ALL.into_iter().cycle().take(100) {
        announce(&h, &[stage]).await;
        // Poll once and cancel; the notification may not have arrived yet.
        match timeout(Duration::ZERO, listener.next_announcements()).await {
            Ok(heard) => assert_eq!(heard.expect("a notification").stages, [stage].into()),
            Err(_) => assert_eq!(next(&mut listener).await.expect("a notification"), [stage]),
        }
    }
}

#[tokio::test]
async fn the_smallest_finished_job_arrives_with_the_wake_up() {
    let h = Harness::postgres("announce").await;
    let mut listener = connected(&h).await;
    for job in [70, 7, 700] {
        let mut announcement = Announcement::default();
        announcement.add_finished(Some(JobId::from_store(job)));
        h.store.announcer().announce(announcement).await.expect("to announce");
    }
    let mut lowest = None;
    while lowest != Some(JobId::from_store(7)) {
        let heard = timeout(PATIENCE, listener.next_announcements()).await.expect("a message in time");
        lowest = heard.expect("a message").lowest_finished;
        assert!(lowest.is_some());
    }
}

#[tokio::test]
async fn an_unavailable_server_is_an_error_each_time() {
    // No server listens on port 1.
    let mut listener =
        PostgresListener::new("postgres://nobody@127.0.0.1:1/none", &ConnectionMonitor::default())
            .expect("a listener");
    for _ in 0..3 {
        let received = next(&mut listener).await;
        assert!(matches!(received, Err(StoreError::Unavailable { .. })), "{received:?}");
    }
    let refused = PostgresListener::new("postgres://a@b/c?sslmode=allow", &ConnectionMonitor::default());
    assert!(matches!(refused, Err(StoreError::Unusable { .. })), "{refused:?}");
}
