//! How the deliveries of subscriptions go: what is unfinished along its index, what ended among the newest.

use posthaste_core::ports::{EXAMINED_MAX, SubscriptionHealth};
use posthaste_core::saga::SagaStatus;
use posthaste_core::{SubscriptionId, Timestamp};
use rusqlite::params;
use std::collections::HashMap;
use std::time::Duration;

use super::error::Answer;
use super::rows;
use super::session::Session;

const COUNT_UNFINISHED: &str = include_str!("sql/insight/count_unfinished.sql");
const NEWEST_DELIVERIES: &str = include_str!("sql/insight/newest_deliveries.sql");
const LAST_DEAD_LETTERS: &str = include_str!("sql/insight/last_dead_letters.sql");

type ById = HashMap<i64, SubscriptionHealth>;

pub(super) fn of(
    session: &Session<'_>,
    ids: &[SubscriptionId],
    counted_max: u32,
) -> Answer<Vec<SubscriptionHealth>> {
    let mut found: ById = ids.iter().map(|id| (id.get(), SubscriptionHealth::unknown(*id))).collect();
    count_unfinished(session, &mut found, counted_max)?;
    look_at_newest(session, &mut found)?;
    find_last_letters(session, &mut found)?;
    Ok(ids.iter().filter_map(|id| found.remove(&id.get())).collect())
}

fn count_unfinished(session: &Session<'_>, found: &mut ById, counted_max: u32) -> Answer<()> {
    let mut statement = session.statement(COUNT_UNFINISHED)?;
    let ids = rows::array(found.keys().copied());
    let mut counted = statement.query(params![ids, counted_max])?;
    while let Some(row) = counted.next()? {
        if let Some(health) = found.get_mut(&row.get(0)?) {
            health.waiting = row.get::<_, u32>(1)?.saturating_add(row.get(2)?).min(counted_max);
            health.in_flight = row.get(3)?;
        }
    }
    Ok(())
}

fn look_at_newest(session: &Session<'_>, found: &mut ById) -> Answer<()> {
    let mut took: HashMap<i64, Vec<Duration>> = HashMap::new();
    let mut statement = session.statement(NEWEST_DELIVERIES)?;
    let mut newest = statement.query(params![i64::MAX, EXAMINED_MAX])?;
    while let Some(row) = newest.next()? {
        let id = row.get(0)?;
        let Some(health) = found.get_mut(&id) else { continue };
        let (made, changed): (Timestamp, Timestamp) = (rows::time(row, 2)?, rows::time(row, 3)?);
        match rows::word(row, 1, SagaStatus::parse)? {
            SagaStatus::Completed => {
                health.completed += 1;
                took.entry(id).or_default().push(changed.since(made));
            }
            SagaStatus::DeadLettered => health.given_up += 1,
            SagaStatus::Pending | SagaStatus::InProgress | SagaStatus::PendingRetry => {}
        }
        if let Some(code) = rows::error_code(row, 4)? {
            health.note_error(code, changed);
        }
    }
    for (id, mut took) in took {
        took.sort_unstable();
        if let Some(health) = found.get_mut(&id) {
            health.half_within = share_within(&took, 50);
            health.most_within = share_within(&took, 99);
        }
    }
    Ok(())
}

/// The first length that so many of a hundred stay within; they come in order.
fn share_within(took: &[Duration], of_hundred: usize) -> Option<Duration> {
    let rank = (took.len() * of_hundred).div_ceil(100).max(1);
    took.get(rank - 1).copied()
}

fn find_last_letters(session: &Session<'_>, found: &mut ById) -> Answer<()> {
    let mut statement = session.statement(LAST_DEAD_LETTERS)?;
    let mut letters = statement.query([rows::array(found.keys().copied())])?;
    while let Some(row) = letters.next()? {
        let (id, code) = (row.get(0)?, rows::error_code(row, 1)?);
        if let (Some(health), Some(code)) = (found.get_mut(&id), code) {
            health.note_error(code, rows::time(row, 2)?);
        }
    }
    Ok(())
}
