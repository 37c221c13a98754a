//! The filter of a subscription, in the dialects `exact`, `prefix`, `suffix`, `all`, `any` and `not` of CloudEvents
//! Subscriptions. Callers send it as JSON, the stores keep its text, and [`route`](crate::route) evaluates it.
//!
//! A filter reads the type and the attributes of an event, never its payload. Evaluation cannot fail, and its cost is
//! bounded by the limits on the length, the depth and the number of comparisons.

use crate::attributes::{ATTRIBUTE_NAME_CHARS_MAX, Attributes, is_attribute_name};
use crate::event::EventType;
use crate::json::{self, JsonError, Members, is_nested_deeper, shortened};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The maximum size of a filter, in bytes.
pub const FILTER_BYTES_MAX: usize = 4_096;
/// The maximum number of nested clauses. A filter that is an array counts as a clause.
pub const FILTER_DEPTH_MAX: usize = 8;
/// The maximum number of leaves: comparisons of one attribute with one value.
pub const FILTER_LEAVES_MAX: usize = 100;

/// The maximum nesting of arrays and objects in the JSON text of a filter: two levels per clause.
const JSON_LEVELS_MAX: usize = 2 * FILTER_DEPTH_MAX;
/// The attribute name that refers to the event type.
const TYPE: &str = "type";

/// An error from parsing a filter. `at` is the JSON pointer of the faulty part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("filter must have at most {FILTER_BYTES_MAX} bytes, got {0}")]
    TooLong(usize),
    #[error("filter must not be nested deeper than {FILTER_DEPTH_MAX} clauses")]
    TooDeep,
    #[error("filter must have at most {FILTER_LEAVES_MAX} comparisons")]
    TooManyLeaves,
    #[error("filter at {at}: {error}")]
    Json { at: String, error: JsonError },
    #[error("filter at {at} must be an object with one of exact, prefix, suffix, all, any, not")]
    NotAClause { at: String },
    #[error("filter at {at} must have exactly one of exact, prefix, suffix, all, any, not, got {count}")]
    DialectCount { at: String, count: usize },
    #[error("filter at {at} must have one of exact, prefix, suffix, all, any, not, got {name:?}")]
    UnknownDialect { at: String, name: String },
    #[error("filter at {at} must not have the member {name:?} twice")]
    Duplicate { at: String, name: String },
    #[error("filter at {at} must be an array of clauses")]
    NotAList { at: String },
    #[error("filter at {at} must have at least one clause")]
    EmptyList { at: String },
    #[error("filter at {at} must be an object of attribute names and texts")]
    NotComparisons { at: String },
    #[error("filter at {at} must have at least one attribute name and text")]
    NoComparison { at: String },
    #[error(
        "filter at {at}: the name of an attribute must be 1 to {ATTRIBUTE_NAME_CHARS_MAX} characters of a-z 0-9, \
         got {name:?}"
    )]
    AttributeName { at: String, name: String },
    #[error("filter at {at} must be text (write numbers and booleans in quotation marks), got {value}")]
    NotText { at: String, value: String },
    #[error("filter at {at} must not be empty text")]
    EmptyValue { at: String },
}

/// How a leaf compares the text of an attribute with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Exact,
    Prefix,
    Suffix,
}

impl Comparison {
    const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Prefix => "prefix",
            Self::Suffix => "suffix",
        }
    }

    fn holds(self, text: &str, value: &str) -> bool {
        match self {
            Self::Exact => text == value,
            Self::Prefix => text.starts_with(value),
            Self::Suffix => text.ends_with(value),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Clause {
    /// All pairs of attribute name and value must hold.
    Compare(Comparison, Vec<(String, String)>),
    All(Vec<Clause>),
    Any(Vec<Clause>),
    Not(Box<Clause>),
    /// An array as the whole filter, which means `all`.
    List(Vec<Clause>),
}

/// A valid filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    root: Clause,
    text: String,
}

/// The result of a filter for one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterDecision {
    pub matched: bool,
    /// The JSON pointer and the text of the clause that decided, such as `#/all/1 {"exact":{"region":"eu"}}`.
    pub clause: String,
}

impl Filter {
    /// Parses a clause or an array of clauses.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(FilterError::TooLong(text.len()));
        }
        if is_nested_deeper(text, JSON_LEVELS_MAX) {
            return Err(FilterError::TooDeep);
        }
        let mut reader = Reader { path: "#".to_owned(), leaves: 0 };
        let value: &RawValue = reader.json(text)?;
        let root = if value.get().starts_with('[') {
            Clause::List(reader.list(value, 1)?)
        } else {
            reader.clause(value, 1)?
        };
        let text = root.to_string();
        Ok(Self { root, text })
    }

    /// Reads stored text. The limits are checked, because they bound the cost of evaluation.
    pub fn from_store(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }

    /// Returns a filter that accepts no event, in place of a stored one that cannot be read.
    pub fn accepting_none() -> Self {
        let root = Clause::Any(Vec::new());
        let text = root.to_string();
        Self { root, text }
    }

    /// Returns the JSON text of the filter as it was sent, without white space and unnecessary escapes.
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// Returns whether the filter accepts an event with this type and these attributes.
    pub fn matches(&self, event_type: &EventType, attributes: &Attributes) -> bool {
        self.root.holds(&Subject { event_type, attributes })
    }

    /// Returns whether the filter accepts an event, and the clause that decided: the first clause of `all` that does
    /// not hold, the first clause of `any` that holds, and otherwise the clause itself.
    pub fn decide(&self, event_type: &EventType, attributes: &Attributes) -> FilterDecision {
        let subject = Subject { event_type, attributes };
        let mut pointer = "#".to_owned();
        let mut clause = &self.root;
        while let Some((step, next)) = clause.deciding(&subject) {
            pointer += &step;
            clause = next;
        }
        FilterDecision { matched: self.root.holds(&subject), clause: format!("{pointer} {clause}") }
    }
}

/// The part of an event that filters read.
struct Subject<'a> {
    event_type: &'a EventType,
    attributes: &'a Attributes,
}

impl Subject<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        if name == TYPE {
            Some(Cow::Borrowed(self.event_type.as_str()))
        } else {
            self.attributes.get(name).map(|value| value.as_text())
        }
    }
}

impl Clause {
    fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Compare(comparison, pairs) => pairs
                .iter()
                .all(|(name, value)| subject.get(name).is_some_and(|text| comparison.holds(&text, value))),
            Self::All(clauses) | Self::List(clauses) => clauses.iter().all(|clause| clause.holds(subject)),
            Self::Any(clauses) => clauses.iter().any(|clause| clause.holds(subject)),
            Self::Not(clause) => !clause.holds(subject),
        }
    }

    /// Returns the clause within this one that alone determines the same result, with the step to it.
    fn deciding(&self, subject: &Subject<'_>) -> Option<(String, &Self)> {
        let (dialect, clauses, decisive) = match self {
            Self::Compare(..) | Self::Not(_) => return None,
            Self::All(clauses) => ("/all", clauses, false),
            Self::List(clauses) => ("", clauses, false),
            Self::Any(clauses) => ("/any", clauses, true),
        };
        let mut numbered = clauses.iter().enumerate();
        let (index, clause) = numbered.find(|(_, clause)| clause.holds(subject) == decisive)?;
        Some((format!("{dialect}/{index}"), clause))
    }
}

/// Formats as JSON without white space.
impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(comparison, pairs) => {
                write!(f, "{{\"{}\":{{", comparison.name())?;
                for (index, (name, value)) in pairs.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}\"{name}\":{}", Value::from(value.as_str()))?;
                }
                f.write_str("}}")
            }
            Self::All(clauses) => write_list(f, "{\"all\":[", clauses, "]}"),
            Self::Any(clauses) => write_list(f, "{\"any\":[", clauses, "]}"),
            Self::List(clauses) => write_list(f, "[", clauses, "]"),
            Self::Not(clause) => write!(f, "{{\"not\":{clause}}}"),
        }
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, before: &str, clauses: &[Clause], after: &str) -> fmt::Result {
    f.write_str(before)?;
    for (index, clause) in clauses.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        write!(f, "{clause}")?;
    }
    f.write_str(after)
}

/// Parses a filter.
struct Reader {
    /// The JSON pointer of the part that is being parsed.
    path: String,
    /// The number of leaves so far.
    leaves: usize,
}

impl Reader {
    /// Calls `read` for the part with this name or index.
    fn below<T>(
        &mut self,
        step: impl fmt::Display,
        read: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        let length = self.path.len();
        self.path += &format!("/{step}");
        let result = read(self);
        self.path.truncate(length);
        result
    }

    fn at(&self) -> String {
        self.path.clone()
    }

    fn json<'a, T: serde::Deserialize<'a>>(&self, text: &'a str) -> Result<T, FilterError> {
        json::read(text).map_err(|error| FilterError::Json { at: self.at(), error })
    }

    /// Parses a clause. `depth` is the number of clauses from the root to this one.
    fn clause(&mut self, value: &RawValue, depth: usize) -> Result<Clause, FilterError> {
        if depth > FILTER_DEPTH_MAX {
            return Err(FilterError::TooDeep);
        }
        if !value.get().starts_with('{') {
            return Err(FilterError::NotAClause { at: self.at() });
        }
        let (name, value) = match self.members(value)?.0.as_slice() {
            [(name, value)] => (name.clone(), *value),
            members => return Err(FilterError::DialectCount { at: self.at(), count: members.len() }),
        };
        match name.as_str() {
            "exact" => self.below(name, |reader| reader.comparisons(Comparison::Exact, value)),
            "prefix" => self.below(name, |reader| reader.comparisons(Comparison::Prefix, value)),
            "suffix" => self.below(name, |reader| reader.comparisons(Comparison::Suffix, value)),
            "all" => self.below(name, |reader| reader.list(value, depth)).map(Clause::All),
            "any" => self.below(name, |reader| reader.list(value, depth)).map(Clause::Any),
            "not" => {
                let clause = self.below(name, |reader| reader.clause(value, depth + 1))?;
                Ok(Clause::Not(Box::new(clause)))
            }
            other => Err(FilterError::UnknownDialect { at: self.at(), name: shortened(other) }),
        }
    }

    /// Parses the array of a clause at `depth`.
    fn list(&mut self, value: &RawValue, depth: usize) -> Result<Vec<Clause>, FilterError> {
        if !value.get().starts_with('[') {
            return Err(FilterError::NotAList { at: self.at() });
        }
        let values: Vec<&RawValue> = self.json(value.get())?;
        if values.is_empty() {
            return Err(FilterError::EmptyList { at: self.at() });
        }
        let numbered = values.into_iter().enumerate();
        numbered.map(|(index, value)| self.below(index, |reader| reader.clause(value, depth + 1))).collect()
    }

    fn comparisons(&mut self, comparison: Comparison, value: &RawValue) -> Result<Clause, FilterError> {
        if !value.get().starts_with('{') {
            return Err(FilterError::NotComparisons { at: self.at() });
        }
        let members = self.members(value)?.0;
        if members.is_empty() {
            return Err(FilterError::NoComparison { at: self.at() });
        }
        let mut pairs = Vec::with_capacity(members.len());
        for (name, value) in members {
            self.leaves += 1;
            if self.leaves > FILTER_LEAVES_MAX {
                return Err(FilterError::TooManyLeaves);
            }
            if !is_attribute_name(&name) {
                return Err(FilterError::AttributeName { at: self.at(), name: shortened(&name) });
            }
            let text = self.below(&name, |reader| reader.text(value))?;
            pairs.push((name, text));
        }
        Ok(Clause::Compare(comparison, pairs))
    }

    fn text(&self, value: &RawValue) -> Result<String, FilterError> {
        if !value.get().starts_with('"') {
            return Err(FilterError::NotText { at: self.at(), value: shortened(value.get()) });
        }
        let text: String = self.json(value.get())?;
        if text.is_empty() { Err(FilterError::EmptyValue { at: self.at() }) } else { Ok(text) }
    }

    fn members<'a>(&self, value: &'a RawValue) -> Result<Members<'a>, FilterError> {
        let members: Members<'a> = self.json(value.get())?;
        match members.duplicate() {
            Some(name) => Err(FilterError::Duplicate { at: self.at(), name: shortened(name) }),
            None => Ok(members),
        }
    }
}

#[cfg(test)]
mod tests;
