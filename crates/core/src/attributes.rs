//! The attributes of an event: named values that filters compare without reading the payload. Callers send them with
//! the event, the stores keep their canonical text, [`filter`](crate::filter) reads them, and deliveries may send
//! them on as CloudEvents attributes.

use crate::digest::canonical;
use crate::json::{self, JsonError, Members, shortened};
use crate::time::is_rfc3339;
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of attributes of an event.
pub const ATTRIBUTES_MAX: usize = 20;
/// The maximum length of the name of an attribute, in ASCII characters.
pub const ATTRIBUTE_NAME_CHARS_MAX: usize = 64;
/// The maximum length of a text value, in characters.
pub const ATTRIBUTE_TEXT_CHARS_MAX: usize = 1_024;

/// The names that CloudEvents uses for other parts of an event.
const RESERVED: [&str; 5] = ["id", "type", "specversion", "data", "datacontenttype"];
/// The attributes that must be text according to CloudEvents.
const TEXT_ONLY: [&str; 4] = ["source", "subject", "dataschema", TIME];
const TIME: &str = "time";

/// An error from validating attributes. Names are truncated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    #[error("attributes: {0}")]
    Json(JsonError),
    #[error("attributes must be a JSON object such as {{\"region\": \"eu\"}}")]
    NotAnObject,
    #[error("attributes must have at most {ATTRIBUTES_MAX} members, got {0}")]
    TooMany(usize),
    #[error("attributes must have names of 1 to {ATTRIBUTE_NAME_CHARS_MAX} characters of a-z 0-9, got {0:?}")]
    Name(String),
    #[error(
        "attributes must not contain {0}: the name is reserved by CloudEvents for another part of the event"
    )]
    Reserved(String),
    #[error("attributes must not contain {0} twice")]
    Duplicate(String),
    #[error("attributes.{0} must be text, a number or a boolean")]
    Type(String),
    #[error("attributes.{0} must be text")]
    NotText(String),
    #[error("attributes.{name} must have 1 to {ATTRIBUTE_TEXT_CHARS_MAX} characters, got {chars}")]
    TextLength { name: String, chars: usize },
    #[error("attributes.{0} must not contain the character U+0000")]
    Nul(String),
    #[error(
        "attributes.{name} must be a number within the range of a 64-bit floating point number, got {number}"
    )]
    Number { name: String, number: String },
    #[error(
        "attributes.{TIME} must be a time in the format of RFC 3339 such as 2026-11-05T17:31:00Z, got {0:?}"
    )]
    Time(String),
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeValue {
    Text(String),
    /// A number in its canonical form (RFC 8785): the shortest text of the nearest 64-bit floating point number.
    Number(String),
    Boolean(bool),
}

impl AttributeValue {
    /// Returns the text that filters compare: the text itself, the canonical form of a number, `true` or `false`.
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::Number(text) => Cow::Borrowed(text),
            Self::Boolean(true) => Cow::Borrowed("true"),
            Self::Boolean(false) => Cow::Borrowed("false"),
        }
    }

    /// Returns the canonical JSON text of the value.
    fn to_json(&self) -> String {
        match self {
            Self::Text(text) => Value::from(text.as_str()).to_string(),
            Self::Number(_) | Self::Boolean(_) => self.as_text().into_owned(),
        }
    }

    /// Reads a value of the attribute `name`. Only the type of the value is checked.
    fn read(name: &str, value: &RawValue) -> Result<Self, AttributeError> {
        let text = value.get();
        match text.bytes().next() {
            Some(b'"') => json::read(text).map(Self::Text).map_err(AttributeError::Json),
            Some(b't') => Ok(Self::Boolean(true)),
            Some(b'f') => Ok(Self::Boolean(false)),
            Some(b'-' | b'0'..=b'9') => canonical_number(name, text).map(Self::Number),
            Some(_) | None => Err(AttributeError::Type(shortened(name))),
        }
    }
}

/// Returns the canonical form of a number. A number that is not representable is rounded to the nearest one.
fn canonical_number(name: &str, text: &str) -> Result<String, AttributeError> {
    let double = json::read::<f64>(text).ok().and_then(Number::from_f64);
    double
        .and_then(|number| canonical(&Value::Number(number)).ok())
        .ok_or_else(|| AttributeError::Number { name: shortened(name), number: shortened(text) })
}

/// Returns whether a text is the name of an attribute in its syntax. The name may be reserved.
pub(crate) fn is_attribute_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=ATTRIBUTE_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The attributes of an event, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Attributes(BTreeMap<String, AttributeValue>);

impl Attributes {
    /// Parses a JSON object.
    pub fn parse(text: &str) -> Result<Self, AttributeError> {
        let members = members(text)?;
        if members.0.len() > ATTRIBUTES_MAX {
            return Err(AttributeError::TooMany(members.0.len()));
        }
        let mut attributes = Self::default();
        for (name, value) in members.0 {
            check_name(&name)?;
            let value = AttributeValue::read(&name, value)?;
            attributes.insert(name, value)?;
        }
        Ok(attributes)
    }

    /// Reads stored JSON text. Limits are not checked, so that events remain readable if the limits change. Error if
    /// the text is not an object of texts, numbers and booleans.
    pub fn from_store(text: &str) -> Result<Self, AttributeError> {
        let of = |(name, value): (String, &RawValue)| {
            let value = AttributeValue::read(&name, value)?;
            Ok((name, value))
        };
        members(text)?.0.into_iter().map(of).collect::<Result<_, _>>().map(Self)
    }

    /// Adds an attribute. A number is converted to its canonical form. Error if the attribute exists.
    pub fn insert(&mut self, name: impl Into<String>, value: AttributeValue) -> Result<(), AttributeError> {
        let name = name.into();
        check_name(&name)?;
        if self.0.contains_key(&name) {
            return Err(AttributeError::Duplicate(name));
        }
        if self.0.len() >= ATTRIBUTES_MAX {
            return Err(AttributeError::TooMany(self.0.len() + 1));
        }
        let value = match value {
            AttributeValue::Text(text) => {
                check_text(&name, &text)?;
                AttributeValue::Text(text)
            }
            AttributeValue::Number(_) | AttributeValue::Boolean(_) if TEXT_ONLY.contains(&name.as_str()) => {
                return Err(AttributeError::NotText(name));
            }
            AttributeValue::Number(number) => AttributeValue::Number(canonical_number(&name, &number)?),
            AttributeValue::Boolean(value) => AttributeValue::Boolean(value),
        };
        self.0.insert(name, value);
        Ok(())
    }

    /// Adds an attribute with a JSON value. Error if the value is not text, a number or a boolean.
    pub fn insert_json(&mut self, name: &str, value: &RawValue) -> Result<(), AttributeError> {
        check_name(name)?;
        self.insert(name, AttributeValue::read(name, value)?)
    }

    /// Returns the canonical JSON text (RFC 8785), which the stores keep. Two equal sets of attributes have the same
    /// text.
    pub fn canonical(&self) -> String {
        let member = |(name, value): (&String, &AttributeValue)| {
            format!("{}:{}", Value::from(name.as_str()), value.to_json())
        };
        format!("{{{}}}", self.0.iter().map(member).collect::<Vec<_>>().join(","))
    }

    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.0.get(name)
    }

    /// Returns the attributes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn members(text: &str) -> Result<Members<'_>, AttributeError> {
    let value: &RawValue = json::read(text).map_err(AttributeError::Json)?;
    if !value.get().starts_with('{') {
        return Err(AttributeError::NotAnObject);
    }
    json::read(text).map_err(AttributeError::Json)
}

/// Checks that a name is valid and not reserved.
pub(crate) fn check_name(name: &str) -> Result<(), AttributeError> {
    if !is_attribute_name(name) {
        Err(AttributeError::Name(shortened(name)))
    } else if RESERVED.contains(&name) {
        Err(AttributeError::Reserved(name.to_owned()))
    } else {
        Ok(())
    }
}

fn check_text(name: &str, text: &str) -> Result<(), AttributeError> {
    let chars = text.chars().count();
    if !(1..=ATTRIBUTE_TEXT_CHARS_MAX).contains(&chars) {
        Err(AttributeError::TextLength { name: name.to_owned(), chars })
    } else if text.contains('\0') {
        Err(AttributeError::Nul(name.to_owned()))
    } else if name == TIME && !is_rfc3339(text) {
        Err(AttributeError::Time(shortened(text)))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
