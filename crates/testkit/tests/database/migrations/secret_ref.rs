//! Tests that migration 9 gives existing subscriptions a secret reference each, also deleted ones, without a change of
//! their history.

use posthaste_store::migration::Migration;
use posthaste_store::{postgres, sqlite};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::postgres::{client, migrated_database};

const VERSION: u32 = 9;

/// Inserts subscriptions as the previous version does, and deletes one.
const SUBSCRIPTIONS: [&str; 2] = [
    "INSERT INTO subscriptions (event_type, callback_url, secret, created_at, updated_at)
     VALUES ('a', 'https://one.example/', 'v1:one', {now}, {now}), ('a', 'https://two.example/', 'v1:two', {now}, {now}),
         ('b', 'https://gone.example/', 'v1:gone', {now}, {now})",
    "UPDATE subscriptions SET deleted_at = {now}, updated_at = {now} WHERE event_type = 'b'",
];

/// Returns the migrations before this one, and this one. Later ones are left out.
fn around(migrations: &'static [Migration]) -> (Vec<Migration>, Migration) {
    let before = migrations.iter().copied().filter(|migration| migration.version < VERSION).collect();
    let this = migrations.iter().copied().find(|migration| migration.version == VERSION);
    (before, this.expect("the migration"))
}

async fn insert(direct: &Direct, now: &str) -> i64 {
    for sql in SUBSCRIPTIONS {
        direct.run(&sql.replace("{now}", now)).await;
    }
    direct.number("SELECT count(*) FROM subscription_changes").await
}

async fn check(direct: &Direct, changes: i64, now: &str) {
    let rows = "SELECT count(*) FROM subscriptions WHERE secret_ref IS NOT NULL";
    assert_eq!(direct.number(rows).await, 3);
    assert_eq!(direct.number("SELECT count(DISTINCT secret_ref) FROM subscriptions").await, 3);
    let secrets = direct.texts("SELECT secret FROM subscriptions ORDER BY id").await;
    assert_eq!(secrets, ["v1:one", "v1:two", "v1:gone"]);
    let history = "SELECT count(*) FROM subscription_changes";
    assert_eq!(direct.number(history).await, changes, "the migration changed no subscription");
    // The triggers that the migration replaces still do their work.
    direct.run("UPDATE subscriptions SET secret = 'v2:one' WHERE secret = 'v1:one'").await;
    assert_eq!(direct.number(history).await, changes);
    direct
        .run(&format!(
            "UPDATE subscriptions SET active = verified, updated_at = {now} WHERE secret = 'v2:one'"
        ))
        .await;
    assert_eq!(direct.number(history).await, changes + 1);
    let refused = direct.try_rows("UPDATE subscriptions SET secret = 'x' WHERE event_type = 'b'").await;
    assert!(refused.is_err_and(|error| error.contains("a deleted subscription never comes back")));
}

#[tokio::test]
async fn sqlite_rows_get_a_reference() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("posthaste.db");
    let (before, this) = around(sqlite::MIGRATIONS);
    sqlite::migrate_with(&path, &before).expect("the previous schema");
    let direct = Direct::sqlite(&path);
    let changes = insert(&direct, "1800000000000000").await;
    let applied = sqlite::migrate_with(&path, &[before, vec![this]].concat()).expect("a migration");
    assert_eq!(applied, [VERSION]);
    check(&direct, changes, "1800000000000001").await;
}

/// The previous schema is restored by hand, because the migrator grants the rights on the newest one.
#[tokio::test]
async fn postgres_rows_get_a_reference() {
    let url = migrated_database("secret_ref").await;
    let direct = Direct::postgres(&url).await;
    let (_, this) = around(postgres::MIGRATIONS);
    direct.run("DROP TRIGGER subscription_secret_ref ON subscriptions").await;
    direct.run("ALTER TABLE subscriptions DROP COLUMN secret_ref").await;
    let changes = insert(&direct, "now()").await;
    client(&url).await.batch_execute(this.sql).await.expect("a migration");
    check(&direct, changes, "now()").await;
    // A process of the previous version does not know the column.
    direct.run(&SUBSCRIPTIONS[0].replace("{now}", "now()")).await;
    assert_eq!(direct.number("SELECT count(DISTINCT secret_ref) FROM subscriptions").await, 6);
}
