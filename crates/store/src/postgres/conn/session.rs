//! One borrowed connection, and the rule that it goes back to its pool only when nothing is open on
//! it. Whatever ends a call in between, an error or a caller that lost interest, drops the connection
//! instead, and the server undoes what was not committed.

use crate::postgres::conn::error::classify;
use crate::remote::{Fault, Phase};
use deadpool_postgres::Object;
use futures_util::future::{join, join3};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionMode {
    /// The commit is on disk before anybody is told.
    Flushed,
    /// For work that a crash can only repeat: the log keeps its order, and is flushed a moment later.
    Relaxed,
    /// Nothing is written, and every statement sees the same moment.
    Snapshot,
}

impl TransactionMode {
    const fn begin(self) -> &'static str {
        match self {
            Self::Flushed => "BEGIN",
            Self::Relaxed => "BEGIN; SET LOCAL synchronous_commit = off",
            Self::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }
}

pub(crate) struct Session {
    connection: Option<Object>,
    /// An answer is still to come, or will never come.
    awaiting: bool,
    /// A transaction is open.
    in_transaction: bool,
}

impl Session {
    pub(crate) const fn new(connection: Object) -> Self {
        Self { connection: Some(connection), awaiting: false, in_transaction: false }
    }

    fn connection(&self) -> Result<&Object, Fault> {
        match &self.connection {
            Some(connection) if !connection.is_closed() => Ok(connection),
            Some(_) | None => Err(Fault::Away("the connection was closed".into())),
        }
    }

    async fn prepare(&self, sql: &str) -> Result<Statement, Fault> {
        let prepared = self.connection()?.prepare_cached(sql).await;
        prepared.map_err(|error| classify(error, Phase::BeforeCommit))
    }

    /// Notes whether the connection has nothing left to say.
    fn heard<T>(&mut self, answer: Result<T, Fault>) -> Result<T, Fault> {
        self.awaiting = answer.as_ref().is_err_and(|fault| !fault.spares_connection());
        answer
    }

    /// One statement that is its own transaction.
    pub(crate) async fn run(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let answer = self.ask(sql, params, Phase::MayBeDone).await;
        self.heard(answer)
    }

    /// One statement in a transaction of its own whose commit is not flushed, in one trip: for work that a crash can
    /// only repeat.
    pub(crate) async fn run_relaxed(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let prepared = self.prepare(sql).await;
        let statement = self.heard(prepared)?;
        self.awaiting = true;
        let connection = self.connection()?;
        let (begun, answer, committed) = join3(
            connection.batch_execute(TransactionMode::Relaxed.begin()),
            connection.query(&statement, params),
            connection.batch_execute("COMMIT"),
        )
        .await;
        // The first error names the cause; a COMMIT behind it is carried out as a ROLLBACK.
        let answer = begun.and(answer).and_then(|rows| committed.map(|()| rows));
        self.heard(answer.map_err(|error| classify(error, Phase::MayBeDone)))
    }

    /// One statement that only reads.
    pub(crate) async fn read(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let answer = self.ask(sql, params, Phase::BeforeCommit).await;
        self.heard(answer)
    }

    async fn ask(&self, sql: &str, params: Params<'_>, phase: Phase) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        let answer = self.connection()?.query(&statement, params).await;
        answer.map_err(|error| classify(error, phase))
    }

    /// Opens a transaction with its first statement, in one trip.
    pub(crate) async fn begin(
        &mut self,
        mode: TransactionMode,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let prepared = self.prepare(sql).await;
        let statement = self.heard(prepared)?;
        self.awaiting = true;
        self.in_transaction = true;
        let connection = self.connection()?;
        let (begun, answer) =
            join(connection.batch_execute(mode.begin()), connection.query(&statement, params)).await;
        let answer = begun.and(answer).map_err(|error| classify(error, Phase::BeforeCommit));
        let answer = self.heard(answer);
        self.undo_if_failed(answer).await
    }

    /// A statement inside the transaction.
    pub(crate) async fn go_on(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let answer = self.read(sql, params).await;
        self.undo_if_failed(answer).await
    }

    /// The last statement and the commit, in one trip. Safe because a COMMIT behind a statement that
    /// failed is carried out as a ROLLBACK.
    pub(crate) async fn commit_with(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let prepared = self.prepare(sql).await;
        let statement = match self.heard(prepared) {
            Ok(statement) => statement,
            Err(fault) => return self.undo_if_failed(Err(fault)).await,
        };
        self.awaiting = true;
        let connection = self.connection()?;
        let (answer, committed) =
            join(connection.query(&statement, params), connection.batch_execute("COMMIT")).await;
        let answer = match (answer, committed) {
            (Ok(rows), Ok(())) => Ok(rows),
            // Whichever broke first names the cause; behind a statement that failed nothing was kept.
            (Err(error), _) | (Ok(_), Err(error)) => Err(classify(error, Phase::MayBeDone)),
        };
        let answer = self.heard(answer);
        self.in_transaction = self.awaiting;
        answer
    }

    /// Commits a transaction whose last statement has been answered.
    pub(crate) async fn commit(&mut self) -> Result<(), Fault> {
        self.awaiting = true;
        let done = self.connection()?.batch_execute("COMMIT").await;
        self.heard(done.map_err(|error| classify(error, Phase::MayBeDone)))?;
        self.in_transaction = false;
        Ok(())
    }

    /// Ends a transaction that has nothing to keep.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Fault> {
        self.awaiting = true;
        let undone = self.connection()?.batch_execute("ROLLBACK").await;
        self.heard(undone.map_err(|error| classify(error, Phase::BeforeCommit)))?;
        self.in_transaction = false;
        Ok(())
    }

    async fn undo_if_failed<T>(&mut self, answer: Result<T, Fault>) -> Result<T, Fault> {
        if answer.as_ref().is_err_and(Fault::spares_connection) {
            // If this fails too, the connection is dropped, which undoes as well.
            let _ = self.roll_back().await;
        }
        answer
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let is_clean = !self.awaiting && !self.in_transaction;
        if let Some(connection) = self.connection.take_if(|_| !is_clean) {
            drop(Object::take(connection));
        }
    }
}
