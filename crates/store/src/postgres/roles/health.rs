//! Reads the health of subscriptions: the number of unfinished sagas, counted with an index, and the attempt counts
//! that all processes have reported.

use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::{Instant, error_code, get, instant, int};
use crate::remote::Fault;
use posthaste_core::health::{Attempts, BUCKETS, INTERVALS_MAX};
use posthaste_core::ports::SubscriptionHealth;
use posthaste_core::{SubscriptionId, Timestamp};
use std::collections::HashMap;
use tokio_postgres::Row;

pub(crate) async fn of(
    mut session: Session,
    asked: &[SubscriptionId],
    counted_max: u32,
    since: Timestamp,
) -> Result<Vec<SubscriptionHealth>, Fault> {
    let ids: Vec<i64> = asked.iter().map(|id| id.get()).collect();
    let mut found: HashMap<i64, SubscriptionHealth> =
        asked.iter().map(|id| (id.get(), SubscriptionHealth::unknown(*id))).collect();
    let sql = include_str!("../sql/insight/count_unfinished.sql");
    for row in session.read(sql, &[&ids, &int(counted_max)]).await? {
        let Some(health) = found.get_mut(&get(&row, 0)?) else { continue };
        let count = number(&row, 2)?;
        if get(&row, 1)? {
            health.in_flight = count;
        } else {
            health.waiting = health.waiting.saturating_add(count).min(counted_max);
        }
    }
    let sql = include_str!("../sql/insight/attempts_of_subscriptions.sql");
    for row in session.read(sql, &[&ids, &Instant(since), &int(INTERVALS_MAX)]).await? {
        let Some(health) = found.get_mut(&get(&row, 0)?) else { continue };
        health.attempts.add(&attempts(&row)?);
    }
    let sql = include_str!("../sql/insight/last_dead_letters.sql");
    for row in session.read(sql, &[&ids]).await? {
        if let (Some(health), Some(code)) = (found.get_mut(&get(&row, 0)?), error_code(&row, 1)?) {
            health.attempts.note_error(code, instant(&row, 2)?);
        }
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

fn number(row: &Row, column: usize) -> Result<u32, Fault> {
    Ok(u32::try_from(get::<i64>(row, column)?).unwrap_or(u32::MAX))
}

fn attempts(row: &Row) -> Result<Attempts, Fault> {
    let number = |column| Ok::<_, Fault>(u64::try_from(get::<i64>(row, column)?).unwrap_or_default());
    let mut attempts = Attempts { failed: number(1)?, ..Attempts::default() };
    for (place, count) in attempts.took.iter_mut().enumerate() {
        *count = number(2 + place)?;
    }
    if let Some(code) = error_code(row, 2 + BUCKETS)? {
        attempts.note_error(code, instant(row, 3 + BUCKETS)?);
    }
    Ok(attempts)
}
