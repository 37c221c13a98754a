//! Rules that fill the attributes of an event from its payload. The operator sets them with
//! `POSTHASTE_ATTRIBUTE_RULES`, and the API applies them to new events, so that filters can compare values that callers
//! send only in the payload.

use crate::attributes::{ATTRIBUTES_MAX, AttributeError, Attributes};
use crate::json::{JsonText, shortened};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The maximum number of tokens of a pointer. A payload is not nested deeper.
const TOKENS_MAX: usize = crate::json::NESTING_MAX;

/// An error from validating rules. Texts are truncated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeRuleError {
    #[error("a rule must have the form name=/json/pointer, got {0:?}")]
    Form(String),
    #[error("there must be at most {ATTRIBUTES_MAX} rules, got {0}")]
    TooMany(usize),
    #[error("there must be one rule for an attribute, got two for {0}")]
    Duplicate(String),
    #[error(transparent)]
    Name(AttributeError),
    #[error("a JSON Pointer must begin with / and use ~ only in ~0 and ~1, got {0:?}")]
    Pointer(String),
    #[error("a JSON Pointer must have at most {TOKENS_MAX} parts, got {0}")]
    TooDeep(usize),
}

/// Fills one attribute from the value at a JSON Pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    name: String,
    /// The unescaped reference tokens of the pointer.
    tokens: Vec<String>,
}

/// Rules for the attributes of new events. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeRules(Vec<Rule>);

impl AttributeRules {
    /// Parses rules of the form `name=/json/pointer`, separated by commas.
    pub fn parse(text: &str) -> Result<Self, AttributeRuleError> {
        let mut rules: Vec<Rule> = Vec::new();
        for part in text.split(',') {
            let rule = Rule::parse(part.trim())?;
            if rules.iter().any(|known| known.name == rule.name) {
                return Err(AttributeRuleError::Duplicate(rule.name));
            }
            rules.push(rule);
        }
        if rules.len() > ATTRIBUTES_MAX {
            return Err(AttributeRuleError::TooMany(rules.len()));
        }
        Ok(Self(rules))
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the attributes that the rules find in a payload. Skips an attribute that exists, a value that is missing or
    /// is not a valid attribute, and every rule after the maximum number of attributes is reached.
    pub fn fill(&self, payload: &JsonText, attributes: &mut Attributes) {
        for Rule { name, tokens } in &self.0 {
            if attributes.get(name).is_none()
                && let Some(value) = find(payload.as_str(), tokens)
            {
                // An error means that the value does not fit into an attribute.
                let _ = attributes.insert_json(name, value);
            }
        }
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, AttributeRuleError> {
        let (name, pointer) =
            text.split_once('=').ok_or_else(|| AttributeRuleError::Form(shortened(text)))?;
        crate::attributes::check_name(name).map_err(AttributeRuleError::Name)?;
        let wrong = || AttributeRuleError::Pointer(shortened(pointer));
        let tokens = pointer.strip_prefix('/').ok_or_else(wrong)?.split('/');
        let tokens: Option<Vec<String>> = tokens.map(unescape).collect();
        let tokens = tokens.ok_or_else(wrong)?;
        if tokens.len() > TOKENS_MAX {
            return Err(AttributeRuleError::TooDeep(tokens.len()));
        }
        Ok(Self { name: name.to_owned(), tokens })
    }
}

/// Replaces `~1` with `/` and `~0` with `~`. Returns `None` if another character follows a `~`.
fn unescape(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (escaped, rest) = part.split_at_checked(1)?;
        text.push(match escaped {
            "0" => '~',
            "1" => '/',
            _ => return None,
        });
        text.push_str(rest);
    }
    Some(text)
}

/// Returns the value at a pointer, or `None` if there is none. Of members with the same name, the last one counts.
fn find<'a>(json: &'a str, tokens: &[String]) -> Option<&'a RawValue> {
    let mut found: &RawValue = serde_json::from_str(json).ok()?;
    for token in tokens {
        let mut value = serde_json::Deserializer::from_str(found.get());
        found = Child(token).deserialize(&mut value).ok().flatten()?;
    }
    Some(found)
}

/// Reads the child of an object or an array with this token, without parsing its siblings. Scalars have no child.
struct Child<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Child<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Child<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            if name == self.0 {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        // RFC 6901 allows neither leading zeros nor a sign.
        let is_index = self.0 == "0" || !self.0.starts_with(['0', '+']);
        let index = self.0.parse::<usize>().ok().filter(|_| is_index);
        let mut found = None;
        let mut place = 0;
        while let Some(value) = sequence.next_element::<&RawValue>()? {
            if Some(place) == index {
                found = Some(value);
            }
            place += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
