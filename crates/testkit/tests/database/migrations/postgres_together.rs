//! Tests concurrent migrations: of one database, of several databases in a cluster, and of a cluster without roles.

use posthaste_store::postgres::{MIGRATIONS, MigrateOptions, PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::postgres::{client, empty_database, shared_roles};
use posthaste_testkit::private_server::PrivateServer;
use tokio::task::JoinSet;

async fn migrate_all(urls: Vec<String>, options: &MigrateOptions) -> Vec<usize> {
    let mut migrators = JoinSet::new();
    for url in urls {
        let options = options.clone();
        migrators.spawn(async move { migrate(&url, &options).await.expect("the migration").applied.len() });
    }
    migrators.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_database_is_migrated_once() {
    let url = empty_database("together").await;
    let applied = migrate_all(vec![url.clone(); 6], &shared_roles()).await;
    assert_eq!(applied.iter().sum::<usize>(), MIGRATIONS.len(), "exactly one applies the migrations");
    PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("a database that can be served");
}

/// Migrates all databases at the same time. Their migrators create the same roles, which belong to the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn databases_of_a_new_cluster_share_their_roles() {
    let server = PrivateServer::start_empty("together");
    let admin = client(&server.admin_url("postgres")).await;
    let options = MigrateOptions { share_roles: true, ..MigrateOptions::default() };
    let mut urls = Vec::new();
    for number in 0..4 {
        admin.batch_execute(&format!("CREATE DATABASE d{number}")).await.expect("a database");
        // Two migrators per database.
        urls.extend(vec![server.admin_url(&format!("d{number}")); 2]);
    }
    let applied = migrate_all(urls.clone(), &options).await;
    assert_eq!(applied.iter().sum::<usize>(), 4 * MIGRATIONS.len());
    let roles = "SELECT count(*) FROM pg_roles WHERE rolname !~ '^pg_' AND NOT rolcanlogin";
    assert_eq!(admin.query_one(roles, &[]).await.expect("a count").get::<_, i64>(0), 12);
    for url in urls {
        PostgresStore::connect(&PostgresOptions::new(&url)).await.expect("a database that can be served");
    }
}
