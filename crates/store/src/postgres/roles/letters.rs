//! Reads dead letters for the role `viewer`, with and without payloads, and counts the outcomes of requeued dead
//! letters.

use crate::postgres::conn::session::{Params, Session};
use crate::postgres::conn::value::{Instant, Json, error_code, get, instant};
use crate::postgres::roles::page;
use crate::remote::Fault;
use posthaste_core::event::EventType;
use posthaste_core::json::JsonText;
use posthaste_core::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterHead, FATES_MAX, Lineage, Page, PageRequest, RequeuedFates,
    RequeuedRange,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, EventId, SagaId, SubscriptionId};
use tokio_postgres::Row;

pub(crate) async fn one(mut session: Session, id: DeadLetterId) -> Result<Option<DeadLetter>, Fault> {
    let rows = session.read(include_str!("../sql/reader/dead_letter.sql"), &[&id.get()]).await?;
    rows.first().map(letter).transpose()
}

pub(crate) async fn list(
    mut session: Session,
    filter: &DeadLetterFilter,
    request: PageRequest,
) -> Result<Page<DeadLetter>, Fault> {
    let heads = found(&mut session, filter, request).await?;
    let sql = include_str!("../sql/reader/dead_letter_payloads.sql");
    let join = |head, payload_snapshot| DeadLetter { head, payload_snapshot };
    page::with_payloads(&mut session, sql, heads, |head| head.id.get(), join).await
}

pub(crate) async fn heads(
    mut session: Session,
    filter: &DeadLetterFilter,
    request: PageRequest,
) -> Result<Page<DeadLetterHead>, Fault> {
    found(&mut session, filter, request).await
}

/// Reads a page of dead letters, with the statement for all subscriptions or the statement for a single one.
async fn found(
    session: &mut Session,
    filter: &DeadLetterFilter,
    request: PageRequest,
) -> Result<Page<DeadLetterHead>, Fault> {
    let all = include_str!("../sql/reader/dead_letter_heads.sql");
    let of_one = include_str!("../sql/reader/dead_letter_heads_of_subscription.sql");
    let below = page::below(request);
    let subscription = filter.subscription_id.map(SubscriptionId::get);
    let event_type = filter.event_type.as_ref().map(EventType::as_str);
    let (since, until) = (filter.since.map(Instant), filter.until.map(Instant));
    let sql = if subscription.is_some() { of_one } else { all };
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    let values: Params<'_> =
        &[&below, &subscription, &event_type, &since, &until, &rows_max, &examined_max, &tenant];
    let rows = session.read(sql, values).await?;
    let last = include_str!("../sql/reader/last_dead_letter_examined.sql");
    page::fill(session, request, &rows, head, (last, &[&below, &subscription, &examined_max])).await
}

fn head(row: &Row) -> Result<DeadLetterHead, Fault> {
    Ok(DeadLetterHead {
        id: DeadLetterId::from_store(get(row, "id")?),
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        saga_id: SagaId::from_store(get(row, "saga_id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        final_error_code: error_code(row, "final_error_code")?,
        failed_at: instant(row, "failed_at")?,
        requeued_as: get::<Option<i64>>(row, "requeued_as")?.map(SagaId::from_store),
    })
}

fn letter(row: &Row) -> Result<DeadLetter, Fault> {
    let payload_snapshot = JsonText::from_store(get::<Json<'_>>(row, "payload_snapshot")?.0.to_owned());
    Ok(DeadLetter { head: head(row)?, payload_snapshot })
}

pub(crate) async fn lineage(mut session: Session, id: SagaId) -> Result<Lineage, Fault> {
    let rows = session.read(include_str!("../sql/reader/lineage.sql"), &[&id.get()]).await?;
    let Some(row) = rows.first() else {
        return Ok(Lineage::default());
    };
    let from = get::<Option<i64>>(row, "requeued_from")?.zip(get::<Option<i64>>(row, "made_from_saga")?);
    Ok(Lineage {
        made_from: from.map(|(letter, saga)| (DeadLetterId::from_store(letter), SagaId::from_store(saga))),
        dead_letter_id: get::<Option<i64>>(row, "letter_id")?.map(DeadLetterId::from_store),
        requeued_as: get::<Option<i64>>(row, "requeued_as")?.map(SagaId::from_store),
    })
}

pub(crate) async fn count_requeued(
    mut session: Session,
    range: &RequeuedRange,
) -> Result<RequeuedFates, Fault> {
    let subscription = range.subscription_id.map(SubscriptionId::get);
    let event_type = range.event_type.as_ref().map(EventType::as_str);
    let (first, last, since) = (range.first.get(), range.last.get(), Instant(range.since));
    let sql = include_str!("../sql/reader/count_requeued.sql");
    let rows = session.read(sql, &[&first, &last, &since, &subscription, &event_type]).await?;
    let Some(row) = rows.first() else {
        return Ok(RequeuedFates::default());
    };
    let looked_at: i64 = get(row, "looked_at")?;
    let reached = get::<Option<i64>>(row, "reached")?.filter(|_| looked_at >= i64::from(FATES_MAX));
    let number = |column: &str| get::<i64>(row, column).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Ok(RequeuedFates {
        delivered: number("delivered")?,
        waiting: number("waiting")?,
        given_up: number("given_up")?,
        reached: reached.map(DeadLetterId::from_store),
    })
}
