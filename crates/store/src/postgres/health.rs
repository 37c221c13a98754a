//! How the deliveries of subscriptions go: what is unfinished along its index, what ended among the newest.

use crate::postgres::error::Fault;
use crate::postgres::session::Session;
use crate::postgres::value::{error_code, get, instant, int};
use posthaste_core::SubscriptionId;
use posthaste_core::ports::SubscriptionHealth;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Row;

pub(super) async fn of(
    mut session: Session,
    asked: &[SubscriptionId],
    counted_max: u32,
) -> Result<Vec<SubscriptionHealth>, Fault> {
    let ids: Vec<i64> = asked.iter().map(|id| id.get()).collect();
    let mut found: HashMap<i64, SubscriptionHealth> =
        asked.iter().map(|id| (id.get(), SubscriptionHealth::unknown(*id))).collect();
    let sql = include_str!("sql/insight/count_unfinished.sql");
    for row in session.read(sql, &[&ids, &int(counted_max)]).await? {
        let Some(health) = found.get_mut(&get(&row, 0)?) else { continue };
        let count = number(&row, 2)?;
        if get(&row, 1)? {
            health.in_flight = count;
        } else {
            health.waiting = health.waiting.saturating_add(count).min(counted_max);
        }
    }
    let sql = include_str!("sql/insight/newest_deliveries.sql");
    for row in session.read(sql, &[&i64::MAX, &ids]).await? {
        let Some(health) = found.get_mut(&get(&row, 0)?) else { continue };
        (health.completed, health.given_up) = (number(&row, 1)?, number(&row, 2)?);
        (health.half_within, health.most_within) = (took(&row, 3)?, took(&row, 4)?);
        if let Some(code) = error_code(&row, 5)? {
            health.note_error(code, instant(&row, 6)?);
        }
    }
    let sql = include_str!("sql/insight/last_dead_letters.sql");
    for row in session.read(sql, &[&ids]).await? {
        if let (Some(health), Some(code)) = (found.get_mut(&get(&row, 0)?), error_code(&row, 1)?) {
            health.note_error(code, instant(&row, 2)?);
        }
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

fn number(row: &Row, column: usize) -> Result<u32, Fault> {
    Ok(u32::try_from(get::<i64>(row, column)?).unwrap_or(u32::MAX))
}

fn took(row: &Row, column: usize) -> Result<Option<Duration>, Fault> {
    let micros = get::<Option<i64>>(row, column)?;
    Ok(micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or_default())))
}
