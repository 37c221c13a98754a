//! Reads and writes the single row of `outbox_lane` as a [`Lane`].

use crate::postgres::conn::session::{Session, TransactionMode};
use crate::postgres::conn::value::{Instant, count, get, instant, instant_or_none, int};
use crate::postgres::roles::audit::{self, Writer};
use crate::remote::Fault;
use posthaste_core::Timestamp;
use posthaste_core::audit::{Actor, Change};
use posthaste_core::lane::Lane;
use posthaste_core::ports::LaneStanding;
use tokio_postgres::Row;

pub(crate) async fn load(mut session: Session) -> Result<Lane, Fault> {
    read(&mut session).await
}

pub(crate) async fn read(session: &mut Session) -> Result<Lane, Fault> {
    let rows = session.read(include_str!("../sql/outbox_worker/load_lane.sql"), &[]).await?;
    lane(&rows)
}

/// Reads the lane and the number of orders in flight, for the role `viewer`.
pub(crate) async fn view(mut session: Session) -> Result<LaneStanding, Fault> {
    let rows = session.read(include_str!("../sql/reader/lane.sql"), &[]).await?;
    let lane = lane(&rows)?;
    let rows = session.read(include_str!("../sql/reader/count_sending.sql"), &[]).await?;
    Ok(LaneStanding { lane, sending: counted(&rows)? })
}

pub(crate) async fn count_sending(session: &mut Session) -> Result<u32, Fault> {
    counted(&session.read(include_str!("../sql/outbox_worker/count_sending.sql"), &[]).await?)
}

fn counted(rows: &[Row]) -> Result<u32, Fault> {
    let count: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Begins a transaction and locks the row of the lane.
pub(crate) async fn lock(session: &mut Session) -> Result<Lane, Fault> {
    let sql = include_str!("../sql/outbox_worker/lock_lane.sql");
    let rows = session.begin(TransactionMode::Flushed, sql, &[]).await?;
    lane(&rows)
}

/// Writes the lane and commits the open transaction.
pub(crate) async fn commit(session: &mut Session, lane: &Lane) -> Result<(), Fault> {
    let (paused_at, probe_until) = (lane.paused_at.map(Instant), lane.probe_until.map(Instant));
    let (next_send_at, slowed_at) = (lane.next_send_at.map(Instant), lane.slowed_at.map(Instant));
    let sql = include_str!("../sql/outbox_worker/save_lane.sql");
    session
        .commit_with(
            sql,
            &[
                &paused_at,
                &lane.reason,
                &lane.rate,
                &int(lane.unauthorized_in_row),
                &int(lane.faults_in_row),
                &probe_until,
                &next_send_at,
                &slowed_at,
                &Instant(lane.updated_at),
            ],
        )
        .await?;
    Ok(())
}

/// Resumes the lane on behalf of an operator, through a SECURITY DEFINER function.
pub(crate) async fn resume(mut session: Session, by: &Actor, now: Timestamp) -> Result<Lane, Fault> {
    let sql = include_str!("../sql/dead_letter/load_resumed_lane.sql");
    let before = lane(&session.begin(TransactionMode::Flushed, sql, &[]).await?)?;
    let sql = include_str!("../sql/dead_letter/resume_lane.sql");
    let after = lane(&session.go_on(sql, &[&Instant(now)]).await?)?;
    let change = Change::lane_resumed(&before, &after);
    audit::commit(&mut session, Writer::DeadLetterOperator, by, &change).await?;
    Ok(after)
}

fn lane(rows: &[Row]) -> Result<Lane, Fault> {
    let row = rows.first().ok_or_else(|| Fault::Unreadable("the row of the lane is missing".to_owned()))?;
    Ok(Lane {
        paused_at: instant_or_none(row, "paused_at")?,
        reason: get(row, "reason")?,
        rate: get(row, "rate")?,
        unauthorized_in_row: count(row, "unauthorized_in_row")?,
        faults_in_row: count(row, "faults_in_row")?,
        probe_until: instant_or_none(row, "probe_until")?,
        next_send_at: instant_or_none(row, "next_send_at")?,
        slowed_at: instant_or_none(row, "slowed_at")?,
        updated_at: instant(row, "updated_at")?,
    })
}
