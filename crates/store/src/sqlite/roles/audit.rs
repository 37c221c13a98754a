//! The operator audit. Writes one row in the transaction of each change made by a person, and reads the rows for the
//! role `viewer`.

use posthaste_core::audit::{Actor, Change, OperatorAuditEntry, OperatorAuditFilter};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{Page, PageRequest, StoreResult};
use posthaste_core::{KeyId, OperatorAuditId, Timestamp};
use rusqlite::{Row, params};

use crate::audit::log;
use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::Answer;
use crate::sqlite::conn::session::Session;
use crate::sqlite::conn::value;
use crate::sqlite::conn::value::get;
use crate::sqlite::roles::page;
use crate::sqlite::roles::reader::list;

const OPERATOR_AUDIT: &str = include_str!("../sql/reader/operator_audit.sql");

/// A role that writes to the operator audit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Writer {
    KeyKeeper,
    SubscriptionAdmin,
    DeadLetterOperator,
}

impl Writer {
    const fn role(self) -> DbRole {
        match self {
            Self::KeyKeeper => DbRole::KeyKeeper,
            Self::SubscriptionAdmin => DbRole::SubscriptionAdmin,
            Self::DeadLetterOperator => DbRole::DeadLetterOperator,
        }
    }

    const fn record_change(self) -> &'static str {
        match self {
            Self::KeyKeeper => include_str!("../sql/key/record_change.sql"),
            Self::SubscriptionAdmin => include_str!("../sql/subscriptions/record_change.sql"),
            Self::DeadLetterOperator => include_str!("../sql/dead_letter/record_change.sql"),
        }
    }
}

impl SqliteStore {
    /// Runs work on behalf of a person, and writes its audit row in the same transaction. `work` returns its result and
    /// the change, or `None` in place of the change if nothing was changed.
    pub(crate) async fn write_audited<T, F>(
        &self,
        writer: Writer,
        doing: &'static str,
        (by, now): (Actor, Timestamp),
        work: F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Session<'_>) -> Answer<(T, Option<Change>)> + Send + 'static,
    {
        let written = self.write(writer.role(), doing, move |session| {
            let (answer, change) = work(session)?;
            if let Some(change) = &change {
                record(session, writer, &by, change, now)?;
            }
            Ok((answer, change, by))
        });
        let (answer, change, by) = written.await?;
        if let Some(change) = &change {
            log(&by, change);
        }
        Ok(answer)
    }
}

fn record(session: &Session<'_>, writer: Writer, by: &Actor, change: &Change, now: Timestamp) -> Answer<()> {
    let values = params![
        now.micros(),
        by.key_id.map(KeyId::get),
        by.key_name,
        by.address.map(|address| address.to_string()),
        change.action.as_str(),
        change.object,
        change.before.as_ref().map(JsonText::as_str),
        change.after.as_ref().map(JsonText::as_str),
    ];
    session.change_all(writer.record_change(), 1, values)
}

pub(crate) fn list_audit(
    session: &Session<'_>,
    filter: &OperatorAuditFilter,
    page: PageRequest,
) -> Answer<Page<OperatorAuditEntry>> {
    let values = params![page::below(page), page::rows_max(page)];
    list(session, OPERATOR_AUDIT, values, page, |row| {
        let action = value::text(row, "action")?;
        if filter.matches(action, value::time(row, "created_at")?) { entry(row).map(Some) } else { Ok(None) }
    })
}

fn entry(row: &Row<'_>) -> Answer<OperatorAuditEntry> {
    let json = |column| get::<Option<String>>(row, column).map(|text| text.map(JsonText::from_store));
    Ok(OperatorAuditEntry {
        id: OperatorAuditId::from_store(get(row, "id")?),
        created_at: value::time(row, "created_at")?,
        key_id: value::maybe_id(row, "key_id", KeyId::from_store)?,
        key_name: get(row, "key_name")?,
        client_address: get(row, "client_address")?,
        action: get(row, "action")?,
        object: get(row, "object")?,
        before: json("before")?,
        after: json("after")?,
    })
}
