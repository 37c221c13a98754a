//! Problems with the settings. Each message contains the setting in the notation of its source, its value, and a
//! description of the accepted values.

use super::nearest::nearest;
use super::setting::{About, Shown};
use super::source::{Given, Source};
use crate::database::without_password;
use posthaste_services::sender::EgressProxy;
use std::fmt;

/// The maximum length of a value in a message, in characters.
const SHOWN_CHARS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A value that cannot be parsed.
    Invalid { spelled: String, expected: String },
    /// Two values that conflict with each other.
    Conflict { one: String, other: String, why: String },
    /// A name that does not belong to any setting.
    Unknown { spelled: String, nearest: Option<String> },
    /// A settings file that cannot be read or parsed.
    File { file: String, why: String },
}

impl Problem {
    pub(super) fn invalid(about: &About, given: &Given, expected: String) -> Self {
        Self::Invalid { spelled: spelled(about, given), expected }
    }

    pub(super) fn unknown_variable(name: &str) -> Self {
        Self::Unknown { spelled: name.to_owned(), nearest: nearest(name).map(|about| about.env.to_owned()) }
    }

    pub(super) fn unknown_key(place: &str, key: &str) -> Self {
        let spelled = format!("{place}: {}", escaped(key));
        Self::Unknown { spelled, nearest: nearest(key).map(About::key) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { spelled, expected } => write!(f, "{spelled}: expected {expected}"),
            Self::Conflict { one, other, why } => write!(f, "{one} and {other}: {why}"),
            Self::Unknown { spelled, nearest: None } => write!(f, "{spelled}: unknown setting"),
            Self::Unknown { spelled, nearest: Some(name) } => {
                write!(f, "{spelled}: unknown setting; did you mean {name}?")
            }
            Self::File { file, why } => write!(f, "{file}: {why}"),
        }
    }
}

/// All problems with the settings. Never empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(super) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "1 setting is invalid:")?,
            count => write!(f, "{count} settings are invalid:")?,
        }
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}

/// Formats a setting and its value in the notation of its source, for messages.
pub(super) fn spelled(about: &About, given: &Given) -> String {
    let value = shown(about, &given.text);
    match &given.source {
        Source::Default => format!("{}={value} (the default)", about.env),
        Source::File { .. } => format!("{}: {} = {value}", given.source, about.key()),
        Source::SecretFile { spelled, .. } => spelled.clone(),
        Source::Environment => format!("{}={value}", about.env),
        Source::Flag => format!("{} {value}", about.flag()),
    }
}

/// Formats the path of a file with a secret in the notation of its source.
pub(super) fn spelled_file(about: &About, given: &Given) -> String {
    let path = escaped(&given.text);
    match &given.source {
        Source::File { .. } => format!("{}: {} = {path}", given.source, about.file_key().unwrap_or_default()),
        Source::Default | Source::Environment | Source::SecretFile { .. } | Source::Flag => {
            format!("{}={path}", about.file_env().unwrap_or_default())
        }
    }
}

/// Returns the part of a value that may be shown.
pub(super) fn shown(about: &About, text: &str) -> String {
    match about.shown {
        Shown::Whole => escaped(text),
        Shown::WithoutPassword => {
            without_password(text).map_or_else(|| "(not shown)".to_owned(), |url| escaped(&url))
        }
        Shown::PlainUrl if text.contains(['@', '?']) => "(not shown)".to_owned(),
        Shown::PlainUrl => escaped(text),
        Shown::WithoutLogin if text.contains(['@', '?']) => EgressProxy::parse(text)
            .map_or_else(|_| "(not shown)".to_owned(), |proxy| format!("http://***@{proxy}")),
        Shown::WithoutLogin => escaped(text),
        Shown::Hidden => "(set, not shown)".to_owned(),
    }
}

fn escaped(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
