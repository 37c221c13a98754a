//! Enforces the rights of the roles within one process. When a statement is prepared, SQLite calls [`Gate::authorize`]
//! for every access, which checks it against the table in [`grants`].
//!
//! Triggers and views run with the rights of the owner, as triggers and functions do on PostgreSQL. SQLite passes the
//! name of the trigger or view that causes an access, and separately authorizes the statement that fires the trigger or
//! reads the view. A common table expression with the same name would be mistaken for the trigger or view. All
//! statements are constants, so a test can prove that none has such a name, and that each stays within the rights of
//! its role.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::grants::{self, DbRole, Privilege};

/// Table-valued functions that every role may call, because they return only arguments of the statement.
const TABLE_FUNCTIONS: [&str; 2] = ["rarray", "json_each"];

/// The role that currently uses a connection. The thread that owns the connection sets it before every task, and the
/// authorizer reads it.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Index in [`DbRole::ALL`]. Any other value means the owner, who may do everything.
    current: AtomicUsize,
    /// Names of all triggers and views, which run with the rights of the owner.
    owner_code: HashSet<String>,
}

impl Gate {
    pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<Arc<Self>> {
        let names = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')";
        let owner_code =
            connection.prepare(names)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let gate = Arc::new(Self { current: AtomicUsize::new(usize::MAX), owner_code });
        let authorizing = Arc::clone(&gate);
        connection.authorizer(Some(move |context: AuthContext<'_>| authorizing.authorize(&context)))?;
        Ok(gate)
    }

    /// Sets the role of the connection, or the owner if `role` is `None`.
    pub(crate) fn set_role(&self, role: Option<DbRole>) {
        let index = role.and_then(|role| DbRole::ALL.iter().position(|one| *one == role));
        self.current.store(index.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        let Some(role) = DbRole::ALL.get(self.current.load(Ordering::Relaxed)) else {
            return Authorization::Allow;
        };
        let is_owner_code = context.accessor.is_some_and(|name| self.owner_code.contains(name));
        if may(*role, context.action, is_owner_code) { Authorization::Allow } else { Authorization::Deny }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is refused, new actions too")]
fn may(role: DbRole, action: AuthAction<'_>, is_owner_code: bool) -> bool {
    let (privilege, table, column) = match action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Function { .. } => return true,
        // SQLite passes an empty column name if no column is read, as in count(*).
        AuthAction::Read { table_name, column_name: "" } => (Privilege::Select, table_name, None),
        AuthAction::Read { table_name, column_name } => (Privilege::Select, table_name, Some(column_name)),
        AuthAction::Insert { table_name } => (Privilege::Insert, table_name, None),
        AuthAction::Update { table_name, column_name } => (Privilege::Update, table_name, Some(column_name)),
        AuthAction::Delete { table_name } => (Privilege::Delete, table_name, None),
        _ => return false,
    };
    is_owner_code
        || grants::allows(role, privilege, table, column)
        || match privilege {
            Privilege::Select => TABLE_FUNCTIONS.contains(&table) || grants::may_call_view(role, table),
            Privilege::Insert => grants::may_call_view(role, table),
            Privilege::Update | Privilege::Delete | Privilege::Execute => false,
        }
}
