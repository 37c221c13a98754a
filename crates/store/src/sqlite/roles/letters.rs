//! Reads dead letters for the role `viewer`, with and without payloads, and counts the outcomes of requeued dead
//! letters.

use posthaste_core::event::EventType;
use posthaste_core::json::JsonText;
use posthaste_core::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterHead, FATES_MAX, Lineage, Page, PageRequest, RequeuedFates,
    RequeuedRange,
};
use posthaste_core::tenant::Tenant;
use posthaste_core::{DeadLetterId, EventId, SagaId, SubscriptionId};
use rusqlite::{Row, params};

use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value::{self, get};
use crate::sqlite::roles::dead_letter;
use crate::sqlite::roles::page;
use crate::sqlite::roles::reader::{list, one, with_payloads};

const DEAD_LETTER: &str = include_str!("../sql/reader/dead_letter.sql");
const DEAD_LETTER_PAYLOADS: &str = include_str!("../sql/reader/dead_letter_payloads.sql");
const DEAD_LETTER_HEADS: &str = include_str!("../sql/reader/dead_letter_heads.sql");
const DEAD_LETTER_HEADS_OF_SUBSCRIPTION: &str =
    include_str!("../sql/reader/dead_letter_heads_of_subscription.sql");
const LINEAGE: &str = include_str!("../sql/reader/lineage.sql");
const COUNT_REQUEUED: &str = include_str!("../sql/reader/count_requeued.sql");

pub(crate) fn one_letter(session: &Session<'_>, id: DeadLetterId) -> Answer<Option<DeadLetter>> {
    one(session, DEAD_LETTER, [id.get()], read_letter)
}

pub(crate) fn list_letters(
    session: &Session<'_>,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Answer<Page<DeadLetter>> {
    let heads = heads(session, filter, page)?;
    let join = |head, payload_snapshot| DeadLetter { head, payload_snapshot };
    with_payloads(session, DEAD_LETTER_PAYLOADS, heads, |head| head.id.get(), join)
}

pub(crate) fn heads(
    session: &Session<'_>,
    filter: &DeadLetterFilter,
    page: PageRequest,
) -> Answer<Page<DeadLetterHead>> {
    let (below, rows_max) = (page::below(page), page::rows_max(page));
    let read = |row: &Row<'_>| {
        if dead_letter::matches(filter, row)? { read_head(row).map(Some) } else { Ok(None) }
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
        id: DeadLetterId::from_store(get(row, "id")?),
        tenant: get::<Option<String>>(row, "tenant")?.map(Tenant::from_store),
        saga_id: SagaId::from_store(get(row, "saga_id")?),
        event_id: EventId::from_store(get(row, "event_id")?),
        subscription_id: SubscriptionId::from_store(get(row, "subscription_id")?),
        final_error_code: value::error_code(row, "final_error_code")?,
        failed_at: value::time(row, "failed_at")?,
        requeued_as: get::<Option<i64>>(row, "requeued_as")?.map(SagaId::from_store),
    })
}

fn read_letter(row: &Row<'_>) -> Answer<DeadLetter> {
    Ok(DeadLetter {
        head: read_head(row)?,
        payload_snapshot: JsonText::from_store(get(row, "payload_snapshot")?),
    })
}

pub(crate) fn lineage(session: &Session<'_>, id: SagaId) -> Answer<Lineage> {
    let found = one(session, LINEAGE, [id.get()], |row| {
        let from = get::<Option<i64>>(row, "requeued_from")?.zip(get::<Option<i64>>(row, "made_from_saga")?);
        Ok(Lineage {
            made_from: from
                .map(|(letter, saga)| (DeadLetterId::from_store(letter), SagaId::from_store(saga))),
            dead_letter_id: get::<Option<i64>>(row, "letter_id")?.map(DeadLetterId::from_store),
            requeued_as: get::<Option<i64>>(row, "requeued_as")?.map(SagaId::from_store),
        })
    });
    Ok(found?.unwrap_or_default())
}

pub(crate) fn count_requeued(session: &Session<'_>, range: &RequeuedRange) -> Answer<RequeuedFates> {
    let subscription = range.subscription_id.map(SubscriptionId::get);
    let event_type = range.event_type.as_ref().map(EventType::as_str);
    let values = params![range.first.get(), range.last.get(), range.since.micros(), subscription, event_type];
    let found = one(session, COUNT_REQUEUED, values, |row| {
        let is_full = get::<u32>(row, "looked_at")? >= FATES_MAX;
        let reached = get::<Option<i64>>(row, "reached")?.filter(|_| is_full);
        Ok(RequeuedFates {
            delivered: get(row, "delivered")?,
            waiting: get(row, "waiting")?,
            given_up: get(row, "given_up")?,
            reached: reached.map(DeadLetterId::from_store),
        })
    });
    Ok(found?.unwrap_or_default())
}
