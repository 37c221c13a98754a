//! The definition of a setting: a [`Setting`] is a row of [`super::table`], and its [`Kind`] parses the text.

use super::types::ProcessRole;

/// A kind of setting, such as a duration or a URL. It parses the setting's text, whatever the source.
pub(super) trait Kind: Sync {
    type Value;
    /// The placeholder for the value in `--help`.
    const METAVAR: &'static str;
    /// The separator that joins the entries of a TOML array into one text, or `None` if an array is not accepted.
    const SEPARATOR: Option<&'static str> = None;
    /// Whether the value is written without quotes in the settings file.
    const BARE: bool = false;
    /// Whether the flag may be given without a value, which means `true`.
    const SWITCH: bool = false;

    /// Parses the text of a setting.
    ///
    /// # Errors
    ///
    /// Returns a description of the accepted values. It never contains `text`, which may be secret.
    fn read(&self, text: &str) -> Result<Self::Value, String>;

    /// Returns a short description of the accepted values and their range, for the settings reference.
    fn accepts(&self) -> String;
}

/// The part of a setting's value that may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Whole,
    /// A database URL without its password.
    WithoutPassword,
    /// The whole URL, unless it may contain credentials or a query.
    PlainUrl,
    /// The URL of a proxy without its login.
    WithoutLogin,
    Hidden,
}

/// The heading under which a setting appears in `--help`, the example file and the settings reference.
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

/// The value that a setting has if no source sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    Value(&'static str),
    /// No value. The example file shows `example`.
    Unset {
        example: &'static str,
    },
}

/// The part of a [`Setting`] that does not depend on its kind.
#[derive(Debug)]
pub(super) struct About {
    /// The name of the environment variable, which identifies the setting.
    pub(super) env: &'static str,
    pub(super) group: Group,
    pub(super) fallback: Fallback,
    pub(super) shown: Shown,
    pub(super) help: &'static str,
    /// The process roles that use the setting.
    pub(super) roles: &'static [ProcessRole],
}

impl About {
    /// Returns the key in the settings file: the variable name in lower case, without the prefix `posthaste_`.
    pub(super) fn key(&self) -> String {
        bare_name(self.env)
    }

    /// Returns the command-line flag, including the leading dashes.
    pub(super) fn flag(&self) -> String {
        format!("--{}", self.long())
    }

    /// Returns the command-line flag without the leading dashes, as clap expects it.
    pub(super) fn long(&self) -> String {
        self.key().replace('_', "-")
    }

    /// Returns whether the value may contain a secret. Such a setting can also be given as a file: `<NAME>_FILE` is the
    /// path of a file that contains the value.
    pub(super) const fn is_secret(&self) -> bool {
        match self.shown {
            Shown::Whole | Shown::PlainUrl => false,
            Shown::WithoutPassword | Shown::WithoutLogin | Shown::Hidden => true,
        }
    }

    /// Returns the name of the environment variable with the path of a file, or `None` if the setting is not secret.
    pub(super) fn file_env(&self) -> Option<String> {
        self.is_secret().then(|| format!("{}_FILE", self.env))
    }

    /// Returns the key in the settings file for the path of a file, or `None` if the setting is not secret.
    pub(super) fn file_key(&self) -> Option<String> {
        self.is_secret().then(|| format!("{}_file", self.key()))
    }

    pub(super) const fn default(&self) -> Option<&'static str> {
        match self.fallback {
            Fallback::Value(text) => Some(text),
            Fallback::Unset { .. } => None,
        }
    }
}

/// Converts a name to lower case and removes the prefix `posthaste_`.
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
    /// Creates a setting with a default value.
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

    /// Creates a setting without a default value. The example file shows `example`.
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

    /// Sets the process roles that use the setting. By default, all roles use it.
    pub(super) const fn used_by(mut self, roles: &'static [ProcessRole]) -> Self {
        self.about.roles = roles;
        self
    }
}

/// A [`Setting`] of any kind, for use as a trait object.
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
