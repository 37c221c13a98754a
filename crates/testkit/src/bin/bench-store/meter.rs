//! What a database has cost: CPU time of the processes or threads that are the database, from the
//! scheduler's own books, in nanoseconds.

use std::fs;
use tokio_postgres::{Client, Row};

/// The threads of the embedded store, by their names.
pub(crate) const SQLITE_WRITER: &str = "sqlite-writer";
pub(crate) const SQLITE_READER: &str = "sqlite-reader";

/// Everybody whose CPU time counts, as the files that tell it.
#[derive(Debug)]
pub(crate) struct Meter(Vec<String>);

impl Meter {
    /// The backends that serve one database of a PostgreSQL server on this machine.
    pub(crate) async fn backends(admin: &Client, database: &str) -> Self {
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
        Self::processes(&admin.query(sql, &[&database]).await.expect("the backends"))
    }

    /// The processes that serve all databases: the log's writer, the checkpointer and their like.
    pub(crate) async fn background(admin: &Client) -> Self {
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname IS NULL";
        Self::processes(&admin.query(sql, &[]).await.expect("the processes"))
    }

    fn processes(rows: &[Row]) -> Self {
        let files: Vec<_> =
            rows.iter().map(|row| format!("/proc/{}/schedstat", row.get::<_, i32>(0))).collect();
        let all_here = files.iter().all(|file| fs::exists(file).unwrap_or(false));
        assert!(!files.is_empty() && all_here, "the server must run on this machine to be measured");
        Self(files)
    }

    /// The threads of this process that have one of these names, or all of them.
    pub(crate) fn threads(names: Option<&[&str]>) -> Self {
        let mut files = Vec::new();
        for entry in fs::read_dir("/proc/self/task").expect("the threads of this process").flatten() {
            let folder = entry.path();
            // A thread may end while we look.
            let Ok(name) = fs::read_to_string(folder.join("comm")) else { continue };
            if names.is_none_or(|names| names.iter().any(|wanted| name.starts_with(wanted))) {
                files.push(format!("{}/schedstat", folder.display()));
            }
        }
        assert!(!files.is_empty(), "the store has no thread of these names: {names:?}");
        Self(files)
    }

    /// CPU time so far.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.0.iter().map(|file| run_time_ns(file)).sum()
    }
}

/// The first figure of a schedstat file; nothing for somebody who is gone.
fn run_time_ns(file: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|figure| figure.parse().ok()).unwrap_or(0)
}
