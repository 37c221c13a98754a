//! A setting: a row of [`super::table`], and the [`Kind`] that parses its text.

use super::types::ProcessRole;

/// Parses the text of a setting, independently of its source.
pub(super) trait Kind: Sync {
    type Value;
    /// The placeholder for the value in `--help`.
    const METAVAR: &'static str;
    /// The separator that joins the entries of a list in the file. `None` if the file must not contain a list.
    const SEPARATOR: Option<&'static str> = None;
    /// Whether the file contains the value without quotes.
    const BARE: bool = false;
    /// Whether the flag alone means `true`.
    const SWITCH: bool = false;

    /// Parses a value.
    ///
    /// # Errors
    ///
    /// Returns a description of what is accepted. It never contains the text, which may be secret.
    fn read(&self, text: &str) -> Result<Self::Value, String>;

    /// Returns the accepted values in a few words, with the range, for the settings reference.
    fn accepts(&self) -> String;
}

/// The part of a value that may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Whole,
    /// A database URL without its password.
    WithoutPassword,
    /// A URL that must not contain credentials or a query; one that does is not shown.
    PlainUrl,
    Hidden,
}

/// The heading of a setting in `--help`, in the example file and in the settings reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Server,
    Database,
    Deliveries,
    Egress,
    Orders,
    Logs,
}

impl Group {
    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Database => "Database",
            Self::Deliveries => "Deliveries",
            Self::Egress => "Outgoing requests",
            Self::Orders => "Orders",
            Self::Logs => "Logging",
        }
    }
}

/// The value of a setting that no source sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    Value(&'static str),
    /// No value. The example file shows `example`.
    Unset {
        example: &'static str,
    },
}

/// The part of a row that does not depend on its kind.
#[derive(Debug)]
pub(super) struct About {
    /// The name of the environment variable, which identifies the setting.
    pub(super) env: &'static str,
    pub(super) group: Group,
    pub(super) fallback: Fallback,
    pub(super) shown: Shown,
    pub(super) help: &'static str,
    /// The process roles that use it.
    pub(super) roles: &'static [ProcessRole],
}

impl About {
    /// Returns the key in the settings file: the variable's name in lower case, without `posthaste_`.
    pub(super) fn key(&self) -> String {
        bare_name(self.env)
    }

    /// Returns the flag with its dashes.
    pub(super) fn flag(&self) -> String {
        format!("--{}", self.long())
    }

    /// Returns the flag without its dashes, as clap expects it.
    pub(super) fn long(&self) -> String {
        self.key().replace('_', "-")
    }

    pub(super) const fn default(&self) -> Option<&'static str> {
        match self.fallback {
            Fallback::Value(text) => Some(text),
            Fallback::Unset { .. } => None,
        }
    }
}

/// Returns a name in lower case, without `posthaste_`: the form that all spellings of a setting share.
pub(super) fn bare_name(name: &str) -> String {
    let lower = name.to_lowercase();
    lower.strip_prefix("posthaste_").map_or_else(|| lower.clone(), str::to_owned)
}

#[derive(Debug)]
pub(super) struct Setting<K> {
    pub(super) about: About,
    pub(super) kind: K,
}

impl<K> Setting<K> {
    /// Creates a setting with a default.
    pub(super) const fn new(
        env: &'static str,
        default: &'static str,
        group: Group,
        kind: K,
        help: &'static str,
    ) -> Self {
        let fallback = Fallback::Value(default);
        let roles = &ProcessRole::ALL;
        Self { about: About { env, group, fallback, shown: Shown::Whole, help, roles }, kind }
    }

    /// Creates a setting without a default.
    pub(super) const fn optional(
        env: &'static str,
        example: &'static str,
        group: Group,
        kind: K,
        help: &'static str,
    ) -> Self {
        let fallback = Fallback::Unset { example };
        let roles = &ProcessRole::ALL;
        Self { about: About { env, group, fallback, shown: Shown::Whole, help, roles }, kind }
    }

    pub(super) const fn shown(mut self, shown: Shown) -> Self {
        self.about.shown = shown;
        self
    }

    /// Sets the process roles that use the setting. Without a call, all do.
    pub(super) const fn used_by(mut self, roles: &'static [ProcessRole]) -> Self {
        self.about.roles = roles;
        self
    }
}

/// A row of the table, independent of its kind.
pub(super) trait Row: Sync {
    fn about(&self) -> &About;
    fn metavar(&self) -> &'static str;
    fn separator(&self) -> Option<&'static str>;
    fn is_bare(&self) -> bool;
    fn is_switch(&self) -> bool;
    fn accepts(&self) -> String;
    fn check(&self, text: &str) -> Result<(), String>;
}

impl<K: Kind> Row for Setting<K> {
    fn about(&self) -> &About {
        &self.about
    }

    fn metavar(&self) -> &'static str {
        K::METAVAR
    }

    fn separator(&self) -> Option<&'static str> {
        K::SEPARATOR
    }

    fn is_bare(&self) -> bool {
        K::BARE
    }

    fn is_switch(&self) -> bool {
        K::SWITCH
    }

    fn accepts(&self) -> String {
        self.kind.accepts()
    }

    fn check(&self, text: &str) -> Result<(), String> {
        self.kind.read(text).map(drop)
    }
}
