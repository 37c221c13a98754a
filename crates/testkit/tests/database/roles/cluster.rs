//! Tests how a migration obtains its roles in a cluster that contains other databases and roles: it creates its own,
//! refuses those of others, and shares or renames them only with the option for it.

use posthaste_core::ports::{IngestStore as _, ReaderStore as _, StoreError, StoreResult, Stores as _};
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{
    AdministratorSql, LoginRoles, MigrateOptions, MigrateReport, PostgresOptions, PostgresStore, RoleSource,
    migrate,
};
use posthaste_store::{RolePrefix, grants};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fixtures::{T0, event};
use posthaste_testkit::postgres::{ADMIN, client, url_with};
use posthaste_testkit::private_server::PrivateServer;
use tokio_postgres::error::SqlState;

fn prefix(text: &str) -> RolePrefix {
    RolePrefix::parse(text).expect("a prefix")
}

fn options(text: &str, roles: RoleSource) -> MigrateOptions {
    MigrateOptions { prefix: prefix(text), roles, ..MigrateOptions::default() }
}

fn create(text: &str) -> MigrateOptions {
    options(text, RoleSource::Create)
}

/// Returns the text of an `Unusable` error. Panics on any other result.
fn refusal<T: std::fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Err(StoreError::Unusable { what }) => what,
        other => panic!("not refused: {other:?}"),
    }
}

fn check_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not contain {part:?}");
    }
}

/// A cluster with two empty databases, `shop` and `bank`, and a login with CREATEROLE that owns both.
struct Cluster {
    server: PrivateServer,
    admin: Direct,
}

const LOGIN: &str = "migrator";

impl Cluster {
    async fn start(what: &str) -> Self {
        let server = PrivateServer::start_empty(what);
        server.execute("postgres", &format!("CREATE ROLE {LOGIN} LOGIN CREATEROLE"));
        for database in ["shop", "bank"] {
            server.execute("postgres", &format!("CREATE DATABASE {database} OWNER {LOGIN}"));
        }
        let admin = Direct::postgres(&server.admin_url("postgres")).await;
        Self { server, admin }
    }

    fn url(&self, database: &str) -> String {
        url_with(&self.server.admin_url(database), Some(LOGIN), None)
    }

    async fn migrate(&self, database: &str, options: &MigrateOptions) -> StoreResult<MigrateReport> {
        migrate(&self.url(database), options).await
    }

    async fn store(&self, database: &str, text: &str) -> StoreResult<PostgresStore> {
        let options =
            PostgresOptions { role_prefix: prefix(text), ..PostgresOptions::new(self.url(database)) };
        PostgresStore::connect(&options).await
    }

    /// Checks that the database can be served: a call succeeds with the rights of each of two roles.
    async fn check_serves(&self, database: &str, text: &str) {
        let store = self.store(database, text).await.expect("the store");
        store.ingest().insert_events(vec![vec![event("a")]], T0).await.expect("an event");
        assert!(store.reader().lane().await.is_ok());
    }

    /// Returns the distinct comments of the roles with this prefix.
    async fn comments(&self, text: &str) -> Vec<String> {
        let names = DbRole::ALL.map(|role| format!("'{}'", prefix(text).role(role))).join(", ");
        let sql = format!(
            "SELECT DISTINCT coalesce(shobj_description(oid, 'pg_authid'), '') FROM pg_roles
                WHERE rolname IN ({names}) ORDER BY 1"
        );
        self.admin.texts(&sql).await
    }

    async fn inside(&self, database: &str) -> Direct {
        Direct::postgres(&self.server.admin_url(database)).await
    }

    /// Brings a migrated database to the state in which version 0.1 left it: neither the roles nor the schema have
    /// comments.
    async fn make_0_1(&self, database: &str) {
        let inside = self.inside(database).await;
        inside.run("COMMENT ON SCHEMA posthaste IS NULL").await;
        for role in DbRole::ALL {
            inside.run(&format!("COMMENT ON ROLE {} IS NULL", role.name())).await;
        }
    }
}

#[tokio::test]
async fn created_roles_carry_a_comment_and_belong_to_one_database() {
    let cluster = Cluster::start("owned").await;
    cluster.migrate("shop", &create("")).await.expect("the migration");
    assert_eq!(cluster.comments("").await, ["posthaste shop"]);
    assert!(cluster.migrate("shop", &create("")).await.expect("again").applied.is_empty());
    cluster.check_serves("shop", "").await;

    let message = refusal(cluster.migrate("bank", &create("")).await);
    check_says(&message, &["event_ingest_writer", "\"shop\"", "POSTHASTE_ROLE_PREFIX", "--share-roles"]);
    let shared = MigrateOptions { share_roles: true, ..create("") };
    cluster.migrate("bank", &shared).await.expect("shared roles");
    cluster.check_serves("bank", "").await;
    assert_eq!(cluster.comments("").await, ["posthaste shop"], "sharing does not change the owner");
    cluster.migrate("shop", &create("")).await.expect("without --share-roles in the first database");
    refusal(cluster.migrate("bank", &create("")).await);
}

#[tokio::test]
async fn a_foreign_role_is_refused_and_nothing_is_created() {
    let cluster = Cluster::start("foreign").await;
    cluster.admin.run("CREATE ROLE viewer").await;
    for share_roles in [false, true] {
        let message = refusal(cluster.migrate("shop", &MigrateOptions { share_roles, ..create("") }).await);
        check_says(
            &message,
            &["the role viewer", "POSTHASTE_ROLE_PREFIX", "COMMENT ON ROLE viewer IS 'posthaste shop'"],
        );
    }
    assert_eq!(cluster.comments("").await, [""], "only the foreign role exists");
    cluster.migrate("shop", &create("posthaste_")).await.expect("a prefix avoids the role");
    cluster.check_serves("shop", "posthaste_").await;
    cluster.admin.run("COMMENT ON ROLE viewer IS 'posthaste bank'").await;
    cluster.migrate("bank", &create("")).await.expect("the administrator has marked the role");
}

#[tokio::test]
async fn a_database_of_version_0_1_keeps_its_roles() {
    let cluster = Cluster::start("upgrade").await;
    cluster.migrate("shop", &create("")).await.expect("the migration");
    cluster
        .migrate("bank", &MigrateOptions { share_roles: true, ..create("") })
        .await
        .expect("the migration");
    cluster.make_0_1("shop").await;
    cluster.make_0_1("bank").await;
    assert_eq!(cluster.comments("").await, [""]);
    cluster.check_serves("shop", "").await;
    check_says(&refusal(cluster.migrate("shop", &create("ph_")).await), &["the prefix \"\"", "is \"ph_\""]);
    cluster.migrate("shop", &create("")).await.expect("an upgrade");
    assert_eq!(cluster.comments("").await, ["posthaste shop"]);
    // The roles now belong to the first database that was upgraded.
    check_says(&refusal(cluster.migrate("bank", &create("")).await), &["\"shop\"", "--rename-roles"]);
    let renamed = MigrateOptions { rename_roles: true, ..create("bank_") };
    cluster.migrate("bank", &renamed).await.expect("its own roles");
    cluster.check_serves("shop", "").await;
    cluster.check_serves("bank", "bank_").await;
    // A role that 0.1 did not create is not adopted.
    cluster.make_0_1("shop").await;
    cluster.inside("shop").await.run("REVOKE ALL ON SCHEMA posthaste FROM event_publisher").await;
    check_says(&refusal(cluster.migrate("shop", &create("")).await), &["the role event_publisher"]);
}

#[tokio::test]
async fn a_renamed_or_restored_database_keeps_its_roles() {
    let cluster = Cluster::start("renamed").await;
    cluster.migrate("shop", &create("")).await.expect("the migration");
    cluster.admin.run("ALTER DATABASE shop RENAME TO store").await;
    cluster.migrate("store", &create("")).await.expect("the renamed database");
    assert_eq!(cluster.comments("").await, ["posthaste store"]);
    cluster.check_serves("store", "").await;
    // A copy has the rights of the roles, but they belong to the original as long as that exists.
    cluster.admin.run(&format!("CREATE DATABASE copy TEMPLATE store OWNER {LOGIN}")).await;
    refusal(cluster.migrate("copy", &create("")).await);
    cluster.migrate("copy", &MigrateOptions { share_roles: true, ..create("") }).await.expect("a copy");
    cluster.admin.run("DROP DATABASE store WITH (FORCE)").await;
    // An empty database does not inherit roles with their members, but may share them.
    refusal(cluster.migrate("bank", &create("")).await);
    cluster.migrate("copy", &create("")).await.expect("the restored database");
    assert_eq!(cluster.comments("").await, ["posthaste copy"]);
}

#[tokio::test]
async fn roles_are_renamed_with_their_members() {
    let cluster = Cluster::start("rename").await;
    cluster.migrate("shop", &create("")).await.expect("the migration");
    cluster.admin.run("CREATE ROLE reader LOGIN IN ROLE viewer").await;
    let serve = PostgresOptions {
        role_urls: vec![(DbRole::Viewer, url_with(&cluster.url("shop"), Some("reader"), None))],
        roles: vec![DbRole::Viewer],
        role_prefix: prefix("posthaste_"),
        ..PostgresOptions::default()
    };
    let message = refusal(PostgresStore::connect(&serve).await);
    check_says(&message, &["the prefix \"\"", "POSTHASTE_ROLE_PREFIX is \"posthaste_\"", "--rename-roles"]);
    let renamed = MigrateOptions { rename_roles: true, ..create("posthaste_") };
    let report = cluster.migrate("shop", &renamed).await.expect("the new names");
    assert_eq!(report.statements_to_run, Vec::<String>::new());
    assert_eq!(cluster.comments("posthaste_").await, ["posthaste shop"]);
    assert_eq!(cluster.comments("").await, Vec::<String>::new(), "the old names are free");
    let store = PostgresStore::connect(&serve).await.expect("a member of the renamed role");
    assert!(store.reader().lane().await.is_ok());
    cluster.check_serves("shop", "posthaste_").await;
    check_says(&refusal(cluster.store("shop", "").await), &["the prefix \"posthaste_\"", "is \"\""]);
    check_says(&refusal(cluster.migrate("shop", &create("")).await), &["--rename-roles"]);
    cluster.migrate("shop", &renamed).await.expect("nothing left to rename");
    cluster.migrate("bank", &create("")).await.expect("the old names are free");
}

#[tokio::test]
async fn shared_roles_are_replaced_and_their_members_listed() {
    let cluster = Cluster::start("separate").await;
    cluster.migrate("shop", &create("")).await.expect("the migration");
    cluster
        .migrate("bank", &MigrateOptions { share_roles: true, ..create("") })
        .await
        .expect("the migration");
    cluster.admin.run("CREATE ROLE \"Reader\" LOGIN IN ROLE viewer").await;
    let reader = client(&url_with(&cluster.url("bank"), Some("Reader"), None)).await;
    reader.batch_execute("SELECT FROM posthaste.events").await.expect("a shared right");
    for database in ["bank", "shop"] {
        let (text, other) = if database == "bank" { ("bank_", "shop") } else { ("shop_", "bank") };
        let renamed = MigrateOptions { rename_roles: true, ..create(text) };
        let report = cluster.migrate(database, &renamed).await.expect("its own roles");
        let expected: &[&str] = if database == "bank" { &["GRANT bank_viewer TO \"Reader\";"] } else { &[] };
        assert_eq!(report.statements_to_run, expected, "{other} keeps its roles");
        assert_eq!(cluster.comments(text).await, [format!("posthaste {database}")]);
        cluster.check_serves(database, text).await;
    }
    let error = reader.batch_execute("SELECT FROM posthaste.events").await.expect_err("no right in bank");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    let reader = client(&url_with(&cluster.url("shop"), Some("Reader"), None)).await;
    reader.batch_execute("SELECT FROM posthaste.events").await.expect("a member of the renamed role");
    cluster.admin.run("GRANT bank_viewer TO \"Reader\"").await;
    let reader = client(&url_with(&cluster.url("bank"), Some("Reader"), None)).await;
    reader.batch_execute("SELECT FROM posthaste.events").await.expect("after the printed statement");
}

#[tokio::test]
async fn a_database_without_roles_is_served_by_the_login_that_migrated_it() {
    let cluster = Cluster::start("none").await;
    cluster.admin.run(&format!("ALTER ROLE {LOGIN} NOCREATEROLE")).await;
    let none = options("", RoleSource::None);
    cluster.migrate("shop", &none).await.expect("a migration without roles");
    assert_eq!(cluster.comments("").await, Vec::<String>::new());
    let kept = MigrateOptions { keeps_none: true, ..create("") };
    cluster.migrate("shop", &kept).await.expect("a migration that stays without roles");
    assert_eq!(cluster.comments("").await, Vec::<String>::new());
    // The prefix does not matter without roles.
    for text in ["", "posthaste_"] {
        cluster.check_serves("shop", text).await;
    }
    cluster.admin.run("CREATE ROLE stranger LOGIN").await;
    let stranger = url_with(&cluster.url("shop"), Some("stranger"), None);
    let message = refusal(PostgresStore::connect(&PostgresOptions::new(stranger)).await);
    check_says(&message, &["--roles none"]);
    let message =
        refusal(cluster.migrate("shop", &MigrateOptions { rename_roles: true, ..create("a_") }).await);
    check_says(&message, &["--roles create"]);
    let message = refusal(cluster.migrate("shop", &create("")).await);
    check_says(&message, &["--print-roles", "--roles existing", "CREATEROLE", "--roles none"]);

    cluster.admin.run(&format!("ALTER ROLE {LOGIN} CREATEROLE")).await;
    cluster.migrate("shop", &create("")).await.expect("roles");
    cluster.check_serves("shop", "").await;
    cluster.migrate("shop", &none).await.expect("no roles again");
    let rights = "SELECT count(*) FROM pg_class, aclexplode(relacl) AS acl
        WHERE relnamespace = 'posthaste'::regnamespace AND acl.grantee = 'viewer'::regrole";
    assert_eq!(cluster.inside("shop").await.number(rights).await, 0, "the roles have lost their rights");
    cluster.check_serves("shop", "").await;
}

/// Returns the SQL for an administrator of the database `name`, whose owner and roles are named after it.
fn administrator_sql(name: &str) -> AdministratorSql {
    let logins = vec![LoginRoles { login: format!("{name} reader"), roles: vec![DbRole::Viewer] }];
    let (database, owner) = (name.to_owned(), format!("{name}-owner"));
    AdministratorSql { database, owner, logins, prefix: prefix(&format!("{name}_")), share_roles: false }
}

#[tokio::test]
async fn two_installations_in_one_cluster_are_separate() {
    let cluster = Cluster::start("two").await;
    for name in ["shop", "bank"] {
        let sql = administrator_sql(name).to_string();
        // The SQL can be run again.
        cluster.server.execute(name, &sql);
        cluster.server.execute(name, &sql);
        let options = options(&format!("{name}_"), RoleSource::Existing);
        let url = url_with(&cluster.server.admin_url(name), Some(&format!("{name}-owner")), None);
        migrate(&url, &options).await.expect("the migration as an ordinary login");
        let serving = PostgresOptions { role_prefix: options.prefix, ..PostgresOptions::new(&url) };
        let store = PostgresStore::connect(&serving).await.expect("the store");
        store.ingest().insert_events(vec![vec![event("a")]], T0).await.expect("an event");
        let attributes = format!(
            "SELECT count(*) FROM pg_roles WHERE rolname IN ('{name}-owner', '{name} reader')
                AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)"
        );
        assert_eq!(cluster.admin.number(&attributes).await, 2);
    }
    for (name, other) in [("shop", "bank"), ("bank", "shop")] {
        for login in [format!("{name}-owner"), format!("{name}%20reader")] {
            let own = client(&url_with(&cluster.server.admin_url(name), Some(&login), None)).await;
            own.batch_execute("SELECT FROM posthaste.events").await.expect("its own events");
            // Neither login may connect to the other database.
            let url = url_with(&cluster.server.admin_url(other), Some(&login), None);
            let Err(error) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await else {
                panic!("{login} is connected to {other}");
            };
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{error}");
            // Not even a login that may connect has rights on the tables.
            cluster.admin.run(&format!("GRANT CONNECT ON DATABASE {other} TO PUBLIC")).await;
            let inside = client(&url).await;
            for table in grants::TABLES {
                let error = inside.batch_execute(&format!("SELECT FROM posthaste.{table}")).await;
                let error = error.expect_err(table);
                assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{table}: {error}");
            }
            cluster.admin.run(&format!("REVOKE CONNECT ON DATABASE {other} FROM PUBLIC")).await;
        }
    }
}

#[tokio::test]
async fn existing_roles_must_be_prepared_by_an_administrator() {
    let cluster = Cluster::start("existing").await;
    let existing = options("shop_", RoleSource::Existing);
    let message = refusal(cluster.migrate("shop", &existing).await);
    check_says(&message, &["shop_viewer", "shop_event_publisher", "--print-roles"]);
    assert_eq!(cluster.comments("shop_").await, Vec::<String>::new(), "nothing is created");
    cluster.server.execute("shop", &administrator_sql("shop").to_string());
    cluster.admin.run("COMMENT ON ROLE shop_viewer IS NULL").await;
    check_says(
        &refusal(cluster.migrate("shop", &existing).await),
        &["the role shop_viewer", "COMMENT ON ROLE"],
    );
    cluster.admin.run("COMMENT ON ROLE shop_viewer IS 'posthaste bank'").await;
    check_says(&refusal(cluster.migrate("shop", &existing).await), &["\"bank\"", "--share-roles"]);
    let shared = MigrateOptions { share_roles: true, ..existing.clone() };
    cluster.migrate("shop", &shared).await.expect("a shared role");
    cluster.admin.run("COMMENT ON ROLE shop_viewer IS 'posthaste shop'").await;
    cluster.migrate("shop", &existing).await.expect("its own roles");

    // An ordinary login moves to roles that an administrator has created under new names.
    let new = AdministratorSql { prefix: prefix("new_"), ..administrator_sql("shop") };
    let renamed = MigrateOptions { prefix: new.prefix.clone(), rename_roles: true, ..existing };
    refusal(cluster.migrate("shop", &renamed).await);
    // A schema with the name of the administrator comes first in the default search path.
    let hostile = format!(
        "CREATE SCHEMA {ADMIN}; GRANT USAGE ON SCHEMA {ADMIN} TO PUBLIC;
         CREATE FUNCTION {ADMIN}.format(text, text) RETURNS text LANGUAGE plpgsql
         AS 'BEGIN RAISE EXCEPTION ''called by the administrator''; END'"
    );
    client(&cluster.url("shop")).await.batch_execute(&hostile).await.expect("a hostile function");
    cluster.server.execute("shop", &new.to_string());
    let report = cluster.migrate("shop", &renamed).await.expect("the new roles");
    assert_eq!(report.statements_to_run, Vec::<String>::new(), "the administrator has granted them");
    let rights = "SELECT count(*) FROM pg_class, aclexplode(relacl) AS acl
        WHERE relnamespace = 'posthaste'::regnamespace AND acl.grantee = 'shop_viewer'::regrole";
    assert_eq!(cluster.inside("shop").await.number(rights).await, 0);
}

#[tokio::test]
async fn the_administrator_is_told_what_is_wrong() {
    let cluster = Cluster::start("printed").await;
    let sql = administrator_sql("shop").to_string();
    let error = client(&cluster.server.admin_url("bank")).await.batch_execute(&sql).await.expect_err("bank");
    check_says(&text_of(&error), &["connected to the database bank", "shop"]);
    cluster.admin.run("CREATE ROLE shop_viewer").await;
    let inside = client(&cluster.server.admin_url("shop")).await;
    let error = inside.batch_execute(&sql).await.expect_err("a foreign role");
    check_says(&text_of(&error), &["shop_viewer", "POSTHASTE_ROLE_PREFIX"]);
    inside.batch_execute("ROLLBACK").await.expect("the end of the transaction");
    cluster.admin.run("DROP ROLE shop_viewer").await;
    // A login with CREATEROLE that does not own the database cannot set its rights.
    cluster.admin.run("CREATE ROLE creator LOGIN CREATEROLE").await;
    let creator = client(&url_with(&cluster.server.admin_url("shop"), Some("creator"), None)).await;
    let error = creator.batch_execute(&sql).await.expect_err("not the owner");
    check_says(&text_of(&error), &["may set these rights"]);
    assert_eq!(cluster.comments("shop_").await, Vec::<String>::new(), "nothing is left");
    // The owner of the database with CREATEROLE can, as on a managed server.
    let owner = client(&cluster.url("shop")).await;
    owner.batch_execute(&sql).await.expect("the administrator of a managed server");
    assert_eq!(cluster.comments("shop_").await, ["posthaste shop"]);
}

/// Returns the message and the hint of an error of the server.
fn text_of(error: &tokio_postgres::Error) -> String {
    let error = error.as_db_error().expect("an error of the server");
    format!("{} {}", error.message(), error.hint().unwrap_or_default())
}
