//! Options for a PostgreSQL store: URLs, roles, pool size and timeouts.

use crate::grants::DbRole;
use crate::postgres::conn::monitor::ConnectionMonitor;
use crate::postgres::conn::password::PasswordSource;
use crate::{Observer, RolePrefix};
use posthaste_core::ports::StoreError;
use std::time::Duration;

#[derive(Clone)]
pub struct PostgresOptions {
    /// The URL of a login that is a member of all roles of this process. Not needed if each of these roles has its own
    /// login.
    pub url: Option<String>,
    /// URLs of separate logins for individual roles. They take precedence over `url`.
    pub role_urls: Vec<(DbRole, String)>,
    /// Where the passwords of all logins come from.
    pub password: PasswordSource,
    /// The roles that this process uses. The first is also used to check the schema, to read the time, to report
    /// presence and to notify other processes.
    pub roles: Vec<DbRole>,
    /// The prefix of the role names, which must be that of the migration.
    pub role_prefix: RolePrefix,
    /// The maximum number of connections per role.
    pub connections_max: usize,
    /// The maximum time that a call waits for a connection if all are in use.
    pub wait_timeout: Duration,
    /// The observer that receives the duration of each call.
    pub observer: Observer,
    /// The record of connection attempts and of the connected server.
    pub monitor: ConnectionMonitor,
}

/// Omits the URLs, since they may contain passwords.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let own_logins: Vec<_> = self.role_urls.iter().map(|(role, _)| role).collect();
        f.debug_struct("PostgresOptions")
            .field("role_urls", &own_logins)
            .field("password", &self.password)
            .field("roles", &self.roles)
            .field("role_prefix", &self.role_prefix)
            .field("connections_max", &self.connections_max)
            .field("wait_timeout", &self.wait_timeout)
            .finish_non_exhaustive()
    }
}

/// Returns options without a URL and with all component roles. The viewer comes first, because its connections are the
/// least busy.
impl Default for PostgresOptions {
    fn default() -> Self {
        let mut roles = DbRole::COMPONENTS.to_vec();
        roles.rotate_right(1);
        Self {
            url: None,
            role_urls: Vec::new(),
            password: PasswordSource::default(),
            roles,
            role_prefix: RolePrefix::default(),
            connections_max: 4,
            wait_timeout: Duration::from_secs(10),
            observer: Observer::default(),
            monitor: ConnectionMonitor::default(),
        }
    }
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::default() }
    }

    /// Returns the login for a role, or `None` if no URL is set for it.
    pub(crate) fn login(&self, role: DbRole) -> Option<Login<'_>> {
        match self.role_urls.iter().find(|(owner, _)| *owner == role) {
            Some((_, url)) => Some(Login { url, takes_role: None }),
            None => self.url.as_deref().map(|url| Login { url, takes_role: Some(role) }),
        }
    }
}

/// A URL, and the role that each new connection sets. The role is `None` if the login itself has the rights of the
/// role. Such a login also works behind a connection pooler.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) url: &'a str,
    pub(crate) takes_role: Option<DbRole>,
}

/// Returns the error for a role without a URL.
pub(crate) fn no_login(role: DbRole) -> StoreError {
    StoreError::Unusable { what: no_login_text(role) }
}

pub(crate) fn no_login_text(role: DbRole) -> String {
    let own = role.url_setting().map(|setting| format!(", or {setting} for this one"));
    format!(
        "there is no URL for the role {}: set POSTHASTE_DATABASE_URL for all roles{}",
        role.name(),
        own.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_print_passwords() {
        let mut options = PostgresOptions::new("postgres://a:hunter2@b/c");
        options.role_urls.push((DbRole::Viewer, "postgres://v:hunter3@b/c".to_owned()));
        options.password = PasswordSource::Command("echo hunter4".to_owned());
        assert!(!format!("{options:?}").contains("hunter"));
    }

    #[test]
    fn role_login_takes_precedence_and_does_not_set_role() {
        let mut options = PostgresOptions { url: None, ..PostgresOptions::default() };
        assert!(options.login(DbRole::Viewer).is_none());
        options.url = Some("common".to_owned());
        options.role_urls.push((DbRole::Viewer, "own".to_owned()));
        let login_of = |role| options.login(role).map(|login| (login.url, login.takes_role));
        assert_eq!(login_of(DbRole::Viewer), Some(("own", None)));
        assert_eq!(login_of(DbRole::KeyKeeper), Some(("common", Some(DbRole::KeyKeeper))));
    }

    #[test]
    fn all_roles_are_used_by_default() {
        let roles = PostgresOptions::default().roles;
        assert_eq!(roles.first(), Some(&DbRole::Viewer));
        assert_eq!(roles.len(), DbRole::COMPONENTS.len());
        assert!(DbRole::COMPONENTS.iter().all(|role| roles.contains(role)));
    }
}
