//! Which engine a URL means: the one place that chooses.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub(crate) const DEFAULT_URL: &str = "sqlite://posthaste-data/posthaste.db";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(String),
}

impl FromStr for DatabaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("sqlite://") {
            if path.is_empty() {
                return Err("sqlite:// needs a file, as in sqlite://posthaste-data/posthaste.db".to_owned());
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        Err("expected sqlite://<file> or postgres://<user>@<host>/<database>".to_owned())
    }
}

/// For people and logs: the password of a URL is not shown.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => {
                let place = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
                let place = place.split_once('?').map_or(place, |(host, _)| host);
                write!(f, "postgres://{place}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |text: &str| text.parse::<DatabaseUrl>();
        assert_eq!(check("sqlite://a/b.db"), Ok(DatabaseUrl::Sqlite(PathBuf::from("a/b.db"))));
        assert_eq!(check("sqlite:///a/b.db"), Ok(DatabaseUrl::Sqlite(PathBuf::from("/a/b.db"))));
        for url in ["postgres://u@h/d", "postgresql://u@h/d"] {
            assert_eq!(check(url), Ok(DatabaseUrl::Postgres(url.to_owned())));
        }
        for bad in ["", "sqlite://", "mysql://h/d", "posthaste.db"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        for (url, shown) in [
            ("postgres://user:hush@host:5432/db", "postgres://host:5432/db"),
            ("postgres://host/db?user=u&password=hush", "postgres://host/db"),
            ("postgres://u:p@ss@host/db", "postgres://host/db"),
        ] {
            assert_eq!(url.parse::<DatabaseUrl>().map(|url| url.to_string()).as_deref(), Ok(shown));
        }
    }
}
