//! Creates databases on the PostgreSQL server that `scripts/with-postgres` starts. The schema is migrated once, into
//! a template database; each test gets a copy. Stores and tests connect as an ordinary login, which may create neither
//! roles nor databases and got its roles from an administrator, as on a managed server.

use posthaste_core::digest::digest_of;
use posthaste_store::postgres::{self, AdministratorSql, MIGRATIONS, MigrateOptions, RoleSource};
use posthaste_store::{RolePrefix, grants};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

const URL_VARIABLE: &str = "POSTHASTE_TEST_POSTGRES_URL";
/// The advisory lock held while roles and the template are created.
const CLUSTER_LOCK: i64 = 0x7065_7374_6861;

/// The superuser of every test server.
pub const ADMIN: &str = "posthaste_test";
/// The ordinary login that owns the schema of every test database.
pub const OWNER: &str = "posthaste_owner";

/// Returns the URL of the server's maintenance database for a superuser.
pub fn admin_url() -> String {
    std::env::var(URL_VARIABLE).unwrap_or_else(|_| {
        panic!("{URL_VARIABLE} is not set: run the tests with `make test`, or with scripts/with-postgres cargo test")
    })
}

/// Returns the URL of a database on the same server, for its owner.
pub fn url_of(database: &str) -> String {
    let admin = admin_url();
    let (server, _) = admin.rsplit_once('/').expect("a URL that ends in /<database>");
    url_with(&format!("{server}/{database}"), Some(OWNER), None)
}

/// Returns the URL of the same database for a superuser.
pub fn as_admin(url: &str) -> String {
    url_with(url, Some(ADMIN), None)
}

/// Returns the options with which the owner migrates a test database. All test databases of a server share their roles.
pub fn shared_roles() -> MigrateOptions {
    MigrateOptions { roles: RoleSource::Existing, share_roles: true, ..MigrateOptions::default() }
}

/// Returns the SQL with which an administrator prepares a test database.
pub fn administrator_sql(database: &str) -> String {
    let (owner, prefix) = (OWNER.to_owned(), RolePrefix::default());
    AdministratorSql { database: database.to_owned(), owner, logins: Vec::new(), prefix, share_roles: true }
        .to_string()
}

/// Returns `url` with the given user and address. `None` keeps the existing one.
pub fn url_with(url: &str, user: Option<&str>, address: Option<std::net::SocketAddr>) -> String {
    let rest = url.strip_prefix("postgres://").expect("a postgres:// URL");
    let (authority, path) = rest.split_once('/').expect("a database");
    let (login, host) = authority.split_once('@').expect("a user");
    let host = address.map_or_else(|| host.to_owned(), |address| address.to_string());
    format!("postgres://{}@{host}/{path}", user.unwrap_or(login))
}

/// Returns the server address in a URL.
pub fn server_address(url: &str) -> std::net::SocketAddr {
    let authority = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("a host");
    authority.parse().unwrap_or_else(|_| panic!("{authority} is not an address and a port"))
}

pub async fn client(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    tokio::spawn(connection);
    client
}

/// Returns a database name that is unique on this server and within PostgreSQL's length limit.
fn fresh_name(what: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let what: String = what.chars().take(30).collect();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("ph_{what}_{}_{count}", std::process::id())
}

/// Creates an empty database that is prepared for a migration by its owner, and returns its URL.
pub async fn empty_database(what: &str) -> String {
    let name = fresh_name(what);
    let admin = lock_cluster().await;
    create_prepared(&admin, &name).await;
    url_of(&name)
}

/// Returns a connection that holds the lock for changes to the cluster, because several test programs run concurrently.
/// Closing the connection releases the lock.
async fn lock_cluster() -> Client {
    let admin = client(&admin_url()).await;
    admin.execute("SELECT pg_advisory_lock($1)", &[&CLUSTER_LOCK]).await.expect("the lock");
    admin
}

async fn create_prepared(admin: &Client, name: &str) {
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
    let inside = client(&as_admin(&url_of(name))).await;
    inside.batch_execute(&administrator_sql(name)).await.expect("the roles");
}

/// Creates a migrated database and returns its URL.
pub async fn migrated_database(what: &str) -> String {
    let template = template().await;
    let name = fresh_name(what);
    let sql = format!("CREATE DATABASE {name} TEMPLATE {template} OWNER {OWNER}");
    client(&admin_url()).await.batch_execute(&sql).await.expect("a copy of the template");
    url_of(&name)
}

async fn template() -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    TEMPLATE.get_or_init(make_template).await
}

async fn make_template() -> String {
    // The name contains a digest of the schema and the rights, so that a change to either creates a new template.
    let mut made_from: String = MIGRATIONS.iter().map(|migration| migration.sql).collect();
    made_from.push_str(&grants::postgres_grants(&RolePrefix::default()));
    let digest = digest_of(made_from.as_bytes());
    let name = format!("ph_template_{}", &digest.as_str()["sha256:".len()..][..16]);
    let admin = lock_cluster().await;
    let exists = admin
        .query_opt("SELECT 1 FROM pg_database WHERE datname = $1 AND datallowconn", &[&name])
        .await
        .expect("the list of databases")
        .is_some();
    if !exists {
        let raw = format!("{name}_raw");
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {raw}")).await.expect("no leftover");
        create_prepared(&admin, &raw).await;
        postgres::migrate(&url_of(&raw), &shared_roles()).await.expect("the migration");
        // The migrator's connection may take a moment to close.
        for _ in 0..200 {
            if admin.batch_execute(&format!("ALTER DATABASE {raw} RENAME TO {name}")).await.is_ok() {
                break;
            }
            admin
                .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", &[&raw])
                .await
                .expect("to terminate connections");
        }
    }
    name
}
