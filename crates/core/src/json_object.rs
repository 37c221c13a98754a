//! Parses a JSON object into its members in order, for fields that are read member by member
//! ([`metadata`](crate::metadata), [`request`](crate::request)). Duplicate names are refused, because parsers
//! disagree on which one counts. Errors never contain a value, which may be a secret.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum length of submitted text quoted in an error, in characters.
const QUOTED_CHARS_MAX: usize = 40;

/// The reason why text is not a JSON object with distinct names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("must be valid JSON: the error is at line {line}, column {column}")]
    Syntax { line: usize, column: usize },
    #[error("must be a JSON object")]
    NotAnObject,
    #[error("must not contain {0} twice")]
    Duplicate(String),
}

/// The members of a JSON object, in order. The values are not parsed.
pub(crate) struct JsonObject<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'a> JsonObject<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, ObjectError> {
        let object: Self = serde_json::from_str(text).map_err(|error| match error.is_data() {
            true => ObjectError::NotAnObject,
            false => ObjectError::Syntax { line: error.line(), column: error.column() },
        })?;
        let mut names = BTreeSet::new();
        match object.0.iter().find(|(name, _)| !names.insert(name)) {
            Some((name, _)) => Err(ObjectError::Duplicate(quoted(name))),
            None => Ok(object),
        }
    }
}

impl<'de> Deserialize<'de> for JsonObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = JsonObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(JsonObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Returns the text of a JSON string, or `None` for any other value and for text that is not valid Unicode.
pub(crate) fn text_of(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

pub(crate) fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Returns submitted text for an error: in quotes, escaped and truncated.
pub(crate) fn quoted(text: &str) -> String {
    let head: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let ellipsis = if head.len() < text.len() { "…" } else { "" };
    format!("{head:?}{ellipsis}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_in_order() {
        let parsed = JsonObject::parse(r#" {"b": [1, {"b": 1}], "a": "\u00e4", "c": null} "#).unwrap();
        let members: Vec<_> = parsed.0.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        assert_eq!(members, [("b", r#"[1, {"b": 1}]"#), ("a", r#""\u00e4""#), ("c", "null")]);
        let texts: Vec<_> = parsed.0.iter().map(|(_, value)| (text_of(value), is_null(value))).collect();
        assert_eq!(texts, [(None, false), (Some("ä".to_owned()), false), (None, true)]);
    }

    #[test]
    fn errors_do_not_contain_values() {
        let rows = [
            ("", "must be valid JSON: the error is at line 1, column 0"),
            ("{\"a\": hunter2}", "must be valid JSON: the error is at line 1, column 7"),
            ("\"hunter2\"", "must be a JSON object"),
            ("[\"hunter2\"]", "must be a JSON object"),
            ("7", "must be a JSON object"),
            (r#"{"a\n":"hunter2","b":1,"a\u000a":"x"}"#, r#"must not contain "a\n" twice"#),
        ];
        for (text, expected) in rows {
            let error = JsonObject::parse(text).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
        assert_eq!(quoted(&"ä".repeat(41)), format!("\"{}\"…", "ä".repeat(40)));
    }
}
