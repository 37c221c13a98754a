//! A connection with an authorizer, and the session in which a task executes the statements of its role.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};

use crate::grants::DbRole;
use crate::sqlite::conn::authorizer::Gate;
use crate::sqlite::conn::error::{Answer, Fault};

/// Capacity of the statement cache. It fits all statements of all roles, so that none is prepared twice.
const STATEMENTS_MAX: usize = 256;

/// Prefix of the first line of every SQL file, followed by the name of its role.
const HEAD: &str = "-- role: ";

/// A connection with an authorizer.
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

    /// Runs a statement, such as BEGIN, SAVEPOINT or COMMIT. No role may be set on the connection.
    pub(crate) fn owner(&self, sql: &str) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.raw_execute().map(drop)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Starts a session for a role, or for the owner if `role` is `None`.
    pub(crate) fn session(&self, role: Option<DbRole>) -> Session<'_> {
        self.gate.set_role(role);
        Session { guarded: self, role }
    }

    /// Returns whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }
}

/// A session of a role. Dropping it resets the connection to the owner.
#[derive(Debug)]
pub(crate) struct Session<'c> {
    guarded: &'c Guarded,
    role: Option<DbRole>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.guarded.gate.set_role(None);
    }
}

impl<'c> Session<'c> {
    /// Returns a statement of this role, from the cache if possible. The cache is keyed by the text, which contains the
    /// role, so a role never runs a statement that another role prepared.
    pub(crate) fn statement(&self, sql: &'static str) -> Answer<CachedStatement<'c>> {
        self.check_head(sql)?;
        Ok(self.guarded.connection.prepare_cached(sql)?)
    }

    /// Prepares a statement that is not a constant, without caching it. Used only for tests.
    pub(crate) fn try_text(&self, sql: &str) -> Answer<rusqlite::Statement<'c>> {
        self.check_head(sql)?;
        Ok(self.guarded.connection.prepare(sql)?)
    }

    /// Runs `work` in a savepoint. If it fails, rolls back its changes, and only those.
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
        self.guarded.gate.set_role(None);
        let done = self.guarded.owner(sql);
        self.guarded.gate.set_role(self.role);
        Ok(done?)
    }

    fn check_head(&self, sql: &str) -> Answer<()> {
        let Some(role) = self.role else { return Ok(()) };
        let named = sql.strip_prefix(HEAD).and_then(|rest| rest.split(['\n', ' ', ',']).next());
        if named == Some(role.name()) { Ok(()) } else { Err(Fault::ForeignStatement(role.name())) }
    }

    /// Returns the size of the database in bytes, without its write-ahead log.
    pub(crate) fn database_bytes(&self) -> Answer<u64> {
        self.guarded.gate.set_role(None);
        let pragma =
            |name| self.guarded.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let bytes = pragma("page_count").and_then(|pages| Ok(pages * pragma("page_size")?));
        self.guarded.gate.set_role(self.role);
        Ok(u64::try_from(bytes?).unwrap_or_default())
    }

    /// Runs a statement and returns the number of changed rows.
    pub(crate) fn run(&self, sql: &'static str, params: impl rusqlite::Params) -> Answer<usize> {
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Runs a statement that must change exactly `rows` rows: all of them were read in this transaction, and there is
    /// no other writer. Returns an error for any other number.
    pub(crate) fn change_all(
        &self,
        sql: &'static str,
        rows: usize,
        params: impl rusqlite::Params,
    ) -> Answer<()> {
        must_change(rows, self.run(sql, params)?)
    }

    /// Returns the number of rows changed by the last INSERT, UPDATE or DELETE.
    pub(crate) fn changed(&self) -> usize {
        usize::try_from(self.guarded.connection.changes()).unwrap_or(usize::MAX)
    }

    /// Returns the id of the last inserted row.
    pub(crate) fn last_id(&self) -> i64 {
        self.guarded.connection.last_insert_rowid()
    }
}

/// Returns an error unless a statement changed the expected number of rows.
pub(crate) fn must_change(rows: usize, changed: usize) -> Answer<()> {
    if changed == rows {
        return Ok(());
    }
    Err(Fault::Unreadable(format!("{changed} rows were changed, expected {rows}")))
}
