//! The record of a database's roles, in the comment of its schema. Any login can read it, and it is part of a dump.

use crate::RolePrefix;
use crate::postgres::conn::session::Session;
use crate::remote::Fault;
use posthaste_core::ports::StoreError;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

const READ: &str = include_str!("../sql/migrate/role_record.sql");

/// The roles for which a database was migrated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleRecord {
    /// Each component has a role whose name has this prefix.
    Prefix(RolePrefix),
    /// One login does everything.
    None,
}

impl RoleRecord {
    /// Reads a comment. Returns `None` for a comment without a record, as in databases that version 0.1 migrated.
    fn parse(comment: &str) -> Option<Self> {
        match comment.split_once('=') {
            Some(("role_prefix", prefix)) => RolePrefix::parse(prefix).ok().map(Self::Prefix),
            Some(("roles", "none")) => Some(Self::None),
            Some(_) | None => None,
        }
    }

    /// Returns the statement that writes the record. The prefix needs no escaping.
    pub(super) fn statement(&self) -> String {
        let text = match self {
            Self::Prefix(prefix) => format!("role_prefix={}", prefix.as_str()),
            Self::None => "roles=none".to_owned(),
        };
        format!("COMMENT ON SCHEMA posthaste IS '{text}'")
    }
}

/// Reads the record without a prepared statement, because it is not known yet whether a pooler supports them.
pub(crate) async fn read_simply(session: &Session) -> Result<Option<RoleRecord>, Fault> {
    let messages = session.simple_query(READ).await?;
    let comment = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        SimpleQueryMessage::CommandComplete(_) | SimpleQueryMessage::RowDescription(_) | _ => None,
    });
    Ok(comment.and_then(RoleRecord::parse))
}

pub(super) async fn read(client: &Client) -> Result<Option<RoleRecord>, Error> {
    let row = client.query_opt(READ, &[]).await?;
    let comment = row.map(|row| row.try_get::<_, Option<String>>("comment")).transpose()?;
    Ok(comment.flatten().and_then(|comment| RoleRecord::parse(&comment)))
}

/// Returns the error for a prefix that is not that of the database.
pub(crate) fn mismatch(of_database: &RolePrefix, configured: &RolePrefix) -> StoreError {
    StoreError::Unusable {
        what: format!(
            "the roles of this database have the prefix {of_database}, but POSTHASTE_ROLE_PREFIX is {configured}: set \
             POSTHASTE_ROLE_PREFIX to {of_database}, or move the database with `posthaste migrate --rename-roles`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for record in [
            RoleRecord::Prefix(RolePrefix::default()),
            RoleRecord::Prefix(RolePrefix::parse("posthaste_").unwrap()),
            RoleRecord::None,
        ] {
            let statement = record.statement();
            let comment = statement.split('\'').nth(1).unwrap();
            assert_eq!(RoleRecord::parse(comment), Some(record));
        }
        for comment in ["", "our webhooks", "role_prefix=Bad", "roles=some", "role_prefix"] {
            assert_eq!(RoleRecord::parse(comment), None, "{comment}");
        }
    }
}
