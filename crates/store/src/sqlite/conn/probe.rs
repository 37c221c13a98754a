//! Test support: runs or explains a statement as a role and rolls it back, and limits the size of the file.

use posthaste_core::ports::StoreResult;

use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::{Answer, Fault};
use crate::sqlite::conn::session::Session;

impl SqliteStore {
    /// Runs a statement as a role and rolls it back. Returns the number of rows that it returned or changed.
    #[doc(hidden)]
    pub async fn probe(&self, role: DbRole, sql: &str) -> StoreResult<usize> {
        let text = with_head(role, sql);
        let tried = self.ask(|queues| &queues.writer, Some(role), move |session| probe(session, &text)).await;
        undone(tried).map_err(|fault| fault.during("probing a statement"))
    }

    /// Returns the lines of EXPLAIN QUERY PLAN for a statement of a role. The authorizer checks the statement.
    #[doc(hidden)]
    pub async fn probe_plan(&self, role: DbRole, sql: &str) -> StoreResult<Vec<String>> {
        let text = with_head(role, &format!("EXPLAIN QUERY PLAN {sql}"));
        let plan = self.ask(
            |queues| &queues.writer,
            Some(role),
            move |session| {
                let mut explain = session.try_text(&text)?;
                let steps = explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>()?;
                Ok(steps)
            },
        );
        plan.await.map_err(|fault| fault.during("explaining a statement"))
    }

    /// Limits the size of the database to `pages_max` pages, to test a full disk.
    #[doc(hidden)]
    pub async fn limit_pages(&self, pages_max: u32) -> StoreResult<()> {
        let limit = self.ask(
            |queues| &queues.writer,
            None,
            move |session| {
                let text = format!("PRAGMA max_page_count = {pages_max}");
                let mut limit = session.try_text(&text)?;
                limit.query_row([], |_| Ok(()))?;
                Ok(())
            },
        );
        limit.await.map_err(|fault| fault.during("limiting the file"))
    }
}

fn with_head(role: DbRole, sql: &str) -> String {
    format!("-- role: {}\n{sql}", role.name())
}

/// Runs a statement. Returns an error even if it succeeds, so that the writer rolls it back.
fn probe(session: &Session<'_>, sql: &str) -> Answer<usize> {
    let mut statement = session.try_text(sql)?;
    let mut rows = statement.raw_query();
    let mut count = 0;
    while rows.next()?.is_some() {
        count += 1;
    }
    drop(rows);
    Err(Fault::Probed(count.max(session.changed())))
}

fn undone(tried: Answer<usize>) -> Answer<usize> {
    match tried {
        Err(Fault::Probed(count)) => Ok(count),
        other => other,
    }
}
