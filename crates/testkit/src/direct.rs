//! Runs SQL as the database owner, bypassing the ports, to set up and check tests. Statements name tables without
//! a schema and use SQL that both engines accept.

use crate::postgres::as_admin;
use rusqlite::types::ValueRef;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub enum Direct {
    Sqlite(PathBuf),
    Postgres { client: Client, url: String },
}

pub type Row = Vec<Option<String>>;

impl Direct {
    pub fn sqlite(path: &Path) -> Self {
        Self::Sqlite(path.to_owned())
    }

    pub async fn postgres(url: &str) -> Self {
        let client = crate::postgres::client(url).await;
        client.batch_execute("SET search_path = posthaste").await.expect("the schema");
        Self::Postgres { client, url: url.to_owned() }
    }

    /// Returns all rows, with columns as text.
    pub async fn rows(&self, sql: &str) -> Vec<Row> {
        self.try_rows(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Returns the first column of the first row as a number.
    pub async fn number(&self, sql: &str) -> i64 {
        let rows = self.rows(sql).await;
        rows[0][0].as_deref().expect("not null").parse().unwrap_or_else(|_| panic!("{sql}: {:?}", rows[0]))
    }

    /// Polls a statement until it returns `expected`. Panics after `within`.
    pub async fn until(&self, what: &str, sql: &str, expected: i64, within: Duration) {
        let began = Instant::now();
        loop {
            let found = self.number(sql).await;
            if found == expected {
                return;
            }
            assert!(
                began.elapsed() < within,
                "timed out waiting until {what}: got {found}, expected {expected}"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the first column of all rows as text.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        self.rows(sql).await.into_iter().map(|mut row| row.remove(0).unwrap_or_default()).collect()
    }

    /// Runs a statement that must succeed.
    pub async fn run(&self, sql: &str) {
        self.rows(sql).await;
    }

    /// Runs statements with triggers disabled, which only an administrator can do, to create rows that must never
    /// exist.
    pub async fn force(&self, sql: &str) {
        match self {
            Self::Sqlite(path) => {
                let connection = sqlite_connection(path);
                let triggers = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
                connection.set_db_config(triggers, false).expect("a setting");
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            Self::Postgres { url, .. } => {
                let admin = crate::postgres::client(&as_admin(url)).await;
                let script =
                    format!("SET search_path = posthaste; SET session_replication_role = replica; {sql}");
                admin.batch_execute(&script).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
    }

    pub async fn try_rows(&self, sql: &str) -> Result<Vec<Row>, String> {
        match self {
            Self::Sqlite(path) => sqlite_rows(path, sql).map_err(|error| error.to_string()),
            Self::Postgres { client, .. } => {
                let messages = client.simple_query(sql).await.map_err(|error| match error.as_db_error() {
                    Some(error) => format!("{}: {}", error.code().code(), error.message()),
                    None => error.to_string(),
                })?;
                Ok(messages.iter().filter_map(postgres_row).collect())
            }
        }
    }
}

fn postgres_row(message: &SimpleQueryMessage) -> Option<Row> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
}

/// Opens a connection as the owner of the file, configured like the store's but without an authorizer.
pub fn sqlite_connection(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).expect("the file");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout");
    connection.pragma_update(None, "recursive_triggers", true).expect("a pragma");
    connection
}

fn sqlite_rows(path: &Path, sql: &str) -> rusqlite::Result<Vec<Row>> {
    let connection = sqlite_connection(path);
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column| match row.get_ref(column) {
            Ok(ValueRef::Null) | Err(_) => None,
            Ok(ValueRef::Integer(number)) => Some(number.to_string()),
            Ok(ValueRef::Real(number)) => Some(number.to_string()),
            Ok(ValueRef::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Ok(ValueRef::Blob(bytes)) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        };
        all.push((0..columns).map(text).collect());
    }
    Ok(all)
}
