//! Finds dead letters, creates new sagas from them, and resumes the lane. A trigger writes a dead letter when a saga is
//! dead-lettered. Both changes use SECURITY DEFINER functions.

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::postgres::conn::session::{Params, Session, TransactionMode};
use crate::postgres::conn::value::{Instant, get};
use crate::postgres::roles::audit::{self, Writer};
use crate::postgres::roles::lane_row;
use crate::postgres::roles::page;
use crate::remote::{Call, Fault};
use posthaste_core::audit::{Actor, Change};
use posthaste_core::event::EventType;
use posthaste_core::lane::Lane;
use posthaste_core::ports::{DeadLetterFilter, DeadLetterStore, Page, PageRequest, Requeue, StoreResult};
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, SagaId, SubscriptionId, Timestamp};
use std::collections::HashMap;
use tokio_postgres::Row;

/// The PostgreSQL implementation of [`DeadLetterStore`], with the rights of the role `dead_letter_operator`.
#[derive(Debug, Clone)]
pub struct PostgresDeadLetters {
    pool: RolePool,
}

impl PostgresDeadLetters {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::DeadLetterOperator) }
    }
}

impl DeadLetterStore for PostgresDeadLetters {
    async fn requeue_dead_letters(
        &self,
        ids: Vec<DeadLetterId>,
        by: Actor,
        now: Timestamp,
    ) -> StoreResult<Vec<Requeue>> {
        let call = Call::repeatable("requeueing dead letters");
        self.pool.call(call, |session| requeue(session, &ids, &by, now)).await
    }

    async fn find_dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> StoreResult<Page<DeadLetterId>> {
        let call = Call::repeatable("finding dead letters");
        self.pool.call(call, |session| find(session, &filter, page)).await
    }

    async fn resume_lane(&self, by: Actor, now: Timestamp) -> StoreResult<Lane> {
        let call = Call::repeatable("resuming the lane");
        self.pool.call(call, |session| lane_row::resume(session, &by, now)).await
    }
}

async fn requeue(
    mut session: Session,
    ids: &[DeadLetterId],
    by: &Actor,
    now: Timestamp,
) -> Result<Vec<Requeue>, Fault> {
    let mut letters: Vec<i64> = ids.iter().map(|id| id.get()).collect();
    letters.sort_unstable();
    letters.dedup();
    let sql = include_str!("../sql/dead_letter/requeue_dead_letters.sql");
    let rows = session.begin(TransactionMode::Flushed, sql, &[&letters, &Instant(now)]).await?;
    let outcomes: Vec<(i64, Requeue)> = rows.iter().map(requeued).collect::<Result<_, Fault>>()?;
    match Change::dead_letters_requeued(&created(&outcomes)) {
        Some(change) => audit::commit(&mut session, Writer::DeadLetterOperator, by, &change).await?,
        None => session.roll_back().await?,
    }
    let made: HashMap<i64, Requeue> = outcomes.into_iter().collect();
    let mut created_told = std::collections::HashSet::new();
    let answer = |id: &DeadLetterId| match made.get(&id.get()) {
        // The id occurs twice in one call: at its second occurrence, it is already requeued.
        Some(Requeue::Created(saga)) if !created_told.insert(*id) => Ok(Requeue::AlreadyRequeued(*saga)),
        Some(outcome) => Ok(*outcome),
        None => Err(Fault::Unreadable(format!("no outcome for the dead letter {id}"))),
    };
    ids.iter().map(answer).collect()
}

/// Returns the dead letters for which a saga was created, each with its new saga.
fn created(outcomes: &[(i64, Requeue)]) -> Vec<(DeadLetterId, SagaId)> {
    let created = outcomes.iter().filter_map(|(letter, outcome)| match outcome {
        Requeue::Created(saga) => Some((DeadLetterId::from_store(*letter), *saga)),
        Requeue::AlreadyRequeued(_) | Requeue::SubscriptionDeleted | Requeue::NotFound => None,
    });
    created.collect()
}

fn requeued(row: &Row) -> Result<(i64, Requeue), Fault> {
    let outcome: &str = get(row, "outcome")?;
    let saga = || get(row, "saga_id").map(SagaId::from_store);
    let outcome = match outcome {
        "created" => Requeue::Created(saga()?),
        "already_requeued" => Requeue::AlreadyRequeued(saga()?),
        "subscription_deleted" => Requeue::SubscriptionDeleted,
        "not_found" => Requeue::NotFound,
        other => return Err(Fault::Unreadable(format!("{other:?} is not an outcome of a requeue"))),
    };
    Ok((get(row, "id")?, outcome))
}

async fn find(
    mut session: Session,
    filter: &DeadLetterFilter,
    request: PageRequest,
) -> Result<Page<DeadLetterId>, Fault> {
    let above = page::above(request);
    let subscription = filter.subscription_id.map(SubscriptionId::get);
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let (since, until) = (filter.since.map(Instant), filter.until.map(Instant));
    let sql = if subscription.is_some() {
        include_str!("../sql/dead_letter/find_dead_letters_of_subscription.sql")
    } else {
        include_str!("../sql/dead_letter/find_dead_letters.sql")
    };
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    let values: Params<'_> =
        &[&above, &subscription, &event_type, &since, &until, &rows_max, &examined_max, &tenant];
    let found = session.read(sql, values).await?;
    let item = |row: &Row| get(row, "id").map(DeadLetterId::from_store);
    let last = include_str!("../sql/dead_letter/last_examined.sql");
    page::fill(&mut session, request, &found, item, (last, &[&above, &subscription, &examined_max])).await
}
