//! What a setting is: a row of [`super::table`], and the [`Kind`] that reads its text.

/// Reads the text of a setting. A kind knows nothing of where the text came from.
pub(super) trait Kind: Sync {
    type Value;
    /// What stands for the value in `--help`.
    const METAVAR: &'static str;
    /// What the entries of a list in the file are joined with; `None` where the file may hold no list.
    const JOINT: Option<&'static str> = None;
    /// Whether the file writes the value without quotes.
    const BARE: bool = false;
    /// Whether the flag alone means `true`.
    const SWITCH: bool = false;

    /// The value, or what was expected instead. The answer never repeats the text: it may be a secret.
    fn read(&self, text: &str) -> Result<Self::Value, String>;
}

/// How much of a value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Whole,
    /// A database URL: everything but the password.
    WithoutPassword,
    /// A URL that has no room for a secret; one that carries some all the same is not shown.
    PlainUrl,
    Nothing,
}

/// Under which heading a setting stands, in `--help` and in the example file.
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
            Self::Egress => "Where requests may go",
            Self::Orders => "Orders and the broker",
            Self::Logs => "Logs",
        }
    }
}

/// What holds when nobody says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    Value(&'static str),
    /// Nothing; the example file shows this.
    Nothing {
        example: &'static str,
    },
}

/// All of a row but how its text is read.
#[derive(Debug)]
pub(super) struct About {
    pub(super) env: &'static str,
    pub(super) group: Group,
    pub(super) fallback: Fallback,
    pub(super) shown: Shown,
    pub(super) help: &'static str,
}

impl About {
    /// The name in the file: the environment's in lower case, without our prefix.
    pub(super) fn key(&self) -> String {
        bare_name(self.env)
    }

    pub(super) fn flag(&self) -> String {
        format!("--{}", self.long())
    }

    /// The flag without its dashes, as clap wants it.
    pub(super) fn long(&self) -> String {
        self.key().replace('_', "-")
    }

    pub(super) const fn default(&self) -> Option<&'static str> {
        match self.fallback {
            Fallback::Value(text) => Some(text),
            Fallback::Nothing { .. } => None,
        }
    }
}

/// What all spellings of a setting's name have in common.
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
    /// A setting that always has a value.
    pub(super) const fn new(
        env: &'static str,
        default: &'static str,
        group: Group,
        kind: K,
        help: &'static str,
    ) -> Self {
        let fallback = Fallback::Value(default);
        Self { about: About { env, group, fallback, shown: Shown::Whole, help }, kind }
    }

    /// A setting that may be absent.
    pub(super) const fn absent(
        env: &'static str,
        example: &'static str,
        group: Group,
        kind: K,
        help: &'static str,
    ) -> Self {
        let fallback = Fallback::Nothing { example };
        Self { about: About { env, group, fallback, shown: Shown::Whole, help }, kind }
    }

    pub(super) const fn shown(mut self, shown: Shown) -> Self {
        self.about.shown = shown;
        self
    }
}

/// A row of the table, whatever its kind.
pub(super) trait Row: Sync {
    fn about(&self) -> &About;
    fn metavar(&self) -> &'static str;
    fn joint(&self) -> Option<&'static str>;
    fn is_bare(&self) -> bool;
    fn is_switch(&self) -> bool;
    fn check(&self, text: &str) -> Result<(), String>;
}

impl<K: Kind> Row for Setting<K> {
    fn about(&self) -> &About {
        &self.about
    }

    fn metavar(&self) -> &'static str {
        K::METAVAR
    }

    fn joint(&self) -> Option<&'static str> {
        K::JOINT
    }

    fn is_bare(&self) -> bool {
        K::BARE
    }

    fn is_switch(&self) -> bool {
        K::SWITCH
    }

    fn check(&self, text: &str) -> Result<(), String> {
        self.kind.read(text).map(drop)
    }
}
