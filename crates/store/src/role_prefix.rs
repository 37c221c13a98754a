//! The prefix of the names of the database roles. Roles belong to a whole PostgreSQL cluster, so each installation in a
//! cluster has its own prefix. Metrics, logs and documents use the names without it.

use crate::grants::DbRole;
use std::fmt;

/// The maximum length of a role name in PostgreSQL, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// The prefix of all role names of one installation. It may be empty. The resulting names need no quotes in SQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolePrefix(String);

/// The error for a text that cannot be a prefix. Its message says what is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAPrefix;

impl RolePrefix {
    /// The maximum length of a prefix, in bytes. Leaves room for the longest role name.
    pub const BYTES_MAX: usize = NAME_BYTES_MAX - longest_name();

    /// Parses a prefix.
    pub fn parse(text: &str) -> Result<Self, NotAPrefix> {
        let is_first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_accepted = text.bytes().next().is_none_or(is_first)
            && text.bytes().all(|byte| is_first(byte) || byte.is_ascii_digit())
            && text.len() <= Self::BYTES_MAX
            // PostgreSQL reserves these names.
            && !text.starts_with("pg_");
        if is_accepted { Ok(Self(text.to_owned())) } else { Err(NotAPrefix) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of a role in the cluster.
    pub fn role(&self, role: DbRole) -> String {
        format!("{}{}", self.0, role.name())
    }

    /// Returns the names of several roles in the cluster.
    pub fn roles(&self, roles: &[DbRole]) -> Vec<String> {
        roles.iter().map(|role| self.role(*role)).collect()
    }
}

/// Formats the prefix in quotes, because it may be empty.
impl fmt::Display for RolePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl fmt::Display for NotAPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes_max = RolePrefix::BYTES_MAX;
        write!(
            f,
            "up to {bytes_max} lower-case letters, digits and underscores that do not start with a digit or pg_, \
             such as posthaste_"
        )
    }
}

impl std::error::Error for NotAPrefix {}

const fn longest_name() -> usize {
    let (mut longest, mut place) = (0, 0);
    while place < DbRole::ALL.len() {
        let length = DbRole::ALL[place].name().len();
        if length > longest {
            longest = length;
        }
        place += 1;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_plain_identifiers() {
        let longest = "p".repeat(RolePrefix::BYTES_MAX);
        for text in ["", "posthaste_", "_a1", &longest] {
            let prefix = RolePrefix::parse(text).unwrap();
            assert_eq!(prefix.as_str(), text);
            assert!(prefix.roles(&DbRole::ALL).iter().all(|name| name.len() <= NAME_BYTES_MAX), "{text}");
        }
        let too_long = "p".repeat(RolePrefix::BYTES_MAX + 1);
        for text in ["Posthaste_", "1a", "a-b", "a b", "ä", "a\"", "pg_a", &too_long] {
            assert_eq!(RolePrefix::parse(text), Err(NotAPrefix), "{text}");
        }
        assert!(NotAPrefix.to_string().contains("43"));
    }

    #[test]
    fn the_default_names_are_those_of_the_table() {
        assert_eq!(RolePrefix::default().role(DbRole::Viewer), DbRole::Viewer.name());
        assert_eq!(RolePrefix::parse("posthaste_").unwrap().role(DbRole::Viewer), "posthaste_viewer");
    }
}
