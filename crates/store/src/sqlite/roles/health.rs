//! Reads the health of subscriptions: the number of unfinished sagas, counted with an index, and the attempt counts
//! that all processes have reported.

use posthaste_core::health::{Attempts, BUCKETS};
use posthaste_core::ports::SubscriptionHealth;
use posthaste_core::{SubscriptionId, Timestamp};
use rusqlite::{Row, params};
use std::collections::HashMap;

use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value;

const COUNT_UNFINISHED: &str = include_str!("../sql/insight/count_unfinished.sql");
const ATTEMPTS_OF_SUBSCRIPTIONS: &str = include_str!("../sql/insight/attempts_of_subscriptions.sql");
const LAST_DEAD_LETTERS: &str = include_str!("../sql/insight/last_dead_letters.sql");

type ById = HashMap<i64, SubscriptionHealth>;

pub(crate) fn of(
    session: &Session<'_>,
    ids: &[SubscriptionId],
    counted_max: u32,
    since: Timestamp,
) -> Answer<Vec<SubscriptionHealth>> {
    let mut found: ById = ids.iter().map(|id| (id.get(), SubscriptionHealth::unknown(*id))).collect();
    count_unfinished(session, &mut found, counted_max)?;
    add_attempts(session, &mut found, since)?;
    find_last_letters(session, &mut found)?;
    Ok(ids.iter().filter_map(|id| found.remove(&id.get())).collect())
}

fn count_unfinished(session: &Session<'_>, found: &mut ById, counted_max: u32) -> Answer<()> {
    let mut statement = session.statement(COUNT_UNFINISHED)?;
    let ids = value::array(found.keys().copied());
    let mut counted = statement.query(params![ids, counted_max])?;
    while let Some(row) = counted.next()? {
        if let Some(health) = found.get_mut(&row.get(0)?) {
            health.waiting = row.get::<_, u32>(1)?.saturating_add(row.get(2)?).min(counted_max);
            health.in_flight = row.get(3)?;
        }
    }
    Ok(())
}

fn add_attempts(session: &Session<'_>, found: &mut ById, since: Timestamp) -> Answer<()> {
    let mut statement = session.statement(ATTEMPTS_OF_SUBSCRIPTIONS)?;
    let mut sums = statement.query(params![value::array(found.keys().copied()), since.micros()])?;
    while let Some(row) = sums.next()? {
        if let Some(health) = found.get_mut(&row.get(0)?) {
            health.attempts.add(&read_attempts(row)?);
        }
    }
    Ok(())
}

fn read_attempts(row: &Row<'_>) -> Answer<Attempts> {
    let number = |column| Ok::<_, Fault>(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default());
    let mut attempts = Attempts { failed: number(1)?, ..Attempts::default() };
    for (place, count) in attempts.took.iter_mut().enumerate() {
        *count = number(2 + place)?;
    }
    if let Some(code) = value::error_code(row, 2 + BUCKETS)? {
        attempts.note_error(code, value::time(row, 3 + BUCKETS)?);
    }
    Ok(attempts)
}

fn find_last_letters(session: &Session<'_>, found: &mut ById) -> Answer<()> {
    let mut statement = session.statement(LAST_DEAD_LETTERS)?;
    let mut letters = statement.query([value::array(found.keys().copied())])?;
    while let Some(row) = letters.next()? {
        let (id, code) = (row.get(0)?, value::error_code(row, 1)?);
        if let (Some(health), Some(code)) = (found.get_mut(&id), code) {
            health.attempts.note_error(code, value::time(row, 2)?);
        }
    }
    Ok(())
}
