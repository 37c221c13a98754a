//! A connection with its authorizer, and what a piece of work sees of it: statements of its own role.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};

use crate::grants::DbRole;
use crate::sqlite::conn::authorizer::Gate;
use crate::sqlite::conn::error::{Answer, Fault};

/// Enough for every statement of every role, so that none is ever prepared twice.
const STATEMENTS_MAX: usize = 256;

/// The first line of every SQL file begins with this and goes on with the name of its role.
const HEAD: &str = "-- role: ";

/// A connection that asks the authorizer.
#[derive(Debug)]
pub(crate) struct Guarded {
    connection: Connection,
    gate: Arc<Gate>,
}

impl Guarded {
    pub(crate) fn new(mut connection: Connection) -> Answer<Self> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        rusqlite::vtab::array::load_module(&connection)?;
        let gate = Gate::install(&mut connection)?;
        Ok(Self { connection, gate })
    }

    /// Runs a statement that only the thread itself may use: BEGIN, SAVEPOINT, COMMIT.
    pub(crate) fn owner(&self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.raw_execute().map(drop)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Lets a role in, or with nothing the owner.
    pub(crate) fn session(&self, role: Option<DbRole>) -> Session<'_> {
        self.gate.admit(role);
        Session { guarded: self, role }
    }

    /// Whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }
}

/// What a piece of work works with. When it is gone, the owner has the connection again.
#[derive(Debug)]
pub(crate) struct Session<'c> {
    guarded: &'c Guarded,
    role: Option<DbRole>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.guarded.gate.admit(None);
    }
}

impl<'c> Session<'c> {
    /// A statement of this role, from the cache. The cache is keyed by the text, and the text names its
    /// role: so what one role prepared is never run by another.
    pub(crate) fn statement(&self, sql: &'static str) -> Answer<CachedStatement<'c>> {
        self.check_head(sql)?;
        Ok(self.guarded.connection.prepare_cached(sql)?)
    }

    /// A text that is no constant, for tests that try what a role may do. Not cached.
    pub(crate) fn try_text(&self, sql: &str) -> Answer<rusqlite::Statement<'c>> {
        self.check_head(sql)?;
        Ok(self.guarded.connection.prepare(sql)?)
    }

    /// Undoes what `work` did if it fails, and nothing else of the piece.
    pub(crate) fn all_or_nothing<T>(&self, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
        self.as_owner("SAVEPOINT part")?;
        match work() {
            Ok(value) => {
                self.as_owner("RELEASE part")?;
                Ok(value)
            }
            Err(fault) => {
                if !fault.is_fatal_for_group() {
                    self.as_owner("ROLLBACK TO part")?;
                    self.as_owner("RELEASE part")?;
                }
                Err(fault)
            }
        }
    }

    fn as_owner(&self, sql: &str) -> Answer<()> {
        self.guarded.gate.admit(None);
        let done = self.guarded.owner(sql);
        self.guarded.gate.admit(self.role);
        Ok(done?)
    }

    fn check_head(&self, sql: &str) -> Answer<()> {
        let Some(role) = self.role else { return Ok(()) };
        let named = sql.strip_prefix(HEAD).and_then(|rest| rest.split(['\n', ' ', ',']).next());
        if named == Some(role.name()) { Ok(()) } else { Err(Fault::ForeignStatement(role.name())) }
    }

    /// How large the database is, without its log.
    pub(crate) fn database_bytes(&self) -> Answer<u64> {
        self.guarded.gate.admit(None);
        let pragma =
            |name| self.guarded.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let bytes = pragma("page_count").and_then(|pages| Ok(pages * pragma("page_size")?));
        self.guarded.gate.admit(self.role);
        Ok(u64::try_from(bytes?).unwrap_or_default())
    }

    /// How many rows the last statement changed.
    pub(crate) fn run(&self, sql: &'static str, params: impl rusqlite::Params) -> Answer<usize> {
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Runs a statement that must change so many rows: all of them were read in this transaction, and
    /// nobody writes beside it.
    pub(crate) fn change_all(
        &self,
        sql: &'static str,
        rows: usize,
        params: impl rusqlite::Params,
    ) -> Answer<()> {
        must_change(rows, self.run(sql, params)?)
    }

    /// How many rows the last statement changed that changed any.
    pub(crate) fn changed(&self) -> usize {
        usize::try_from(self.guarded.connection.changes()).unwrap_or(usize::MAX)
    }

    /// The id of the row that was inserted last.
    pub(crate) fn last_id(&self) -> i64 {
        self.guarded.connection.last_insert_rowid()
    }
}

/// Whether a statement changed as many rows as it must.
pub(crate) fn must_change(rows: usize, changed: usize) -> Answer<()> {
    if changed == rows {
        return Ok(());
    }
    Err(Fault::Unreadable(format!("{changed} rows were as they had been read, not {rows}")))
}
