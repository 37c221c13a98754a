//! Dead letters as the role viewer sees them: whole, in brief, and what came of those that were requeued.

use posthaste_core::event::EventType;
use posthaste_core::json::JsonText;
use posthaste_core::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterHead, FATES_MAX, Lineage, Page, PageRequest, RequeuedFates,
    RequeuedRange,
};
use posthaste_core::{DeadLetterId, EventId, SagaId, SubscriptionId};
use rusqlite::{Row, params};

use super::dead_letter;
use super::error::Answer;
use super::pages;
use super::reader::{list, one, with_payloads};
use super::rows;
use super::session::Session;

const DEAD_LETTER: &str = include_str!("sql/reader/dead_letter.sql");
const DEAD_LETTER_PAYLOAD: &str = include_str!("sql/reader/dead_letter_payload.sql");
const DEAD_LETTER_HEADS: &str = include_str!("sql/reader/dead_letter_heads.sql");
const DEAD_LETTER_HEADS_OF_SUBSCRIPTION: &str =
    include_str!("sql/reader/dead_letter_heads_of_subscription.sql");
const LINEAGE: &str = include_str!("sql/reader/lineage.sql");
const COUNT_REQUEUED: &str = include_str!("sql/reader/count_requeued.sql");

pub(super) fn one_letter(session: &Session<'_>, id: DeadLetterId) -> Answer<Option<DeadLetter>> {
    one(session, DEAD_LETTER, [id.get()], read_letter)
}

pub(super) fn list_letters(
    session: &Session<'_>,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Answer<Page<DeadLetter>> {
    let heads = heads(session, filter, page)?;
    let join = |head, payload_snapshot| DeadLetter { head, payload_snapshot };
    with_payloads(session, DEAD_LETTER_PAYLOAD, heads, |head| head.id.get(), join)
}

pub(super) fn heads(
    session: &Session<'_>,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Answer<Page<DeadLetterHead>> {
    let (below, rows_max) = (pages::below(page), pages::rows_max(page));
    let read = |row: &Row<'_>| {
        if dead_letter::matches(filter, row, 7, 5)? { read_head(row).map(Some) } else { Ok(None) }
    };
    match filter.subscription_id {
        Some(id) => {
            let values = params![below, rows_max, id.get()];
            list(session, DEAD_LETTER_HEADS_OF_SUBSCRIPTION, values, page, read)
        }
        None => list(session, DEAD_LETTER_HEADS, params![below, rows_max], page, read),
    }
}

fn read_head(row: &Row<'_>) -> Answer<DeadLetterHead> {
    Ok(DeadLetterHead {
        id: DeadLetterId::from_store(row.get(0)?),
        saga_id: SagaId::from_store(row.get(1)?),
        event_id: EventId::from_store(row.get(2)?),
        subscription_id: SubscriptionId::from_store(row.get(3)?),
        final_error_code: rows::error_code(row, 4)?,
        failed_at: rows::time(row, 5)?,
        requeued_as: row.get::<_, Option<i64>>(6)?.map(SagaId::from_store),
    })
}

fn read_letter(row: &Row<'_>) -> Answer<DeadLetter> {
    Ok(DeadLetter { head: read_head(row)?, payload_snapshot: JsonText::from_store(row.get(8)?) })
}

pub(super) fn lineage(session: &Session<'_>, id: SagaId) -> Answer<Lineage> {
    let found = one(session, LINEAGE, [id.get()], |row| {
        let from = row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?);
        Ok(Lineage {
            made_from: from
                .map(|(letter, saga)| (DeadLetterId::from_store(letter), SagaId::from_store(saga))),
            dead_letter_id: row.get::<_, Option<i64>>(2)?.map(DeadLetterId::from_store),
            requeued_as: row.get::<_, Option<i64>>(3)?.map(SagaId::from_store),
        })
    });
    Ok(found?.unwrap_or_default())
}

pub(super) fn count_requeued(session: &Session<'_>, range: &RequeuedRange) -> Answer<RequeuedFates> {
    let subscription = range.subscription_id.map(SubscriptionId::get);
    let event_type = range.event_type.as_ref().map(EventType::as_str);
    let values = params![range.first.get(), range.last.get(), range.since.micros(), subscription, event_type];
    let found = one(session, COUNT_REQUEUED, values, |row| {
        let is_full = row.get::<_, u32>(0)? >= FATES_MAX;
        let reached = row.get::<_, Option<i64>>(4)?.filter(|_| is_full);
        Ok(RequeuedFates {
            delivered: row.get(1)?,
            waiting: row.get(2)?,
            given_up: row.get(3)?,
            reached: reached.map(DeadLetterId::from_store),
        })
    });
    Ok(found?.unwrap_or_default())
}
