//! Tests the matrix on PostgreSQL: a login for each role tries every operation on every column.

use super::matrix::{ROLES, Table, expected};
use super::postgres_tries;
use futures_util::{SinkExt as _, TryStreamExt as _};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::{client, url_with};
use std::pin::pin;
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

pub(crate) type Database = Harness<posthaste_store::postgres::PostgresStore>;

/// Creates a login with a single role and returns its URL.
pub(crate) async fn login_url(h: &Database, role: &str, what: &str) -> String {
    // Roles belong to the whole server, which another test process may use at the same time.
    let name = format!("ph_{what}_{}_{role}_login", std::process::id());
    h.admin().await.run(&format!("CREATE ROLE {name} LOGIN IN ROLE {role}")).await;
    url_with(h.url(), Some(&name), None)
}

async fn login(h: &Database, role: &str, what: &str) -> Client {
    client(&login_url(h, role, what).await).await
}

/// Returns whether the role had the right to execute the statement. An error from a constraint implies the right.
fn has_right<T>(answer: &Result<T, Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => {
            let code = error.code().unwrap_or_else(|| panic!("not an error of the server: {error:?}"));
            assert_ne!(*code, SqlState::SYNTAX_ERROR, "{error}");
            assert_ne!(*code, SqlState::UNDEFINED_COLUMN, "{error}");
            assert_ne!(*code, SqlState::UNDEFINED_TABLE, "{error}");
            *code != SqlState::INSUFFICIENT_PRIVILEGE
        }
    }
}

async fn check(login: &Client, role: &str, sql: &str, allowed: bool) {
    let answer = login.simple_query(sql).await;
    let verdict = if allowed { "may" } else { "may not" };
    assert_eq!(has_right(&answer), allowed, "{role} {verdict}: {sql}\n{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_on_every_column_matches_the_matrix() {
    let h = Harness::postgres("roles").await;
    let mut roles = JoinSet::new();
    for (place, (_, role)) in ROLES.iter().enumerate() {
        let url = login_url(&h, role, "matrix").await;
        roles.spawn(async move {
            let login = client(&url).await;
            for table in &expected().tables {
                check_table(&login, place, table).await;
                check_copies(&login, place, table).await;
            }
        });
    }
    roles.join_all().await;
}

async fn check_table(login: &Client, place: usize, table: &Table) {
    let (name, (_, role)) = (table.name, ROLES[place]);
    for column in table.column_names() {
        let is_identity = column == "id" && !["outbox_lane", "clock_guard"].contains(&name);
        let (overriding, value) =
            if is_identity { ("OVERRIDING SYSTEM VALUE", "DEFAULT") } else { ("", "NULL") };
        let select = format!("SELECT {column} FROM posthaste.{name} WHERE false");
        let insert = format!("INSERT INTO posthaste.{name} ({column}) {overriding} SELECT NULL WHERE false");
        let update = format!("UPDATE posthaste.{name} SET {column} = {value} WHERE false");
        check(login, role, &select, table.may(place, 'S', column)).await;
        check(login, role, &insert, table.may(place, 'I', column)).await;
        check(login, role, &update, table.may(place, 'U', column)).await;
        // A condition reads a column just as a select list does.
        let hidden = format!("SELECT 1 FROM posthaste.{name} WHERE {column} IS NULL");
        check(login, role, &hidden, table.may(place, 'S', column)).await;
    }
    let all = table.may_every(place, 'S');
    check(login, role, &format!("SELECT count(*) FROM posthaste.{name}"), table.may_any(place, 'S')).await;
    check(login, role, &format!("SELECT * FROM posthaste.{name} WHERE false"), all).await;
    check(login, role, &format!("SELECT {name} FROM posthaste.{name} WHERE false"), all).await;
    check(login, role, &format!("DELETE FROM posthaste.{name} WHERE false"), table.may_delete(place)).await;
    check(login, role, &format!("TRUNCATE posthaste.{name}"), false).await;
}

/// Checks COPY of each column and of the whole table, without inserting rows.
async fn check_copies(login: &Client, place: usize, table: &Table) {
    let role = ROLES[place].1;
    let columns = table.column_names().into_iter();
    let mut tries: Vec<_> = columns
        .map(|column| {
            let what = format!("posthaste.{} ({column})", table.name);
            (what, table.may(place, 'S', column), table.may(place, 'I', column))
        })
        .collect();
    let whole = format!("posthaste.{}", table.name);
    tries.push((whole, table.may_every(place, 'S'), table.may_every(place, 'I')));
    for (what, may_read, may_insert) in tries {
        let out = match login.copy_out(&format!("COPY {what} TO STDOUT")).await {
            Ok(rows) => rows.try_collect::<Vec<_>>().await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(has_right(&out), may_read, "{role}: COPY {what} TO STDOUT");
        let copy = format!("COPY {what} FROM STDIN");
        if may_insert {
            let sink = login
                .copy_in::<_, &[u8]>(&copy)
                .await
                .unwrap_or_else(|error| panic!("{role}: {copy}: {error}"));
            pin!(sink).close().await.expect("nothing to copy in");
        } else {
            // The driver cannot handle a COPY FROM STDIN that the server refuses.
            check(login, role, &copy, false).await;
        }
    }
}

#[tokio::test]
async fn every_right_on_every_function_matches_the_matrix() {
    let h = Harness::postgres("roles").await;
    let calls = [
        ("publish", "SELECT posthaste.publish('order.paid', '{}')"),
        ("requeue", "SELECT * FROM posthaste.requeue(1)"),
        ("compare_events", "SELECT * FROM posthaste.compare_events('{}', '{}', '{}', '{}', '{}')"),
        ("resume_lane", "SELECT posthaste.resume_lane()"),
        ("limit_to_clock", "SELECT posthaste.limit_to_clock(now())"),
        ("check_attributes", "SELECT posthaste.check_attributes('{}')"),
        (
            "report_presence",
            "SELECT posthaste.report_presence('p', 'r', 'v', now(), now(), '{}', '{}', '{}')",
        ),
        ("report_health", "SELECT posthaste.report_health(now(), '{}', '{}', '{}', '{}', '{}', '{}')"),
    ];
    let functions = expected().functions;
    assert_eq!(functions.len(), calls.len());
    for (place, (_, role)) in ROLES.iter().enumerate() {
        let login = login(&h, role, "functions").await;
        for (function, call) in calls {
            let allowed = functions[function][place] == "X";
            check(&login, role, "BEGIN", true).await;
            check(&login, role, call, allowed).await;
            check(&login, role, "ROLLBACK", true).await;
        }
        // Trigger functions, which run as the owner, cannot be called directly.
        for function in [
            "queue_events",
            "note_subscription_change",
            "note_subscription_patterns",
            "complete_event_types",
            "write_dead_letter",
            "write_audit",
            "keep_ledger",
            "refuse",
        ] {
            let may = format!("SELECT has_function_privilege('posthaste.{function}()', 'EXECUTE')::text");
            let row = login.query_one(&may, &[]).await.expect("a result");
            assert_eq!(row.get::<_, String>(0), "false", "{role} may call {function}");
        }
    }
}

#[tokio::test]
async fn no_role_exceeds_its_rights() {
    let h = Harness::postgres("roles").await;
    let before = h.direct.rows(postgres_tries::RIGHTS).await;
    for (_, role) in ROLES {
        let login = login(&h, role, "beyond").await;
        for sql in postgres_tries::BEYOND {
            check(&login, role, "BEGIN", true).await;
            check(&login, role, sql, false).await;
            check(&login, role, "ROLLBACK", true).await;
        }
        for sql in postgres_tries::BEYOND_ALONE {
            check(&login, role, sql, false).await;
        }
        for (_, other) in ROLES {
            check(&login, role, &format!("SET ROLE {other}"), other == role).await;
            check(&login, role, "RESET ROLE", true).await;
        }
        let owner =
            h.direct.texts("SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'posthaste'").await;
        check(&login, role, &format!("SET ROLE {}", owner[0]), false).await;
        check(&login, role, &format!("SET SESSION AUTHORIZATION {}", owner[0]), false).await;
        // GRANT without the grant option causes only a warning.
        for sql in postgres_tries::HAND_OUT {
            let _ = login.simple_query(sql).await;
        }
    }
    let rights = h.direct.rows(postgres_tries::RIGHTS).await;
    assert_eq!(rights, before, "some role has changed the rights");
}
