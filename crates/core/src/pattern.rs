//! The patterns by which a subscription selects event types. Callers send them, the stores keep each one as a row
//! of an index, and the router looks up the [`probes`] of an event type in this index.
//!
//! A pattern is an event type (`invoice.paid`), a prefix (`invoice.*`: all types that start with `invoice.`, at any
//! depth, but not `invoice`) or `*` (all types except those that start with `posthaste.`). Only `.` separates
//! segments.

use crate::event::{EVENT_TYPE_CHARS_MAX, EventType, OPERATIONAL_PREFIX};
use crate::json::shortened;
use std::collections::BTreeSet;
use std::fmt;

/// The maximum number of patterns of a subscription.
pub const PATTERNS_MAX: usize = 100;
/// The maximum number of segments before `.*`. It bounds the number of index lookups per event.
pub const PREFIX_SEGMENTS_MAX: usize = 15;

const ANY: &str = "*";
const BELOW: &str = ".*";

/// An error from validating a pattern. Contains the pattern, truncated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a pattern must not be empty: it is an event type, a prefix such as invoice.*, or *")]
    Empty,
    #[error("a pattern must have at most {EVENT_TYPE_CHARS_MAX} characters, got {chars}")]
    TooLong { chars: usize },
    #[error(
        "a pattern must contain only A-Z a-z 0-9 _ . : / - and start with a letter or digit (a * may be its last \
         segment), got {0}"
    )]
    Characters(String),
    #[error(
        "a pattern must not have an empty segment (a dot at the start or the end, or two in a row), got {0}"
    )]
    EmptySegment(String),
    #[error("a pattern must not contain **: a single * at the end matches any number of segments, got {0}")]
    DoubleStar(String),
    #[error("a * must be the last segment of a pattern, as in invoice.*, got {0}")]
    StarInTheMiddle(String),
    #[error("a * must be a whole segment of a pattern, as in invoice.*, got {0}")]
    PartialStar(String),
    #[error("a pattern must have at most {PREFIX_SEGMENTS_MAX} segments before .*, got {segments}")]
    TooManySegments { segments: usize },
}

/// A pattern of event types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTypePattern(String);

impl EventTypePattern {
    pub fn parse(text: impl Into<String>) -> Result<Self, PatternError> {
        let text = text.into();
        match flaw(&text) {
            Some(error) => Err(error),
            None => Ok(Self(text)),
        }
    }

    /// Creates a pattern from stored text, without validation.
    pub const fn from_store(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern matches an event type. The result is the same as
    /// `probes(event_type).contains(pattern)`, for any stored text.
    pub fn matches(&self, event_type: &EventType) -> bool {
        if self.0 == event_type.as_str() {
            return true;
        }
        match self.prefix() {
            Some(prefix) => {
                event_type.as_str().starts_with(prefix)
                    && prefix.bytes().filter(|byte| *byte == b'.').count() <= PREFIX_SEGMENTS_MAX
            }
            None => self.0 == ANY && !event_type.is_operational(),
        }
    }

    /// Returns whether the pattern selects operational events only: types that start with `posthaste.`.
    pub fn is_operational(&self) -> bool {
        self.0.starts_with(OPERATIONAL_PREFIX)
    }

    /// Returns the text that matching types start with, including its final dot, if the pattern is a prefix.
    fn prefix(&self) -> Option<&str> {
        self.0.strip_suffix(ANY).filter(|prefix| prefix.ends_with('.'))
    }

    /// Returns the rank of the pattern among patterns that match the same type: exact, longest prefix, `*`.
    fn specificity(&self) -> (u8, usize) {
        match self.prefix() {
            Some(prefix) => (1, prefix.len()),
            None if self.0 == ANY => (0, 0),
            None => (2, 0),
        }
    }
}

impl fmt::Display for EventTypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<EventType> for EventTypePattern {
    fn from(event_type: EventType) -> Self {
        Self(event_type.into_string())
    }
}

/// Returns the first reason why a text is not a pattern, or `None` if it is one.
fn flaw(text: &str) -> Option<PatternError> {
    if text.is_empty() {
        return Some(PatternError::Empty);
    }
    if text.len() > EVENT_TYPE_CHARS_MAX {
        return Some(PatternError::TooLong { chars: text.chars().count() });
    }
    let quoted = || shortened(text);
    if text.contains("**") {
        return Some(PatternError::DoubleStar(quoted()));
    }
    if text.split('.').any(str::is_empty) {
        return Some(PatternError::EmptySegment(quoted()));
    }
    if text == ANY {
        return None;
    }
    let stem = text.strip_suffix(BELOW);
    let exact = stem.unwrap_or(text);
    if exact.split('.').any(|segment| segment == ANY) {
        return Some(PatternError::StarInTheMiddle(quoted()));
    }
    if exact.contains('*') {
        return Some(PatternError::PartialStar(quoted()));
    }
    if EventType::parse(exact).is_err() {
        return Some(PatternError::Characters(quoted()));
    }
    let segments = stem.map_or(0, |stem| stem.split('.').count());
    (segments > PREFIX_SEGMENTS_MAX).then_some(PatternError::TooManySegments { segments })
}

/// Returns the patterns that match an event type: the type, its first [`PREFIX_SEGMENTS_MAX`] ancestors with `.*`,
/// and `*` unless the type is operational. The router looks up each of them.
pub fn probes(event_type: &EventType) -> Vec<String> {
    let text = event_type.as_str();
    let ancestors = text.match_indices('.').take(PREFIX_SEGMENTS_MAX).filter_map(|(dot, _)| text.get(..=dot));
    let mut probes = vec![text.to_owned()];
    probes.extend(ancestors.map(|prefix| format!("{prefix}{ANY}")));
    if !event_type.is_operational() {
        probes.push(ANY.to_owned());
    }
    probes
}

/// An error from validating the patterns of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternsError {
    #[error("event_types must have 1 to {PATTERNS_MAX} entries, got {0}")]
    Count(usize),
    #[error("event_types[{index}] must not repeat an earlier entry, got {pattern}")]
    Duplicate { index: usize, pattern: String },
    #[error("event_types[{index}]: {error}")]
    Entry { index: usize, error: PatternError },
}

/// The patterns of a subscription, in the order in which they were sent and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventTypePatterns(Vec<EventTypePattern>);

impl EventTypePatterns {
    pub fn parse(texts: Vec<String>) -> Result<Self, PatternsError> {
        if !(1..=PATTERNS_MAX).contains(&texts.len()) {
            return Err(PatternsError::Count(texts.len()));
        }
        let mut seen = BTreeSet::new();
        for (index, text) in texts.iter().enumerate() {
            if let Some(error) = flaw(text) {
                return Err(PatternsError::Entry { index, error });
            }
            if !seen.insert(text) {
                return Err(PatternsError::Duplicate { index, pattern: shortened(text) });
            }
        }
        Ok(Self::from_store(texts))
    }

    /// Creates patterns from stored texts, without validation.
    pub fn from_store(texts: Vec<String>) -> Self {
        Self(texts.into_iter().map(EventTypePattern).collect())
    }

    /// Creates the patterns of a subscription to one event type.
    pub fn of(event_type: EventType) -> Self {
        Self(vec![event_type.into()])
    }

    pub fn as_slice(&self) -> &[EventTypePattern] {
        &self.0
    }

    /// Returns the text of the only entry, or `None` if there are several.
    pub fn single(&self) -> Option<&str> {
        match self.as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        }
    }

    /// Returns whether one of the patterns matches an event type.
    pub fn matches(&self, event_type: &EventType) -> bool {
        self.0.iter().any(|pattern| pattern.matches(event_type))
    }

    /// Returns the most specific pattern that matches an event type: the type itself, otherwise the longest prefix,
    /// otherwise `*`.
    pub fn find(&self, event_type: &EventType) -> Option<&EventTypePattern> {
        let matching = self.0.iter().filter(|pattern| pattern.matches(event_type));
        matching.max_by_key(|pattern| pattern.specificity())
    }

    /// Returns whether one of the patterns selects operational events, which only some callers may read.
    pub fn are_operational(&self) -> bool {
        self.0.iter().any(EventTypePattern::is_operational)
    }
}

impl From<EventTypePattern> for EventTypePatterns {
    fn from(pattern: EventTypePattern) -> Self {
        Self(vec![pattern])
    }
}

#[cfg(test)]
mod tests;
