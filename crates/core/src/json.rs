//! JSON text that is kept as it came: the payload of an event, from ingest through both stores to
//! the receiver. The text is proven to be RFC 8259 at the wall and never rewritten afterwards, since
//! the signature covers the bytes that are sent.

use std::fmt;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Arrays and objects within each other that are accepted. Readers behind us recurse; many stop here.
pub const NESTING_MAX: usize = 128;

/// The largest payload that a table accepts. Settings may ask for less, not for more.
pub const PAYLOAD_BYTES_MAX: usize = 1_048_576;

/// Valid JSON, byte for byte as submitted: white space, spelling of numbers, escapes and repeated
/// keys included.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(String);

/// Why bytes are not JSON that we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("the text is not UTF-8: the byte at offset {at} does not belong there")]
    NotUtf8 { at: usize },
    #[error("the text is not JSON: {reason} at line {line}, column {column}")]
    Invalid { line: usize, column: usize, reason: String },
    #[error("the JSON is nested deeper than {max} levels")]
    TooDeep { max: usize },
    #[error("the JSON has {bytes} bytes; at most {max} are accepted")]
    TooLong { bytes: usize, max: usize },
}

impl JsonText {
    /// Accepts any RFC 8259 text of at most `bytes_max` bytes and [`NESTING_MAX`] levels.
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

    /// Accepts a part of a larger text that was read as one value, and is therefore JSON: within the same bounds.
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

    /// Takes text that a store kept, and that was therefore checked when it came in.
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

/// Payloads are other people's data and do not belong into logs.
impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

/// Checks grammar and depth without building anything. The parser is asked to ignore what it reads:
/// so it neither evaluates numbers (1e99999 is JSON, though no double) nor decodes escapes (a lone
/// surrogate is JSON, though no text).
fn check(text: &str) -> Result<(), JsonError> {
    if is_too_deep(text) {
        return Err(JsonError::TooDeep { max: NESTING_MAX });
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(IgnoredAny) => Ok(()),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let told = error.to_string();
            let place = format!(" at line {line} column {column}");
            let reason = told.strip_suffix(&place).unwrap_or(&told).to_owned();
            Err(JsonError::Invalid { line, column, reason })
        }
    }
}

/// Returns whether a text is nested deeper than an accepted one may be; also for text that a store kept and that others
/// may have written.
pub fn is_too_deep(text: &str) -> bool {
    is_nested_deeper(text, NESTING_MAX)
}

/// Returns whether a text has more than `levels_max` arrays and objects within each other.
///
/// Counts open brackets outside strings. Runs before the parser, so that no amount of them reaches
/// anything that recurses; text that is not JSON gets some count, and is refused afterwards.
pub fn is_nested_deeper(text: &str, levels_max: usize) -> bool {
    // Nearly all texts have too few brackets for it, and counting them is quick.
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
    fn what_is_not_json_is_refused() {
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
    fn a_refusal_says_where_and_why_once() {
        let refused = JsonText::parse("{\n  \"a\": tru }", 100);
        let expected = JsonError::Invalid { line: 2, column: 11, reason: "expected ident".into() };
        assert_eq!(refused, Err(expected.clone()));
        assert_eq!(expected.to_string(), "the text is not JSON: expected ident at line 2, column 11");
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
    fn bytes_that_are_no_text_are_refused_with_their_place() {
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
    fn a_payload_does_not_print_itself() {
        assert_eq!(format!("{:?}", JsonText::from_store("\"card\"".into())), "JsonText(6 bytes)");
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_accepted_ones_stay(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
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
