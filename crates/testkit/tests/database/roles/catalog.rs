//! Checks the roles in PostgreSQL's catalogs: ownership, membership, and the rights of PUBLIC.

use super::matrix::{POSTGRES_ONLY, ROLES, expected};
use super::postgres_tries::RIGHTS;
use posthaste_store::postgres::migrate;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::shared_roles;
use std::collections::BTreeSet;

fn role_list() -> String {
    ROLES.map(|(_, role)| format!("'{role}'")).join(", ")
}

/// Returns queries that must return no rows, each with a description of the violation.
fn forbidden() -> Vec<(&'static str, String)> {
    let roles = role_list();
    vec![
        (
            "a role owns a table, an index, a sequence or a view",
            format!("SELECT relname FROM pg_class WHERE relowner::regrole::text IN ({roles})"),
        ),
        ("a role owns a function", format!("SELECT proname FROM pg_proc WHERE proowner::regrole::text IN ({roles})")),
        ("a role owns a type", format!("SELECT typname FROM pg_type WHERE typowner::regrole::text IN ({roles})")),
        ("a role owns a schema", format!("SELECT nspname FROM pg_namespace WHERE nspowner::regrole::text IN ({roles})")),
        (
            "a role is a member of another",
            format!("SELECT roleid::regrole, member::regrole FROM pg_auth_members WHERE member::regrole::text IN ({roles})"),
        ),
        (
            "a role has server-wide rights or can log in",
            format!(
                "SELECT rolname FROM pg_roles WHERE rolname IN ({roles})
                    AND (rolsuper OR rolcanlogin OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)"
            ),
        ),
        (
            "a function with the owner's rights lets the caller choose its search_path",
            "SELECT proname FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace AND prosecdef
                AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(proconfig, '{}'))"
                .to_owned(),
        ),
        (
            "any other function lets the caller choose its search_path",
            "SELECT proname FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace
                AND NOT EXISTS (SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search_path=%')"
                .to_owned(),
        ),
        (
            "PUBLIC has a right in the schema",
            "SELECT 'schema', nspname, acl.privilege_type FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) AS acl
                WHERE nspname = 'posthaste' AND acl.grantee = 0
            UNION ALL SELECT 'relation', relname, acl.privilege_type FROM pg_class, aclexplode(relacl) AS acl
                WHERE relnamespace = 'posthaste'::regnamespace AND acl.grantee = 0
            UNION ALL SELECT 'column', attname, acl.privilege_type FROM pg_attribute
                JOIN pg_class ON pg_class.oid = attrelid, aclexplode(attacl) AS acl
                WHERE relnamespace = 'posthaste'::regnamespace AND acl.grantee = 0
            UNION ALL SELECT 'function', proname, acl.privilege_type
                FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS acl
                WHERE pronamespace = 'posthaste'::regnamespace AND acl.grantee = 0"
                .to_owned(),
        ),
        (
            "a role may grant its rights to others",
            format!(
                "SELECT relname, acl.privilege_type FROM pg_class, aclexplode(relacl) AS acl
                    WHERE acl.is_grantable AND acl.grantee <> 0 AND acl.grantee::regrole::text IN ({roles})"
            ),
        ),
        (
            "default privileges exist for objects created later",
            "SELECT defaclrole::regrole, defaclobjtype::text, defaclacl::text FROM pg_default_acl".to_owned(),
        ),
    ]
}

#[tokio::test]
async fn no_role_owns_objects_or_has_server_rights() {
    let h = Harness::postgres("roles").await;
    let known = format!("SELECT count(*) FROM pg_roles WHERE rolname IN ({})", role_list());
    assert_eq!(h.direct.number(&known).await, 12);
    for (meaning, sql) in forbidden() {
        let found = h.direct.rows(&sql).await;
        assert!(found.is_empty(), "{meaning}: {found:?}");
    }
}

/// Ensures that every new table or column is added to the matrix.
#[tokio::test]
async fn the_matrix_names_every_column_and_function() {
    let h = Harness::postgres("roles").await;
    let sqlite = Harness::sqlite("roles").await;
    let matrix = expected();
    let named: BTreeSet<_> = matrix
        .tables
        .iter()
        .flat_map(|table| table.column_names().into_iter().map(|column| format!("{}.{column}", table.name)))
        .collect();
    let in_postgres = "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'posthaste'";
    let in_sqlite = "SELECT t.name || '.' || c.name FROM pragma_table_list t, pragma_table_info(t.name) c
        WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
    assert_eq!(named, h.direct.texts(in_postgres).await.into_iter().collect());
    let is_shared =
        |name: &String| name.split('.').next().is_none_or(|table| !POSTGRES_ONLY.contains(&table));
    let named: BTreeSet<_> = named.into_iter().filter(is_shared).collect();
    assert_eq!(named, sqlite.direct.texts(in_sqlite).await.into_iter().collect());
    let functions = "SELECT proname FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace
        AND prorettype <> 'trigger'::regtype ORDER BY proname";
    let named: Vec<_> = matrix.functions.into_keys().collect();
    assert_eq!(named, h.direct.texts(functions).await);
}

/// Rights that an earlier release granted and the current one does not.
const GRANTED_BEFORE: &[&str] = &[
    "GRANT INSERT ON events TO event_ingest_writer",
    "GRANT INSERT (id) ON webhook_delivery_jobs TO saga_orchestrator",
    "GRANT INSERT, UPDATE ON api_keys TO key_keeper",
    "GRANT SELECT ON events, subscriptions TO lease_cleaner",
    "GRANT SELECT ON events, schema_migrations TO event_publisher",
    "GRANT EXECUTE ON FUNCTION report_presence, report_health, requeue TO event_publisher",
    "GRANT ALL ON clock_guard TO viewer",
];

#[tokio::test]
async fn an_upgraded_database_has_the_rights_of_a_new_one() {
    let h = Harness::postgres("roles").await;
    let new = h.direct.rows(RIGHTS).await;
    for sql in GRANTED_BEFORE {
        h.direct.run(sql).await;
    }
    assert_ne!(h.direct.rows(RIGHTS).await, new);
    migrate(h.url(), &shared_roles()).await.expect("the migration");
    assert_eq!(h.direct.rows(RIGHTS).await, new);
}
