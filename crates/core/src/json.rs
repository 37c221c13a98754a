//! JSON text that is stored and sent unchanged, such as the payload of an event. It is validated according to
//! RFC 8259 when it is accepted and never reformatted, because the signature of a delivery covers the exact
//! bytes.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum nesting depth of arrays and objects. Many receivers use recursive parsers with this limit.
pub const NESTING_MAX: usize = 128;

/// The maximum size of a payload in the database, in bytes. The settings may specify a lower limit.
pub const PAYLOAD_BYTES_MAX: usize = 1_048_576;

/// Valid JSON, byte for byte as submitted, including white space, number notation, escapes and duplicate keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(String);

/// An error from validating JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("the text is not valid UTF-8: invalid byte at offset {at}")]
    NotUtf8 { at: usize },
    #[error("the text is not valid JSON: {reason} at line {line}, column {column}")]
    Invalid { line: usize, column: usize, reason: String },
    #[error("the JSON must not be nested deeper than {max} levels")]
    TooDeep { max: usize },
    #[error("the JSON must have at most {max} bytes, got {bytes}")]
    TooLong { bytes: usize, max: usize },
}

impl JsonText {
    /// Validates JSON text of at most `bytes_max` bytes and [`NESTING_MAX`] nesting levels.
    pub fn parse(bytes: impl Into<Vec<u8>>, bytes_max: usize) -> Result<Self, JsonError> {
        let bytes = bytes.into();
        if bytes.len() > bytes_max {
            return Err(JsonError::TooLong { bytes: bytes.len(), max: bytes_max });
        }
        let text =
            String::from_utf8(bytes).map_err(|e| JsonError::NotUtf8 { at: e.utf8_error().valid_up_to() })?;
        check(&text)?;
        Ok(Self(text))
    }

    /// Creates JSON text from a value that was parsed as part of a larger text, with the same limits as
    /// [`parse`](Self::parse).
    pub fn of_value(value: &RawValue, bytes_max: usize) -> Result<Self, JsonError> {
        let text = value.get();
        if text.len() > bytes_max {
            return Err(JsonError::TooLong { bytes: text.len(), max: bytes_max });
        }
        if is_too_deep(text) {
            return Err(JsonError::TooDeep { max: NESTING_MAX });
        }
        Ok(Self(text.to_owned()))
    }

    /// Creates JSON text from stored text, without validation.
    pub const fn from_store(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// Omits the text, because payloads must not be logged.
impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

/// Checks syntax and nesting depth without building a value. `IgnoredAny` does not convert numbers (1e99999 is
/// valid JSON but not a finite double) and does not decode escapes (a lone surrogate is valid JSON but not
/// valid Unicode text).
fn check(text: &str) -> Result<(), JsonError> {
    if is_too_deep(text) {
        return Err(JsonError::TooDeep { max: NESTING_MAX });
    }
    read(text).map(|IgnoredAny| ())
}

/// Parses JSON text as a type of Rust. The type determines which content is accepted, and must not be recursive.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let place = format!(" at line {line} column {column}");
        let reason = message.strip_suffix(&place).unwrap_or(&message).to_owned();
        JsonError::Invalid { line, column, reason }
    })
}

/// The members of a JSON object in the order of the text, including duplicates. The values are not parsed.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl Members<'_> {
    /// Returns the first name that occurs twice.
    pub(crate) fn duplicate(&self) -> Option<&str> {
        let mut seen = BTreeSet::new();
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !seen.insert(*name))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(InOrder).map(Members)
    }
}

/// The maximum length of submitted text quoted in an error, in characters.
const QUOTED_CHARS_MAX: usize = 40;

/// Returns submitted text as it is quoted in an error: truncated.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

/// Returns whether JSON text is nested deeper than [`NESTING_MAX`]. Stored text is checked as well, because it
/// may have been written by another program.
pub fn is_too_deep(text: &str) -> bool {
    is_nested_deeper(text, NESTING_MAX)
}

/// Returns whether JSON text is nested deeper than `levels_max` arrays and objects.
///
/// Counts open brackets outside strings. It runs before the parser, so that deep nesting never reaches a
/// recursive function. The result for invalid JSON is unspecified.
pub fn is_nested_deeper(text: &str, levels_max: usize) -> bool {
    // Most texts have fewer brackets than the limit, and counting them is fast.
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() <= levels_max {
        return false;
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > levels_max {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nested(levels: usize) -> String {
        "[".repeat(levels) + &"]".repeat(levels)
    }

    #[test]
    fn every_json_text_is_kept_byte_for_byte() {
        let rows: &[&str] = &[
            "null",
            "0",
            "-0",
            "-0.0e-0",
            "\"\"",
            " \t\r\n{ \"b\" : 1 ,\n\"a\":[ ] } \n",
            r#"{"a":1,"a":2}"#,
            r#""\u0000""#,
            r#""\ud800""#,
            r#"{"\udead":"\udc00\ud800"}"#,
            "1e99999",
            "-1E-99999",
            "123456789012345678901234567890.12345678901234567890",
            "\"\u{7f}\u{2028}\u{10ffff}\"",
            r#""\/\b\f\n\r\t\"\\""#,
            r#""[[[[[[[[""#,
        ];
        for text in rows {
            let parsed = JsonText::parse(*text, 100).map(JsonText::into_string);
            assert_eq!(parsed.as_deref(), Ok(*text));
        }
    }

    #[test]
    fn invalid_json_is_refused() {
        let rows: &[&str] = &[
            "",
            "  ",
            "\u{feff}1",
            "NaN",
            "Infinity",
            "-Infinity",
            "nul",
            "True",
            "01",
            "-01",
            "1.",
            ".5",
            "+1",
            "1e",
            "0x10",
            "-",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "{'a':1}",
            "1 2",
            "[] []",
            "[1",
            "]",
            "\"",
            "\"\u{1}\"",
            "\"\n\"",
            "\"\t\"",
            r#""\x41""#,
            r#""\u12""#,
            r#""\u12G4""#,
            "\u{a0}1",
            "/* */1",
            "1//",
        ];
        for text in rows {
            let refused = JsonText::parse(*text, 100);
            assert!(matches!(refused, Err(JsonError::Invalid { .. })), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn error_contains_position_and_reason_once() {
        let refused = JsonText::parse("{\n  \"a\": tru }", 100);
        let expected = JsonError::Invalid { line: 2, column: 11, reason: "expected ident".into() };
        assert_eq!(refused, Err(expected.clone()));
        assert_eq!(expected.to_string(), "the text is not valid JSON: expected ident at line 2, column 11");
    }

    #[test]
    fn limits_are_exact() {
        let rows = [
            (nested(NESTING_MAX), None),
            (nested(NESTING_MAX + 1), Some(JsonError::TooDeep { max: NESTING_MAX })),
            ("[".repeat(1_000_000), Some(JsonError::TooDeep { max: NESTING_MAX })),
            ("{\"a\":".repeat(200_000), Some(JsonError::TooDeep { max: NESTING_MAX })),
            (format!("[{}[]]", "[[]],".repeat(1000)), None),
            (format!("[\"{}\"]", "[".repeat(1000)), None),
            (format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2)), None),
            (
                format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 1)),
                Some(JsonError::TooLong { bytes: PAYLOAD_BYTES_MAX + 1, max: PAYLOAD_BYTES_MAX }),
            ),
        ];
        for (text, expected) in rows {
            let head: String = text.chars().take(20).collect();
            if let Ok(value) = serde_json::from_str(&text) {
                assert_eq!(JsonText::of_value(value, PAYLOAD_BYTES_MAX).err(), expected, "{head}…");
            }
            assert_eq!(JsonText::parse(text, PAYLOAD_BYTES_MAX).err(), expected, "{head}…");
        }
    }

    #[test]
    fn invalid_utf8_is_refused_with_its_offset() {
        let rows: &[(&[u8], usize)] = &[
            (b"\"\xff\"", 1),
            (b"\"ab\xc3\"", 3),
            (b"\xed\xa0\x80", 0), // a surrogate as three bytes
            (b"\"\xc0\x80\"", 1), // an overlong NUL
        ];
        for (bytes, at) in rows {
            assert_eq!(JsonText::parse(*bytes, 100), Err(JsonError::NotUtf8 { at: *at }), "{bytes:?}");
        }
    }

    #[test]
    fn members_keep_their_order_and_duplicates() {
        let members: Members<'_> = read(r#" {"b": [1], "a":"x", "b":null} "#).expect("an object");
        let found: Vec<_> = members.0.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        assert_eq!(found, [("b", "[1]"), ("a", "\"x\""), ("b", "null")]);
        assert_eq!(members.duplicate(), Some("b"));
        for bad in ["[]", "1", r#"{"\ud800":1}"#, "{}1"] {
            assert!(read::<Members<'_>>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_output_does_not_contain_the_payload() {
        assert_eq!(format!("{:?}", JsonText::from_store("\"card\"".into())), "JsonText(6 bytes)");
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_accepted_ones_are_unchanged(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(text) = JsonText::parse(bytes.clone(), 1000) {
                prop_assert_eq!(text.as_str().as_bytes(), &bytes[..]);
            }
        }

        #[test]
        fn near_json_never_panics(text in r#"[\[\]{}",:\\ue0-9.+\-ntrfals ]{0,60}"#) {
            let _ = JsonText::parse(text, 1000);
        }
    }
}
