//! Finds dead letters, creates new sagas from them, and resumes the lane. A trigger writes a dead letter when a saga is
//! dead-lettered. Both changes use views that have the rights of the owner.

use posthaste_core::audit::{Actor, Change};
use posthaste_core::lane::Lane;
use posthaste_core::ports::{DeadLetterFilter, DeadLetterStore, Page, PageRequest, Requeue, StoreResult};
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, SagaId, Timestamp};
use rusqlite::{OptionalExtension as _, Row, params};

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value;
use crate::sqlite::roles::audit::Writer;
use crate::sqlite::roles::lane_row;
use crate::sqlite::roles::page;

const FIND_REQUEUED: &str = include_str!("../sql/dead_letter/find_requeued.sql");
const REQUEUE_DEAD_LETTERS: &str = include_str!("../sql/dead_letter/requeue_dead_letters.sql");
const FIND_DEAD_LETTERS: &str = include_str!("../sql/dead_letter/find_dead_letters.sql");
const FIND_DEAD_LETTERS_OF_SUBSCRIPTION: &str =
    include_str!("../sql/dead_letter/find_dead_letters_of_subscription.sql");

const ROLE: DbRole = DbRole::DeadLetterOperator;

/// The SQLite implementation of [`DeadLetterStore`], with the rights of the role `dead_letter_operator`.
#[derive(Debug, Clone)]
pub struct SqliteDeadLetters(pub(crate) SqliteStore);

impl DeadLetterStore for SqliteDeadLetters {
    async fn requeue_dead_letters(
        &self,
        ids: Vec<DeadLetterId>,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Vec<Requeue>> {
        let (writer, doing) = (Writer::DeadLetterOperator, "requeueing dead letters");
        self.0
            .write_audited(writer, doing, (by, now), move |session| {
                let requeued = ids.iter().map(|id| requeue(session, *id, now));
                let outcomes = requeued.collect::<Answer<Vec<Requeue>>>()?;
                let change = Change::dead_letters_requeued(&created(&ids, &outcomes));
                Ok((outcomes, change))
            })
            .await
    }

    async fn find_dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetterId>> {
        self.0
            .read(ROLE, "finding dead letters", move |session| find_dead_letters(session, &filter, page))
            .await
    }

    async fn resume_lane(&self, by: Actor, now: Timestamp) -> StoreResult<Lane> {
        let (writer, doing) = (Writer::DeadLetterOperator, "resuming the lane");
        self.0
            .write_audited(writer, doing, (by, now), move |session| {
                let (before, after) = lane_row::resume(session, now)?;
                let change = Change::lane_resumed(&before, &after);
                Ok((after, Some(change)))
            })
            .await
    }
}

/// Returns the dead letters for which a saga was created, each with its new saga.
fn created(ids: &[DeadLetterId], outcomes: &[Requeue]) -> Vec<(DeadLetterId, SagaId)> {
    let created = ids.iter().zip(outcomes).filter_map(|(id, outcome)| match outcome {
        Requeue::Created(saga) => Some((*id, *saga)),
        Requeue::AlreadyRequeued(_) | Requeue::SubscriptionDeleted | Requeue::NotFound => None,
    });
    created.collect()
}

fn requeue(session: &Session<'_>, id: DeadLetterId, now: Timestamp) -> Answer<Requeue> {
    match find_requeued(session, id)? {
        None => Ok(Requeue::NotFound),
        Some((Some(saga_id), _)) => Ok(Requeue::AlreadyRequeued(saga_id)),
        Some((None, true)) => Ok(Requeue::SubscriptionDeleted),
        Some((None, false)) => {
            session.run(REQUEUE_DEAD_LETTERS, params![id.get(), now.micros()])?;
            match find_requeued(session, id)? {
                Some((Some(saga_id), _)) => Ok(Requeue::Created(saga_id)),
                Some((None, _)) | None => Err(Fault::Unreadable(format!("dead letter {id} has no new saga"))),
            }
        }
    }
}

/// Returns the saga that was created from a dead letter, if any, and whether its subscription was deleted. Returns
/// `None` if the dead letter does not exist.
fn find_requeued(session: &Session<'_>, id: DeadLetterId) -> Answer<Option<(Option<SagaId>, bool)>> {
    let found = session
        .statement(FIND_REQUEUED)?
        .query_row([id.get()], |row| Ok((row.get::<_, Option<i64>>(0)?.map(SagaId::from_store), row.get(1)?)))
        .optional()?;
    Ok(found)
}

fn find_dead_letters(
    session: &Session<'_>,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Answer<Page<DeadLetterId>> {
    let above = page::above(page);
    let read = |row: &Row<'_>| {
        let id = DeadLetterId::from_store(row.get(0)?);
        Ok(matches(filter, row)?.then_some(id))
    };
    match filter.subscription_id {
        None => {
            let mut list = session.statement(FIND_DEAD_LETTERS)?;
            page::fill(list.query(params![above, page::rows_max(page)])?, page, read)
        }
        Some(id) => {
            let mut list = session.statement(FIND_DEAD_LETTERS_OF_SUBSCRIPTION)?;
            page::fill(list.query(params![above, page::rows_max(page), id.get()])?, page, read)
        }
    }
}

/// Returns whether a row matches the parts of a filter that no index covers. Reads the columns `event_type`,
/// `tenant` and `failed_at`.
pub(crate) fn matches(filter: &DeadLetterFilter, row: &Row<'_>) -> Answer<bool> {
    let failed_at = value::time(row, "failed_at")?;
    let kind = value::text(row, "event_type")?;
    let tenant = value::get::<Option<String>>(row, "tenant")?;
    let wanted = filter.tenant.as_ref().map(Tenant::as_str);
    Ok((wanted.is_none() || wanted == tenant.as_deref())
        && filter.event_type.as_ref().is_none_or(|wanted| wanted.as_str() == kind)
        && filter.since.is_none_or(|since| failed_at >= since)
        && filter.until.is_none_or(|until| failed_at < until))
}
