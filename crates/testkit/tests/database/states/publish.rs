//! Tests `posthaste.publish`, which stores an event in the caller's transaction on PostgreSQL: its valid and invalid
//! arguments, and its resistance to a hostile caller.

use posthaste_core::ports::{ReaderStore as _, Stores as _};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::{client, url_with};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// The maximum time that a test waits for a blocked caller.
const PATIENCE: Duration = Duration::from_secs(30);

type Database = Harness<posthaste_store::postgres::PostgresStore>;

/// Creates a login with a single role and connects with it.
async fn login(h: &Database, role: &str) -> Client {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("ph_caller_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    h.admin().await.run(&format!("CREATE ROLE {name} LOGIN IN ROLE {role}")).await;
    client(&url_with(h.url(), Some(&name), None)).await
}

async fn user_of(caller: &Client) -> String {
    caller.query_one("SELECT current_user::text", &[]).await.expect("a name").get(0)
}

async fn publish(caller: &Client, arguments: &str) -> Result<i64, Error> {
    let row = caller.query_one(&format!("SELECT posthaste.publish({arguments})"), &[]).await?;
    Ok(row.get(0))
}

async fn stored(h: &Database) -> (i64, i64) {
    let events = h.direct.number("SELECT count(*) FROM events").await;
    (events, h.direct.number("SELECT count(*) FROM routing_queue").await)
}

#[tokio::test]
async fn an_event_is_published_once_and_queued() {
    let h = Harness::postgres("publish").await;
    let caller = login(&h, "event_publisher").await;
    let plain = publish(&caller, "'order.paid', '{\"a\" : 1.0}'").await.expect("an event");
    let named = publish(&caller, "'order.paid', '[]', 'external-1'").await.expect("an event");
    assert_ne!(plain, named);
    let again = publish(&caller, "'order.paid', '[]', 'external-1'").await.expect("the first one");
    assert_eq!(again, named, "the same external id and content is the same event");
    for other in ["'another.type', '[]', 'external-1'", "'order.paid', '[ ]', 'external-1'"] {
        let error = publish(&caller, other).await.expect_err(other);
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{other}: {error}");
        let message = error.as_db_error().expect("an error of the server").message().to_owned();
        assert!(message.contains(&format!("event {named},")), "{message}");
    }
    let by_name = "external_event_id => 'external-2', payload => '\"p\"', event_type => 'by.name'";
    let third = publish(&caller, by_name).await.expect("an event");
    let rows =
        h.direct.rows("SELECT id, event_type, payload, external_event_id FROM events ORDER BY id").await;
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(
        rows,
        [
            vec![text(&plain.to_string()), text("order.paid"), text("{\"a\" : 1.0}"), None],
            vec![text(&named.to_string()), text("order.paid"), text("[]"), text("external-1")],
            vec![text(&third.to_string()), text("by.name"), text("\"p\""), text("external-2")],
        ]
    );
    let queued = h.direct.texts("SELECT event_id FROM routing_queue ORDER BY event_id").await;
    assert_eq!(queued, [plain, named, third].map(|id| id.to_string()));
}

#[tokio::test]
async fn tenant_and_attributes_are_part_of_the_content() {
    let h = Harness::postgres("publish").await;
    let caller = login(&h, "event_publisher").await;
    let content = r#"'a', '1', 'x', '{"region": "eu", "n": 1e1}', 'acme'"#;
    let first = publish(&caller, content).await.expect("an event");
    let named = r#"tenant => 'acme', attributes => '{"n":10,"region":"eu"}', payload => '1', event_type => 'a',
        external_event_id => 'x'"#;
    assert_eq!(publish(&caller, named).await.expect("the first one"), first);
    for other in [
        "'a', '1', 'x'",
        r#"'a', '1', 'x', '{"region": "eu", "n": 10}'"#,
        r#"'a', '1', 'x', '{"region": "eu", "n": 10}', 'other'"#,
        r#"'a', '1', 'x', '{"region": "eu", "n": "10"}', 'acme'"#,
        "'a', '1', 'x', NULL, 'acme'",
        "'a', '1', 'x', '{}', 'acme'",
    ] {
        let error = publish(&caller, other).await.expect_err(other);
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{other}: {error}");
    }
    let reader = h.store.reader();
    let event = reader.event(posthaste_core::EventId::from_store(first)).await.expect("a read").expect("it");
    assert_eq!(event.tenant.map(|tenant| tenant.into_string()).as_deref(), Some("acme"));
    assert_eq!(event.attributes.canonical(), r#"{"n":10,"region":"eu"}"#);
    // Empty attributes are the same as none.
    let bare = publish(&caller, "'a', '1', 'bare', '{}'").await.expect("an event");
    assert_eq!(publish(&caller, "'a', '1', 'bare'").await.expect("the same"), bare);
    for wrong in [
        "'a', '1', NULL, '[]'",
        "'a', '1', NULL, '{\"Region\": 1}'",
        "'a', '1', NULL, '{\"id\": 1}'",
        "'a', '1', NULL, '{\"region\": null}'",
        "'a', '1', NULL, NULL, ''",
        "'a', '1', NULL, NULL, repeat('t', 201)",
        "'posthaste.a', '1'",
    ] {
        let error = publish(&caller, wrong).await.expect_err(wrong);
        assert_eq!(error.code(), Some(&SqlState::CHECK_VIOLATION), "{wrong}: {error}");
    }
    assert_eq!(stored(&h).await, (2, 2));
}

#[tokio::test]
async fn a_rolled_back_event_is_never_sent() {
    let h = Harness::postgres("publish").await;
    let caller = login(&h, "event_publisher").await;
    caller.batch_execute("BEGIN").await.expect("a transaction");
    publish(&caller, "'order.paid', '{}', 'external'").await.expect("an event");
    publish(&caller, "'order.paid', '{}'").await.expect("an event");
    caller.batch_execute("ROLLBACK").await.expect("the end");
    assert_eq!(stored(&h).await, (0, 0));
    publish(&caller, "'order.paid', '{}', 'external'").await.expect("the external id is free again");
    assert_eq!(stored(&h).await, (1, 1));
}

#[tokio::test]
async fn a_second_caller_waits_for_the_first_and_gets_its_id() {
    let h = Harness::postgres("publish").await;
    let (first, second) = (login(&h, "event_publisher").await, login(&h, "event_publisher").await);
    let (name, admin) = (user_of(&second).await, h.admin().await);
    for (end, is_same) in [("COMMIT", true), ("ROLLBACK", false)] {
        let arguments = format!("'order.paid', '{{}}', 'held-{end}'");
        first.batch_execute("BEGIN").await.expect("a transaction");
        let id = publish(&first, &arguments).await.expect("an event");
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = '{name}' AND wait_event_type = 'Lock'"
        );
        let release = async {
            while admin.number(&waiting).await == 0 {}
            first.batch_execute(end).await.expect("the end");
        };
        let both = async { tokio::join!(publish(&second, &arguments), release) };
        let (other, ()) = tokio::time::timeout(PATIENCE, both).await.expect("the second caller to wait");
        assert_eq!(other.expect("an event") == id, is_same, "{end}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_refused_and_store_nothing() {
    let h = Harness::postgres("publish").await;
    let caller = login(&h, "event_publisher").await;
    let largest = "('\"' || repeat('x', 1048574) || '\"')::json";
    let larger = "('\"' || repeat('x', 1048575) || '\"')::json";
    let rows: &[(String, &SqlState)] = &[
        ("'', '{}'".to_owned(), &SqlState::CHECK_VIOLATION),
        ("'.paid', '{}'".to_owned(), &SqlState::CHECK_VIOLATION),
        ("'order paid', '{}'".to_owned(), &SqlState::CHECK_VIOLATION),
        ("E'order.paid\\n', '{}'".to_owned(), &SqlState::CHECK_VIOLATION),
        ("'ordér.paid', '{}'".to_owned(), &SqlState::CHECK_VIOLATION),
        ("repeat('t', 201), '{}'".to_owned(), &SqlState::CHECK_VIOLATION),
        ("NULL, '{}'".to_owned(), &SqlState::NOT_NULL_VIOLATION),
        ("'order.paid', NULL".to_owned(), &SqlState::NOT_NULL_VIOLATION),
        ("'order.paid', '{'".to_owned(), &SqlState::INVALID_TEXT_REPRESENTATION),
        (format!("'order.paid', {larger}"), &SqlState::CHECK_VIOLATION),
        ("'order.paid', '{}', ''".to_owned(), &SqlState::CHECK_VIOLATION),
        ("'order.paid', '{}', repeat('ü', 201)".to_owned(), &SqlState::CHECK_VIOLATION),
    ];
    for (arguments, code) in rows {
        let error = publish(&caller, arguments).await.expect_err(arguments);
        assert_eq!(error.code(), Some(*code), "{arguments}: {error}");
        assert_eq!(stored(&h).await, (0, 0), "{arguments}");
    }
    // Values of the maximum length are accepted.
    let longest = format!("repeat('t', 200), {largest}, repeat('ü', 200)");
    publish(&caller, &longest).await.expect("an event");
    assert_eq!(stored(&h).await, (1, 1));
}

#[tokio::test]
async fn only_publishers_and_the_ingest_role_may_call_it() {
    let h = Harness::postgres("publish").await;
    let roles = [
        "subscription_admin",
        "router_worker",
        "saga_orchestrator",
        "job_worker",
        "lease_cleaner",
        "dead_letter_operator",
        "outbox_writer",
        "outbox_worker",
        "key_keeper",
        "viewer",
    ];
    let ingest = login(&h, "event_ingest_writer").await;
    ingest.batch_execute("BEGIN").await.expect("a transaction");
    publish(&ingest, "'order.paid', '{}'").await.expect("an event");
    ingest.batch_execute("ROLLBACK").await.expect("the end");
    for role in roles {
        let caller = login(&h, role).await;
        let error = publish(&caller, "'order.paid', '{}'").await.expect_err(role);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{role}");
    }
    assert_eq!(stored(&h).await, (0, 0));
}

/// SQL that creates tables and functions of the caller, first in the search path, with the names that `publish`, its
/// checks and its triggers use.
const TRAPS: &str = r"
    CREATE TEMP TABLE events (id bigint, event_type text, payload json, external_event_id text UNIQUE);
    CREATE TEMP TABLE routing_queue (event_id bigint);
    CREATE TEMP TABLE new_events (id bigint);
    INSERT INTO pg_temp.new_events VALUES (999);
    CREATE FUNCTION trap.char_length(text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION trap.octet_length(text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '1999-01-01 00:00Z' $$;
    CREATE FUNCTION trap.always(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE OPERATOR trap.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.always);
    CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.always);
    SET search_path = pg_temp, trap, pg_catalog;
";

#[tokio::test]
async fn a_hostile_search_path_diverts_nothing() {
    let h = Harness::postgres("publish").await;
    let caller = login(&h, "event_publisher").await;
    let name = user_of(&caller).await;
    h.admin().await.run(&format!("CREATE SCHEMA trap AUTHORIZATION {name}")).await;
    caller.batch_execute(TRAPS).await.expect("the traps");
    let first = publish(&caller, "'order.paid', '{}', 'one'").await.expect("an event");
    let second = publish(&caller, "'order.paid', '{}', 'two'").await.expect("an event");
    assert_eq!(publish(&caller, "'order.paid', '{}', 'two'").await.expect("the first one"), second);
    let ids = [first, second].map(|id| id.to_string());
    assert_eq!(h.direct.texts("SELECT id FROM posthaste.events ORDER BY id").await, ids);
    assert_eq!(h.direct.texts("SELECT event_id FROM posthaste.routing_queue ORDER BY 1").await, ids);
    let old = "SELECT count(*) FROM posthaste.events WHERE created_at < now() - interval '1 hour'";
    assert_eq!(h.direct.number(old).await, 0);
    for trapped in ["SELECT count(*) FROM pg_temp.events", "SELECT count(*) FROM pg_temp.routing_queue"] {
        let count: i64 = caller.query_one(trapped, &[]).await.expect("a count").get(0);
        assert_eq!(count, 0, "{trapped}");
    }
    for wrong in ["'not a type', '{}'", "'order.paid', '{}', repeat('x', 201)"] {
        let error = publish(&caller, wrong).await.expect_err(wrong);
        assert_eq!(error.code(), Some(&SqlState::CHECK_VIOLATION), "{wrong}");
    }
}

/// Checks that a publisher may call only one function, and can choose neither an id nor a time.
#[tokio::test]
async fn a_publisher_chooses_no_id_and_no_time() {
    let h = Harness::postgres("publish").await;
    let caller = login(&h, "event_publisher").await;
    for sql in [
        "INSERT INTO posthaste.events (event_type, payload) VALUES ('a', '1')",
        "INSERT INTO posthaste.events (event_type, payload, created_at) VALUES ('a', '1', '2036-01-01')",
        "SELECT id FROM posthaste.events",
        "SELECT * FROM posthaste.schema_migrations",
        "SELECT posthaste.report_presence('p', 'r', 'v', now(), now(), '{}', '{}', '{}')",
    ] {
        let error = caller.batch_execute(sql).await.expect_err(sql);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {error}");
    }
    publish(&caller, "'order.paid', '{}'").await.expect("an event");
    let off =
        "SELECT count(*) FROM events WHERE abs(extract(epoch FROM clock_timestamp() - created_at)) > 60";
    assert_eq!(h.direct.number(off).await, 0, "the time is the server's");
}
