//! Dumps the SQLite schema from its catalogs: one paragraph per table or view.

use super::golden;
use posthaste_testkit::direct::Row;
use posthaste_testkit::harness::Harness;
use std::fmt::Write as _;

const TABLES: &str = "SELECT l.name, l.type || CASE WHEN l.strict THEN ' strict' ELSE '' END || CASE WHEN l.wr THEN ' without rowid' ELSE '' END
    FROM pragma_table_list l WHERE l.schema = 'main' AND l.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY l.name";

const COLUMNS: &str =
    "SELECT 'column ' || name || ' ' || lower(type) || CASE WHEN \"notnull\" THEN ' not null' ELSE '' END
    || CASE WHEN pk THEN ' key ' || pk ELSE '' END || coalesce(' default ' || dflt_value, '')
    FROM pragma_table_xinfo('TABLE') ORDER BY cid";

/// A query for the definitions as written in the migrations, the only source of CHECK constraints.
const DEFINITIONS: &str = "SELECT coalesce(sql, type || ' ' || name) FROM sqlite_schema
    WHERE tbl_name = 'TABLE' ORDER BY type = 'trigger', type = 'index', name";

const SETTINGS: &[&str] = &["application_id", "page_size", "journal_mode", "auto_vacuum", "encoding"];

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_matches_the_golden_file() {
    let h = Harness::sqlite("schema").await;
    let mut dump = String::new();
    for row in h.direct.rows(TABLES).await {
        let [Some(table), Some(kind)] = &row[..] else { panic!("{row:?}") };
        let _ = writeln!(dump, "{kind} {table}");
        for line in h.direct.texts(&COLUMNS.replace("TABLE", table)).await {
            let _ = writeln!(dump, "    {line}");
        }
        for definition in h.direct.texts(&DEFINITIONS.replace("TABLE", table)).await {
            let _ = writeln!(dump, "    {};", definition.replace('\n', "\n    "));
        }
        dump.push('\n');
    }
    let _ = writeln!(dump, "settings");
    for setting in SETTINGS {
        let rows: Vec<Row> = h.direct.rows(&format!("PRAGMA {setting}")).await;
        let _ = writeln!(dump, "    {setting} {}", rows[0][0].as_deref().unwrap_or("-"));
    }
    let _ = writeln!(dump, "\nrows inserted by migrations");
    for line in h.direct.texts("SELECT 'outbox_lane ' || id || ' rate ' || rate FROM outbox_lane").await {
        let _ = writeln!(dump, "    {line}");
    }
    golden::check("sqlite.txt", &dump);
}
