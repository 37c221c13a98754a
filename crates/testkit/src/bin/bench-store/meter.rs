//! Measures the CPU time of the database, in nanoseconds, from the `schedstat` files of its processes or threads
//! under `/proc`.

use std::fs;
use tokio_postgres::{Client, Row};

// Thread names of the embedded store.
pub(crate) const SQLITE_WRITER: &str = "sqlite-writer";
pub(crate) const SQLITE_READER: &str = "sqlite-reader";

/// The `schedstat` files of the measured processes or threads.
#[derive(Debug)]
pub(crate) struct Meter(Vec<String>);

impl Meter {
    /// Creates a meter for the backends of one database. The PostgreSQL server must run on this machine.
    pub(crate) async fn backends(admin: &Client, database: &str) -> Self {
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
        Self::processes(&admin.query(sql, &[&database]).await.expect("the backends"))
    }

    /// Creates a meter for the background processes of the server, such as the WAL writer and the checkpointer.
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

    /// Creates a meter for the threads of this process whose names start with one of `names`, or for all threads
    /// if `names` is `None`.
    pub(crate) fn threads(names: Option<&[&str]>) -> Self {
        let mut files = Vec::new();
        for entry in fs::read_dir("/proc/self/task").expect("the threads of this process").flatten() {
            let folder = entry.path();
            // A thread may end between `read_dir` and this read.
            let Ok(name) = fs::read_to_string(folder.join("comm")) else { continue };
            if names.is_none_or(|names| names.iter().any(|wanted| name.starts_with(wanted))) {
                files.push(format!("{}/schedstat", folder.display()));
            }
        }
        assert!(!files.is_empty(), "no thread has one of these names: {names:?}");
        Self(files)
    }

    /// Returns the CPU time used so far, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.0.iter().map(|file| run_time_ns(file)).sum()
    }
}

/// Returns the CPU time in a `schedstat` file, or 0 if the process or thread has ended.
fn run_time_ns(file: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|figure| figure.parse().ok()).unwrap_or(0)
}
