//! Parses untrusted JSON: server responses and orders. The nesting depth is checked before parsing, because the
//! parser's own limit of 127 levels is lower than the server's and therefore disabled.

use posthaste_core::json::{NESTING_MAX, is_nested_deeper};
use serde_json::Value;

/// The maximum number of nesting levels that a response adds around a payload. A list has three (an object with an
/// array of objects); the rest is a reserve for newer servers.
const WRAPPER_LEVELS: usize = 8;

/// Parses JSON with up to [`NESTING_MAX`] plus [`WRAPPER_LEVELS`] nesting levels.
///
/// # Errors
///
/// Returns a description of the error.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let levels_max = NESTING_MAX + WRAPPER_LEVELS;
    if is_nested_deeper(text, levels_max) {
        return Err(format!("it is nested deeper than {levels_max} levels"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let mut values = deserializer.into_iter::<Value>();
    match (values.next(), values.next()) {
        (Some(Ok(value)), None) => Ok(value),
        (Some(Err(error)), _) | (Some(Ok(_)), Some(Err(error))) => Err(format!("it is not JSON: {error}")),
        (Some(Ok(_)), Some(Ok(_))) => Err("it is not JSON: a second value follows the first".to_owned()),
        (None, _) => Err("it is not JSON: it is empty".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        "[".repeat(levels) + &"]".repeat(levels)
    }

    #[test]
    fn deepest_payload_is_parsed_and_deeper_nesting_is_refused() {
        let payload = nested(NESTING_MAX);
        let list = format!(r#"{{"items":[{{"id":7,"payload":{payload}}}],"next_cursor":null}}"#);
        let value = parse(&list).expect("a list");
        assert_eq!(value["items"][0]["id"], 7);
        assert_eq!(value["items"][0]["payload"].to_string(), payload);
        for text in [nested(NESTING_MAX + WRAPPER_LEVELS + 1), "[".repeat(10_000_000)] {
            assert_eq!(parse(&text), Err("it is nested deeper than 136 levels".to_owned()));
        }
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in ["", "<html>", "{", "{}x", "{\"items\":[}"] {
            let message = parse(text).expect_err(text);
            assert!(message.starts_with("it is not JSON: "), "{text}: {message}");
        }
    }
}
