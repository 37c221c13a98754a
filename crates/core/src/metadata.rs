//! The metadata of a subscription: pairs of a name and a text that belong to the customer. They come from the API,
//! lists filter by them, and Posthaste does not interpret them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::json_object::{JsonObject, ObjectError, quoted, text_of};

/// The maximum number of pairs.
pub const METADATA_PAIRS_MAX: usize = 20;
/// The maximum length of a name, in ASCII characters.
pub const METADATA_NAME_CHARS_MAX: usize = 64;
/// The maximum length of a value, in characters.
pub const METADATA_VALUE_CHARS_MAX: usize = 500;

/// An error from validating metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error("metadata {0}")]
    Object(#[from] ObjectError),
    #[error("metadata must have at most {METADATA_PAIRS_MAX} pairs, got {0}")]
    TooManyPairs(usize),
    #[error(
        "metadata: a name must be 1 to {METADATA_NAME_CHARS_MAX} characters of A-Z a-z 0-9 _ . -, got {0}"
    )]
    Name(String),
    #[error("metadata.{0} must be a string")]
    NotText(String),
    #[error("metadata.{0} must be at most {METADATA_VALUE_CHARS_MAX} characters, none of them U+0000")]
    Value(String),
}

/// Valid metadata, sorted by name. It may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Parses a JSON object whose members are strings.
    pub fn parse(json: &str) -> Result<Self, MetadataError> {
        let JsonObject(members) = JsonObject::parse(json)?;
        if members.len() > METADATA_PAIRS_MAX {
            return Err(MetadataError::TooManyPairs(members.len()));
        }
        let mut pairs = BTreeMap::new();
        for (name, value) in members {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
            if !((1..=METADATA_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed)) {
                return Err(MetadataError::Name(quoted(&name)));
            }
            let Some(text) = text_of(value) else { return Err(MetadataError::NotText(name)) };
            if text.contains('\0') || text.chars().nth(METADATA_VALUE_CHARS_MAX).is_some() {
                return Err(MetadataError::Value(name));
            }
            pairs.insert(name, text);
        }
        Ok(Self(pairs))
    }

    /// Parses stored text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text was not written by [`to_json`](Self::to_json).
    pub fn from_store(json: &str) -> Result<Self, MetadataError> {
        Self::parse(json)
    }

    /// Returns the JSON object, sorted by name.
    pub fn to_json(&self) -> String {
        let members = self.iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
        Value::Object(members.collect::<Map<_, _>>()).to_string()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pairs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_parsed_and_sorted() {
        let metadata = Metadata::parse(r#"{"team": "billing \u20ac", "A_1.b-c": ""}"#).unwrap();
        assert_eq!(metadata.to_json(), r#"{"A_1.b-c":"","team":"billing €"}"#);
        assert_eq!(metadata.get("team"), Some("billing €"));
        assert_eq!(metadata.get("TEAM"), None);
        assert_eq!(Metadata::from_store(&metadata.to_json()), Ok(metadata));
        assert!(Metadata::parse("{}").unwrap().is_empty());
        assert_eq!(Metadata::default().to_json(), "{}");
    }

    #[test]
    fn limits_are_exact() {
        let pairs = |count: usize| {
            let members: Map<_, _> = (0..count).map(|i| (format!("n{i}"), json!("v"))).collect();
            Value::Object(members).to_string()
        };
        let pair = |name: &str, value: &str| json!({ name: value }).to_string();
        let name = |text: &str| Some(MetadataError::Name(quoted(text)));
        let rows = [
            (pairs(20), None),
            (pairs(21), Some(MetadataError::TooManyPairs(21))),
            (pair(&"n".repeat(64), "v"), None),
            (pair(&"n".repeat(65), "v"), name(&"n".repeat(65))),
            (pair("", "v"), name("")),
            (pair("a b", "v"), name("a b")),
            (pair("ä", "v"), name("ä")),
            (pair("a\n", "v"), name("a\n")),
            (pair("a", &"ä".repeat(500)), None),
            (pair("a", &"ä".repeat(501)), Some(MetadataError::Value("a".to_owned()))),
            (pair("a", "b\0"), Some(MetadataError::Value("a".to_owned()))),
            (r#"{"a":1}"#.to_owned(), Some(MetadataError::NotText("a".to_owned()))),
            (r#"{"a":null}"#.to_owned(), Some(MetadataError::NotText("a".to_owned()))),
            (r#"{"a":"\ud800"}"#.to_owned(), Some(MetadataError::NotText("a".to_owned()))),
            (r#"{"a":"1","a":"2"}"#.to_owned(), Some(ObjectError::Duplicate(quoted("a")).into())),
            ("[]".to_owned(), Some(ObjectError::NotAnObject.into())),
            ("null".to_owned(), Some(ObjectError::NotAnObject.into())),
        ];
        for (text, expected) in rows {
            assert_eq!(Metadata::parse(&text).err(), expected, "{text}");
        }
        let error = Metadata::parse(r#"{"a":1}"#).unwrap_err();
        assert_eq!(error.to_string(), "metadata.a must be a string");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in any::<String>()) {
            let _ = Metadata::parse(&text);
        }

        #[test]
        fn accepted_metadata_is_stored_and_read(
            pairs in proptest::collection::btree_map("[a-zA-Z0-9_.\\-]{0,66}", any::<String>(), 0..23)
        ) {
            let text = json!(pairs).to_string();
            if let Ok(metadata) = Metadata::parse(&text) {
                prop_assert_eq!(metadata.iter().count(), pairs.len());
                prop_assert!(metadata.iter().all(|(name, value)| pairs.get(name).is_some_and(|v| v == value)));
                prop_assert_eq!(Metadata::from_store(&metadata.to_json()), Ok(metadata));
            }
        }
    }
}
