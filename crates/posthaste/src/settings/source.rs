//! Collects the text of each setting from its sources: defaults, file, environment, flags. A later source replaces the
//! whole value of an earlier one. The text of a secret setting can also be in a file that `<NAME>_FILE` names.

use super::environment;
use super::file;
use super::flags::Flags;
use super::problem::{Problem, spelled, spelled_file};
use super::setting::{Kind, Row, Setting};
use super::table::{TABLE, find};
use posthaste_store::secret_file::read_secret;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    /// The settings file.
    File {
        path: Arc<PathBuf>,
        line: usize,
    },
    /// A file with only this value. `spelled` is the setting with its path, in the notation of its source.
    SecretFile {
        path: PathBuf,
        spelled: String,
    },
    Environment,
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::SecretFile { spelled, .. } => f.write_str(spelled),
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

/// What the text of a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The value of the setting.
    Value,
    /// The path of a file that contains the value.
    SecretFile,
}

/// A setting as a source gives it.
pub(super) struct Entry {
    pub(super) row: &'static dyn Row,
    pub(super) form: Form,
    pub(super) given: Given,
}

impl Entry {
    /// Returns whether both set the same setting, and neither is empty.
    fn repeats(&self, other: &Self) -> bool {
        let is_set = |entry: &Self| !entry.given.text.is_empty();
        self.row.about().env == other.row.about().env && is_set(self) && is_set(other)
    }
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
            values.put_all(file::read(path, problems), problems);
        }
        values.put_all(found.entries, problems);
        for (name, text) in &flags.given {
            if let Some(row) = find(|row| row.about().env == *name) {
                values.put(row, Given { text: text.clone(), source: Source::Flag });
            }
        }
        values.check(problems);
        values
    }

    /// Sets the values that one source gives. A setting that it gives both as a value and as a file is a problem.
    fn put_all(&mut self, entries: Vec<Entry>, problems: &mut Vec<Problem>) {
        let (values, files): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| entry.form == Form::Value);
        for file in &files {
            let about = file.row.about();
            if let Some(value) = values.iter().find(|value| value.repeats(file)) {
                let (one, other) = (spelled(about, &value.given), spelled_file(about, &file.given));
                problems.push(Problem::Conflict { one, other, why: "remove one of the two".to_owned() });
            }
        }
        // An empty text counts as not set, so it does not replace the other form.
        let is_other = |entry: &Entry, others: &[Entry]| {
            let env = entry.row.about().env;
            entry.given.text.is_empty() && others.iter().any(|other| other.row.about().env == env)
        };
        for Entry { row, given, .. } in values.iter().filter(|value| !is_other(value, &files)) {
            self.put(*row, given.clone());
        }
        for file in files.iter().filter(|file| !is_other(file, &values)) {
            self.put_file(file, problems);
        }
    }

    /// Sets the value of a setting to the contents of a file. An empty path unsets a setting without a default.
    fn put_file(&mut self, Entry { row, given, .. }: &Entry, problems: &mut Vec<Problem>) {
        if given.text.is_empty() {
            if row.about().default().is_none() {
                self.0.remove(row.about().env);
            }
            return;
        }
        let (path, spelled) = (PathBuf::from(&given.text), spelled_file(row.about(), given));
        match read_secret(&path) {
            Ok(text) => self.put(*row, Given { text, source: Source::SecretFile { path, spelled } }),
            Err(reason) => {
                let base = std::env::current_dir().ok().filter(|_| path.is_relative());
                let base = base.map(|folder| format!("; the path is relative to {}", folder.display()));
                let why = format!("{reason}{}", base.unwrap_or_default());
                problems.push(Problem::File { file: spelled, why });
            }
        }
    }

    /// Returns the files with secrets, each with the setting in the notation of its source.
    pub(super) fn secret_files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.0.values().filter_map(|given| match &given.source {
            Source::SecretFile { path, spelled } => Some((path.as_path(), spelled.as_str())),
            Source::Default | Source::File { .. } | Source::Environment | Source::Flag => None,
        })
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
