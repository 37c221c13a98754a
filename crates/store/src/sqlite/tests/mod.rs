//! Tests specific to SQLite: group commit, the rights of roles, one process per file, and the size of the log.

mod files;
mod groups;
mod log;
mod plans;
mod readers;
mod roles;

use std::path::PathBuf;

use posthaste_core::Timestamp;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::{EventType, ExternalEventId, NewEvent};
use posthaste_core::json::{JsonText, PAYLOAD_BYTES_MAX};
use tempfile::TempDir;

use super::{SqliteOptions, SqliteStore, migrate};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A migrated database in its own folder.
struct Fixture {
    store: SqliteStore,
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|options| options)
    }

    fn with(adjust: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let options = adjust(SqliteOptions::new(folder.path().join("posthaste.db")));
        migrate(&options.path).unwrap();
        Self { store: SqliteStore::open(&options).unwrap(), folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("posthaste.db")
    }

    /// Returns the number of rows in a table, as seen by a reader.
    async fn count(&self, table: &'static str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        let counted = self.store.ask(
            |queues| &queues.readers,
            None,
            move |session| Ok(session.try_text(&sql)?.query_row([], |row| row.get(0))?),
        );
        counted.await.unwrap()
    }
}

fn event(external_id: Option<&str>, payload_bytes: usize) -> NewEvent {
    let payload = format!("\"{}\"", "x".repeat(payload_bytes.saturating_sub(2)));
    NewEvent {
        event_type: EventType::parse("order.paid").unwrap(),
        payload: JsonText::parse(payload, PAYLOAD_BYTES_MAX).unwrap(),
        external_event_id: external_id.map(|id| ExternalEventId::parse(id).unwrap()),
        correlation_id: None,
        traceparent: None,
        tracestate: None,
        tenant: None,
        attributes: Attributes::default(),
    }
}
