//! Records that the process is running and adds its counters, through views that any role may insert into.

use posthaste_core::Timestamp;
use posthaste_core::ports::{HealthSum, PresenceStore, ProcessSeen, Rollup, StoreResult};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;

const REPORT_PRESENCE: &str = include_str!("../sql/presence/report_presence.sql");
const REPORT_HEALTH: &str = include_str!("../sql/presence/report_health.sql");
const REPORT_ROLLUP: &str = include_str!("../sql/presence/report_rollup.sql");

/// The SQLite implementation of [`PresenceStore`], with the rights of the role `viewer`.
#[derive(Debug, Clone)]
pub struct SqlitePresence(pub(crate) SqliteStore);

impl PresenceStore for SqlitePresence {
    async fn report_presence(&self, seen: ProcessSeen, rollups: Vec<Rollup>) -> StoreResult<()> {
        self.0
            .write(DbRole::Viewer, "reporting presence", move |session| {
                let process = params![
                    seen.process_id.as_str(),
                    seen.role,
                    seen.version,
                    seen.started_at.micros(),
                    seen.seen_at.micros(),
                ];
                session.run(REPORT_PRESENCE, process)?;
                for rollup in &rollups {
                    let values = params![rollup.interval_start.micros(), rollup.counter, rollup.amount];
                    session.run(REPORT_ROLLUP, values)?;
                }
                Ok(())
            })
            .await
    }

    async fn report_health(&self, sums: Vec<HealthSum>, now: Timestamp) -> StoreResult<()> {
        self.0
            .write(DbRole::Viewer, "reporting subscription health", move |session| {
                for sum in &sums {
                    session.run(REPORT_HEALTH, params_from_iter(values(sum, now)))?;
                }
                Ok(())
            })
            .await
    }
}

fn values(sum: &HealthSum, now: Timestamp) -> Vec<Value> {
    let number = |count: &u64| Value::Integer(i64::try_from(*count).unwrap_or(i64::MAX));
    let HealthSum { subscription_id, interval_start, attempts } = sum;
    let mut values: Vec<Value> =
        [now.micros(), subscription_id.get(), interval_start.micros()].map(Value::Integer).into();
    values.push(number(&attempts.failed));
    values.extend(attempts.took.iter().map(number));
    values.extend(match &attempts.last_error {
        Some((code, at)) => [Value::Text(code.to_string()), Value::Integer(at.micros())],
        None => [Value::Null, Value::Null],
    });
    values
}
