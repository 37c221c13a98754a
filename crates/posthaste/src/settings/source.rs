//! Collects the text of each setting from its sources: defaults, file, environment, flags. A later source replaces the
//! whole value of an earlier one.

use super::environment;
use super::file;
use super::flags::Flags;
use super::problem::Problem;
use super::setting::{Kind, Row, Setting};
use super::table::{TABLE, find};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    File { path: Arc<PathBuf>, line: usize },
    Environment,
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Environment => f.write_str("environment"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// The text of a setting and its source. The text may be secret; display it only with [`super::problem::shown`].
#[derive(Clone)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) source: Source,
}

/// The settings file that is read by default, if it exists.
pub(super) const DEFAULT_FILE: &str = "posthaste.toml";

/// The text of every setting that has a value, keyed by the name of its environment variable.
pub(crate) struct Values(BTreeMap<&'static str, Given>);

impl Values {
    /// Collects the values from all sources and checks each of them. Appends any problems to `problems`.
    pub(super) fn collect(
        flags: &Flags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let found = environment::read(environment, problems);
        let mut values = Self(BTreeMap::new());
        for row in TABLE {
            if let Some(text) = row.about().default() {
                values.put(*row, Given { text: text.to_owned(), source: Source::Default });
            }
        }
        let named = flags.config.as_deref().or(found.config.as_deref());
        if let Some(path) = named.or_else(|| Some(Path::new(DEFAULT_FILE)).filter(|path| path.exists())) {
            for (row, given) in file::read(path, problems) {
                values.put(row, given);
            }
        }
        let environment = found.values.into_iter().map(|(name, text)| (name, text, Source::Environment));
        let flags = flags.given.iter().map(|(name, text)| (*name, text.clone(), Source::Flag));
        for (name, text, source) in environment.chain(flags) {
            if let Some(row) = find(|row| row.about().env == name) {
                values.put(row, Given { text, source });
            }
        }
        values.check(problems);
        values
    }

    /// Sets the value of a setting. An empty text unsets a setting without a default, even if an earlier source set it.
    fn put(&mut self, row: &dyn Row, given: Given) {
        if given.text.is_empty() && row.about().default().is_none() {
            self.0.remove(row.about().env);
        } else {
            self.0.insert(row.about().env, given);
        }
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        for row in TABLE {
            if let Some(given) = self.given(row.about().env)
                && let Err(expected) = row.check(&given.text)
            {
                problems.push(Problem::invalid(row.about(), given, expected));
            }
        }
    }

    pub(super) fn given(&self, env: &str) -> Option<&Given> {
        self.0.get(env)
    }

    /// Returns the value of a setting, or `None` if it is unset or invalid.
    pub(super) fn get<K: Kind>(&self, setting: &Setting<K>) -> Option<K::Value> {
        self.given(setting.about.env).and_then(|given| setting.kind.read(&given.text).ok())
    }

    /// Returns the value of a setting that has a default, or a [`Problem`] if it is invalid.
    pub(super) fn value<K: Kind>(&self, setting: &Setting<K>) -> Result<K::Value, Problem> {
        let missing = Given { text: String::new(), source: Source::Default };
        let given = self.given(setting.about.env).unwrap_or(&missing);
        setting.kind.read(&given.text).map_err(|expected| Problem::invalid(&setting.about, given, expected))
    }

    /// Formats a setting and its value in the notation of its source, for messages about conflicting settings.
    pub(super) fn spelled<K>(&self, setting: &Setting<K>) -> String {
        let name = || setting.about.env.to_owned();
        self.given(setting.about.env)
            .map_or_else(name, |given| super::problem::spelled(&setting.about, given))
    }
}
