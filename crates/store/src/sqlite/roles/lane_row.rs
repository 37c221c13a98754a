//! Reads and writes the single row of `outbox_lane` as a [`Lane`], and counts the orders in flight, for the outbox
//! worker and the viewer.

use posthaste_core::Timestamp;
use posthaste_core::lane::Lane;
use posthaste_core::ports::LaneStanding;
use rusqlite::params;

use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};

const LOAD_LANE: &str = include_str!("../sql/outbox_worker/load_lane.sql");
const SAVE_LANE: &str = include_str!("../sql/outbox_worker/save_lane.sql");
const COUNT_SENDING: &str = include_str!("../sql/outbox_worker/count_sending.sql");
const RESUME_LANE: &str = include_str!("../sql/dead_letter/resume_lane.sql");
const LOAD_RESUMED_LANE: &str = include_str!("../sql/dead_letter/load_resumed_lane.sql");
const VIEW_LANE: &str = include_str!("../sql/reader/lane.sql");
const VIEW_COUNT_SENDING: &str = include_str!("../sql/reader/count_sending.sql");

pub(crate) fn load_lane(session: &Session<'_>) -> Answer<Lane> {
    read(session, LOAD_LANE)
}

pub(crate) fn count_sending(session: &Session<'_>) -> Answer<u32> {
    count(session, COUNT_SENDING)
}

pub(crate) fn view(session: &Session<'_>) -> Answer<LaneStanding> {
    Ok(LaneStanding { lane: read(session, VIEW_LANE)?, sending: count(session, VIEW_COUNT_SENDING)? })
}

/// Resumes the lane on behalf of an operator, through a view that has the rights of the owner. Returns the lane before
/// and after the change.
pub(crate) fn resume(session: &Session<'_>, now: Timestamp) -> Answer<(Lane, Lane)> {
    let before = read(session, LOAD_RESUMED_LANE)?;
    session.run(RESUME_LANE, params![now.micros()])?;
    Ok((before, read(session, LOAD_RESUMED_LANE)?))
}

fn count(session: &Session<'_>, sql: &'static str) -> Answer<u32> {
    Ok(session.statement(sql)?.query_row([], |row| row.get(0))?)
}

fn read(session: &Session<'_>, sql: &'static str) -> Answer<Lane> {
    let mut load = session.statement(sql)?;
    let mut found = load.query([])?;
    let row = found.next()?.ok_or_else(|| Fault::Unreadable("the row of the lane is missing".to_owned()))?;
    Ok(Lane {
        paused_at: value::maybe_time(row, "paused_at")?,
        reason: get(row, "reason")?,
        rate: get(row, "rate")?,
        unauthorized_in_row: get(row, "unauthorized_in_row")?,
        faults_in_row: get(row, "faults_in_row")?,
        probe_until: value::maybe_time(row, "probe_until")?,
        next_send_at: value::maybe_time(row, "next_send_at")?,
        slowed_at: value::maybe_time(row, "slowed_at")?,
        updated_at: value::time(row, "updated_at")?,
    })
}

pub(crate) fn save_lane(session: &Session<'_>, lane: &Lane) -> Answer<()> {
    let values = params![
        lane.paused_at.map(Timestamp::micros),
        lane.reason,
        lane.rate,
        lane.unauthorized_in_row,
        lane.faults_in_row,
        lane.probe_until.map(Timestamp::micros),
        lane.next_send_at.map(Timestamp::micros),
        lane.slowed_at.map(Timestamp::micros),
        lane.updated_at.micros(),
    ];
    session.run(SAVE_LANE, values).map(drop)
}
