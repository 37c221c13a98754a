//! A connection borrowed from a pool, and returned to it only in a clean state. If a call ends early because of an
//! error or cancellation, the connection is closed instead, and the server rolls back.

use crate::postgres::conn::error::classify;
use crate::postgres::conn::pool::Manager;
use crate::remote::{Fault, Phase};
use deadpool::managed::Object;
use futures_util::future::{join, join3};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage, Statement};

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The durability and isolation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionMode {
    /// The commit is flushed before it is acknowledged.
    Flushed,
    /// The commit is not flushed, but the log preserves the commit order. Used for work that is repeated after a crash.
    Relaxed,
    /// The transaction is read-only, and all statements see the same snapshot.
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
    connection: Option<Object<Manager>>,
    /// Whether a response is outstanding or will never arrive.
    awaiting: bool,
    /// Whether a transaction is open.
    in_transaction: bool,
}

impl Session {
    pub(crate) const fn new(connection: Object<Manager>) -> Self {
        Self { connection: Some(connection), awaiting: false, in_transaction: false }
    }

    fn connection(&self) -> Result<&Object<Manager>, Fault> {
        match &self.connection {
            Some(connection) if !connection.is_closed() => Ok(connection),
            Some(_) | None => Err(Fault::Away("the connection was closed".into())),
        }
    }

    /// Runs a reading statement without parameters that is not prepared.
    pub(crate) async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Fault> {
        let answer = self.connection()?.simple_query(sql).await;
        answer.map_err(|error| classify(error, Phase::BeforeCommit))
    }

    async fn prepare(&self, sql: &str) -> Result<Statement, Fault> {
        let prepared = self.connection()?.prepare_cached(sql).await;
        prepared.map_err(|error| classify(error, Phase::BeforeCommit))
    }

    /// Clears `awaiting`, unless the fault has made the connection unusable.
    fn record_response<T>(&mut self, answer: Result<T, Fault>) -> Result<T, Fault> {
        self.awaiting = answer.as_ref().is_err_and(|fault| !fault.spares_connection());
        answer
    }

    /// Runs one statement as its own transaction.
    pub(crate) async fn run(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let answer = self.ask(sql, params, Phase::MayBeDone).await;
        self.record_response(answer)
    }

    /// Runs one statement in its own transaction, in one round trip, without flushing the commit. Used for work that is
    /// repeated after a crash.
    pub(crate) async fn run_relaxed(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let prepared = self.prepare(sql).await;
        let statement = self.record_response(prepared)?;
        self.awaiting = true;
        let connection = self.connection()?;
        let (begun, answer, committed) = join3(
            connection.batch_execute(TransactionMode::Relaxed.begin()),
            connection.query(&statement, params),
            connection.batch_execute("COMMIT"),
        )
        .await;
        // The first error is the cause. COMMIT after a failed statement acts as ROLLBACK.
        let answer = begun.and(answer).and_then(|rows| committed.map(|()| rows));
        self.record_response(answer.map_err(|error| classify(error, Phase::MayBeDone)))
    }

    /// Runs one statement that only reads.
    pub(crate) async fn read(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let answer = self.ask(sql, params, Phase::BeforeCommit).await;
        self.record_response(answer)
    }

    async fn ask(&self, sql: &str, params: Params<'_>, phase: Phase) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        let answer = self.connection()?.query(&statement, params).await;
        answer.map_err(|error| classify(error, phase))
    }

    /// Begins a transaction with its first statement, in one round trip.
    pub(crate) async fn begin(
        &mut self,
        mode: TransactionMode,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let prepared = self.prepare(sql).await;
        let statement = self.record_response(prepared)?;
        self.awaiting = true;
        self.in_transaction = true;
        let connection = self.connection()?;
        let (begun, answer) =
            join(connection.batch_execute(mode.begin()), connection.query(&statement, params)).await;
        let answer = begun.and(answer).map_err(|error| classify(error, Phase::BeforeCommit));
        let answer = self.record_response(answer);
        self.undo_if_failed(answer).await
    }

    /// Runs a statement in the open transaction.
    pub(crate) async fn go_on(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let answer = self.read(sql, params).await;
        self.undo_if_failed(answer).await
    }

    /// Runs the last statement of the transaction and commits, in one round trip. This is safe because COMMIT after a
    /// failed statement acts as ROLLBACK.
    pub(crate) async fn commit_with(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        self.awaiting = true;
        let prepared = self.prepare(sql).await;
        let statement = match self.record_response(prepared) {
            Ok(statement) => statement,
            Err(fault) => return self.undo_if_failed(Err(fault)).await,
        };
        self.awaiting = true;
        let connection = self.connection()?;
        let (answer, committed) =
            join(connection.query(&statement, params), connection.batch_execute("COMMIT")).await;
        let answer = match (answer, committed) {
            (Ok(rows), Ok(())) => Ok(rows),
            // The first error is the cause. If the statement failed, nothing was committed.
            (Err(error), _) | (Ok(_), Err(error)) => Err(classify(error, Phase::MayBeDone)),
        };
        let answer = self.record_response(answer);
        self.in_transaction = self.awaiting;
        answer
    }

    /// Commits the open transaction.
    pub(crate) async fn commit(&mut self) -> Result<(), Fault> {
        self.awaiting = true;
        let done = self.connection()?.batch_execute("COMMIT").await;
        self.record_response(done.map_err(|error| classify(error, Phase::MayBeDone)))?;
        self.in_transaction = false;
        Ok(())
    }

    /// Rolls back the open transaction.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Fault> {
        self.awaiting = true;
        let undone = self.connection()?.batch_execute("ROLLBACK").await;
        self.record_response(undone.map_err(|error| classify(error, Phase::BeforeCommit)))?;
        self.in_transaction = false;
        Ok(())
    }

    async fn undo_if_failed<T>(&mut self, answer: Result<T, Fault>) -> Result<T, Fault> {
        if answer.as_ref().is_err_and(Fault::spares_connection) {
            // If the rollback fails, the connection is dropped, and the server rolls back.
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
