//! Parses database URLs, which select the engine, and formats them without the password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub(crate) const DEFAULT_URL: &str = "sqlite://posthaste-data/posthaste.db";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(ServerUrl),
}

impl FromStr for DatabaseUrl {
    type Err = NotADatabase;

    fn from_str(text: &str) -> Result<Self, NotADatabase> {
        match text.strip_prefix("sqlite://") {
            Some("") => Err(NotADatabase),
            Some(path) => Ok(Self::Sqlite(PathBuf::from(path))),
            None => text.parse().map(Self::Postgres),
        }
    }
}

/// Formats the URL without user name and password, for logs and messages.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

/// The error for a text that is not a database URL. It does not contain the text, which may include a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotADatabase;

/// The URL of a PostgreSQL server, which may include a user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl(String);

impl ServerUrl {
    /// Returns the whole URL, including the password, for the driver.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the URL contains a password. The store also checks this, for URLs whose parts are ambiguous.
    pub(crate) fn has_password(&self) -> bool {
        let query = self.0.split_once('?').map_or("", |(_, query)| query);
        let in_query = query.split('&').any(|pair| pair.starts_with("password="));
        in_query || parts(&self.0).is_some_and(|parts| parts.has_password)
    }

    /// Returns the names of the user and the database, or `None` if the URL does not contain both.
    pub(crate) fn user_and_database(&self) -> Option<(String, String)> {
        posthaste_store::postgres::user_and_database(&self.0)
    }
}

impl FromStr for ServerUrl {
    type Err = NotADatabase;

    fn from_str(text: &str) -> Result<Self, NotADatabase> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        if rest.is_none_or(str::is_empty) {
            return Err(NotADatabase);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match parts(&self.0) {
            Some(parts) => write!(f, "postgres://{}", parts.place),
            None => f.write_str("postgres://(not shown)"),
        }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

struct Parts<'a> {
    user: Option<&'a str>,
    has_password: bool,
    place: &'a str,
    has_query: bool,
}

/// Splits a PostgreSQL URL into its parts. Returns `None` if a question mark precedes an `@`, because it is ambiguous
/// which of the two is part of a password.
fn parts(url: &str) -> Option<Parts<'_>> {
    let (_, rest) = url.split_once("://")?;
    let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
    if login.is_some_and(|login| login.contains('?')) {
        return None;
    }
    let (place, has_query) = place.split_once('?').map_or((place, false), |(place, _)| (place, true));
    let user = login.map(|login| login.split_once(':').map_or(login, |(user, _)| user));
    // A user name with an `@` is part of a password that was given without a user name.
    let user = user.filter(|user| !user.contains('@'));
    Some(Parts { user, has_password: login.is_some_and(|login| login.contains(':')), place, has_query })
}

/// Returns a database URL without its password, for `posthaste config`. The user name is kept, because it distinguishes
/// logins. Returns `None` if the text is not a database URL or its password cannot be located.
pub(crate) fn without_password(text: &str) -> Option<String> {
    match text.parse().ok()? {
        DatabaseUrl::Sqlite(path) => Some(format!("sqlite://{}", path.display())),
        DatabaseUrl::Postgres(url) => {
            let parts = parts(url.expose())?;
            let password = if parts.has_password { ":***" } else { "" };
            let login = parts.user.map(|user| format!("{user}{password}@")).unwrap_or_default();
            let query = if parts.has_query { "?…" } else { "" };
            Some(format!("postgres://{login}{}{query}", parts.place))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_select_an_engine() {
        let check = |text: &str| text.parse::<DatabaseUrl>();
        assert_eq!(check("sqlite://a/b.db"), Ok(DatabaseUrl::Sqlite(PathBuf::from("a/b.db"))));
        assert_eq!(check("sqlite:///a/b.db"), Ok(DatabaseUrl::Sqlite(PathBuf::from("/a/b.db"))));
        for url in ["postgres://u@h/d", "postgresql://u@h/d"] {
            assert_eq!(check(url), Ok(DatabaseUrl::Postgres(ServerUrl(url.to_owned()))));
        }
        for bad in ["", "sqlite://", "postgres://", "mysql://h/d", "posthaste.db"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn passwords_are_found() {
        for (url, expected) in [
            ("postgres://user:hush@host:5432/db", true),
            ("postgres://user@host:5432/db", false),
            ("postgres://host:5432/db?user=u", false),
            ("postgres://host/db?user=u&password=hush", true),
            ("postgres://host/db?application_name=password", false),
            ("postgres://host/db?password=hu@sh", true),
        ] {
            let url = url.parse::<ServerUrl>().unwrap();
            assert_eq!(url.has_password(), expected, "{url}");
        }
    }

    #[test]
    fn user_and_database_are_decoded() {
        let named = |text: &str| text.parse::<ServerUrl>().expect("a URL").user_and_database();
        let both = |user: &str, database: &str| Some((user.to_owned(), database.to_owned()));
        assert_eq!(named("postgres://owner:pw@h1,h2:5433/db?sslmode=require"), both("owner", "db"));
        assert_eq!(named("postgresql://o%27x@%2Frun%2Fpg/d%C3%A9"), both("o'x", "dé"));
        for text in ["h/db", "o@h", "o@h/", ":pw@h/db", "%+1@h/db", "%2@h/db", "%ff@h/db", "%é@h/db"] {
            assert_eq!(named(&format!("postgres://{text}")), None, "{text}");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        for (url, displayed, shown) in [
            (
                "postgres://user:hush@host:5432/db",
                "postgres://host:5432/db",
                Some("postgres://user:***@host:5432/db"),
            ),
            ("postgresql://user@host/db", "postgres://host/db", Some("postgres://user@host/db")),
            ("postgres://host/db?user=u&password=hush", "postgres://host/db", Some("postgres://host/db?…")),
            ("postgres://u:hu@sh@host/db", "postgres://host/db", Some("postgres://u:***@host/db")),
            ("postgres://hu@sh@host/db", "postgres://host/db", Some("postgres://host/db")),
            ("postgres://host/db?password=hu@sh", "postgres://(not shown)", None),
            ("postgres://u:hu?sh@host/db", "postgres://(not shown)", None),
        ] {
            let parsed = url.parse::<DatabaseUrl>();
            assert_eq!(parsed.map(|url| url.to_string()).as_deref(), Ok(displayed));
            let debugged = format!("{parsed:?}", parsed = url.parse::<DatabaseUrl>());
            assert!(!debugged.contains("hu") && !debugged.contains("sh@"), "{debugged}");
            assert_eq!(without_password(url).as_deref(), shown);
        }
        assert_eq!(without_password("hush"), None);
        assert_eq!(without_password("sqlite://a.db").as_deref(), Some("sqlite://a.db"));
    }
}
