//! Where the database is, which roles this process works as, and how much of the server it takes.

use crate::Observer;
use crate::grants::DbRole;
use posthaste_core::ports::StoreError;
use std::time::Duration;

#[derive(Clone)]
pub struct PostgresOptions {
    /// A login that is a member of every role it is used for. Not needed when every role of this process
    /// has a login of its own.
    pub url: Option<String>,
    /// Logins of their own for single roles.
    pub role_urls: Vec<(DbRole, String)>,
    /// The roles that this process works as. The first is at home here: as it the process looks at the
    /// schema, asks for the time, says that it lives and wakes the others.
    pub roles: Vec<DbRole>,
    /// Connections of each role at most.
    pub connections_max: usize,
    /// How long one connection may take to come to be.
    pub connect_timeout: Duration,
    /// How long a call waits for a connection when all are in use.
    pub wait_timeout: Duration,
    /// Is told how long each call took.
    pub observer: Observer,
}

/// URLs carry passwords.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let own_logins: Vec<_> = self.role_urls.iter().map(|(role, _)| role).collect();
        f.debug_struct("PostgresOptions")
            .field("role_urls", &own_logins)
            .field("roles", &self.roles)
            .field("connections_max", &self.connections_max)
            .field("connect_timeout", &self.connect_timeout)
            .field("wait_timeout", &self.wait_timeout)
            .finish_non_exhaustive()
    }
}

/// No URL yet, and every role. The viewer comes first: its connections are the least busy.
impl Default for PostgresOptions {
    fn default() -> Self {
        let mut roles = DbRole::COMPONENTS.to_vec();
        roles.rotate_right(1);
        Self {
            url: None,
            role_urls: Vec::new(),
            roles,
            connections_max: 4,
            connect_timeout: Duration::from_secs(5),
            wait_timeout: Duration::from_secs(10),
            observer: Observer::default(),
        }
    }
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::default() }
    }

    /// How a role logs in; nothing if no setting says so.
    pub(crate) fn login(&self, role: DbRole) -> Option<Login<'_>> {
        match self.role_urls.iter().find(|(owner, _)| *owner == role) {
            Some((_, url)) => Some(Login { url, takes_role: None }),
            None => self.url.as_deref().map(|url| Login { url, takes_role: Some(role) }),
        }
    }
}

/// A URL, and the role that a connection takes when it has come to be; nothing if the login has its
/// role's rights by itself, which is what works behind a pooler.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) url: &'a str,
    pub(crate) takes_role: Option<DbRole>,
}

/// What whoever needs a role is told that no setting has a URL for.
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
        assert!(!format!("{options:?}").contains("hunter"));
    }

    #[test]
    fn an_own_login_comes_before_the_common_one_and_takes_no_role() {
        let mut options = PostgresOptions { url: None, ..PostgresOptions::default() };
        assert!(options.login(DbRole::Viewer).is_none());
        options.url = Some("common".to_owned());
        options.role_urls.push((DbRole::Viewer, "own".to_owned()));
        let told = |role| options.login(role).map(|login| (login.url, login.takes_role));
        assert_eq!(told(DbRole::Viewer), Some(("own", None)));
        assert_eq!(told(DbRole::KeyKeeper), Some(("common", Some(DbRole::KeyKeeper))));
    }

    #[test]
    fn every_role_is_used_unless_told_otherwise() {
        let roles = PostgresOptions::default().roles;
        assert_eq!(roles.first(), Some(&DbRole::Viewer));
        assert_eq!(roles.len(), DbRole::COMPONENTS.len());
        assert!(DbRole::COMPONENTS.iter().all(|role| roles.contains(role)));
    }
}
