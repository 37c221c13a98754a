//! The operator audit. Writes one row in the transaction of each change made by a person, and reads the rows for the
//! role `viewer`.

use crate::audit::log;
use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::{Instant, Json, get, id_or_none, instant};
use crate::postgres::roles::page;
use crate::remote::Fault;
use posthaste_core::audit::{Actor, AuditAction, Change, OperatorAuditEntry, OperatorAuditFilter};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{Page, PageRequest};
use posthaste_core::{KeyId, OperatorAuditId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// A role that writes to the operator audit. Each role has its own statement, which no other role prepares.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Writer {
    KeyKeeper,
    SubscriptionAdmin,
    DeadLetterOperator,
}

impl Writer {
    const fn record_change(self) -> &'static str {
        match self {
            Self::KeyKeeper => include_str!("../sql/key/record_change.sql"),
            Self::SubscriptionAdmin => include_str!("../sql/subscriptions/record_change.sql"),
            Self::DeadLetterOperator => include_str!("../sql/dead_letter/record_change.sql"),
        }
    }
}

/// Writes the audit row and commits the open transaction.
pub(crate) async fn commit(
    session: &mut Session,
    writer: Writer,
    by: &Actor,
    change: &Change,
) -> Result<(), Fault> {
    let columns = Columns::of(by, change);
    session.commit_with(writer.record_change(), &columns.values()).await?;
    log(by, change);
    Ok(())
}

/// Writes the audit row for an action that changes nothing else, in its own transaction.
pub(crate) async fn record(
    session: &mut Session,
    writer: Writer,
    by: &Actor,
    change: &Change,
) -> Result<(), Fault> {
    let columns = Columns::of(by, change);
    session.run(writer.record_change(), &columns.values()).await?;
    log(by, change);
    Ok(())
}

struct Columns<'a> {
    key_id: Option<i64>,
    key_name: Option<&'a str>,
    client_address: Option<String>,
    action: &'static str,
    object: &'a str,
    before: Option<Json<'a>>,
    after: Option<Json<'a>>,
}

impl<'a> Columns<'a> {
    fn of(by: &'a Actor, change: &'a Change) -> Self {
        Self {
            key_id: by.key_id.map(KeyId::get),
            key_name: by.key_name.as_deref(),
            client_address: by.address.map(|address| address.to_string()),
            action: change.action.as_str(),
            object: &change.object,
            before: change.before.as_ref().map(|json| Json(json.as_str())),
            after: change.after.as_ref().map(|json| Json(json.as_str())),
        }
    }

    fn values(&self) -> [&(dyn ToSql + Sync); 7] {
        [
            &self.key_id,
            &self.key_name,
            &self.client_address,
            &self.action,
            &self.object,
            &self.before,
            &self.after,
        ]
    }
}

pub(crate) async fn list(
    mut session: Session,
    filter: &OperatorAuditFilter,
    request: PageRequest,
) -> Result<Page<OperatorAuditEntry>, Fault> {
    let below = page::below(request);
    let action = filter.action.map(AuditAction::as_str);
    let (since, until) = (filter.since.map(Instant), filter.until.map(Instant));
    let sql = include_str!("../sql/reader/operator_audit.sql");
    let (rows_max, examined_max) = (page::rows_max(request), page::examined_max(request));
    let found = session.read(sql, &[&below, &action, &since, &until, &rows_max, &examined_max]).await?;
    let last = include_str!("../sql/reader/last_operator_audit_examined.sql");
    page::fill(&mut session, request, &found, entry, (last, &[&below, &examined_max])).await
}

fn entry(row: &Row) -> Result<OperatorAuditEntry, Fault> {
    let json = |column: &str| {
        let text: Option<Json<'_>> = get(row, column)?;
        Ok::<_, Fault>(text.map(|json| JsonText::from_store(json.0.to_owned())))
    };
    Ok(OperatorAuditEntry {
        id: OperatorAuditId::from_store(get(row, "id")?),
        created_at: instant(row, "created_at")?,
        key_id: id_or_none(row, "key_id", KeyId::from_store)?,
        key_name: get(row, "key_name")?,
        client_address: get(row, "client_address")?,
        action: get(row, "action")?,
        object: get(row, "object")?,
        before: json("before")?,
        after: json("after")?,
    })
}
