//! Inputs with one entry per line: event types, metadata (`key=value`) and headers (`Name: value`). Converts their text
//! to the JSON of the API and back.

use super::object;
use serde_json::{Map, Value, json};

/// The mark behind the name of a secret header.
const SECRET: &str = "(secret)";
/// The text that stands for a stored secret. It is not ASCII, so it cannot be a value.
const KEPT: &str = "••••••";

fn filled(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty())
}

pub(super) fn event_types(text: &str) -> Vec<String> {
    filled(text).map(|(_, line)| line.to_owned()).collect()
}

pub(super) fn event_types_text(types: &Value) -> String {
    let texts = types.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the JSON object of `key=value` lines, or `None` if there are none. A text that begins with `{` is a JSON
/// object already.
pub(super) fn metadata(text: &str) -> Result<Option<String>, String> {
    if text.starts_with('{') {
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("metadata must be a JSON object: {error}"))?;
        return Ok((!object.is_empty()).then(|| Value::Object(object).to_string()));
    }
    let mut members = Vec::new();
    for (number, line) in filled(text) {
        let (key, value) =
            line.split_once('=').ok_or_else(|| format!("metadata: line {number} must be key=value"))?;
        members.push((key.trim_end(), Value::from(value.trim_start()).to_string()));
    }
    Ok((!members.is_empty()).then(|| object(&members)))
}

/// Returns the text of metadata: lines, or JSON if a line cannot represent an entry.
pub(super) fn metadata_text(metadata: &Value) -> String {
    let pairs: Vec<(&str, &str)> = texts(metadata).collect();
    let is_plain = |text: &str| text.trim() == text && !text.contains(['\n', '\r']);
    let is_line = |(key, value): &(&str, &str)| {
        is_plain(key) && is_plain(value) && !key.contains('=') && !key.starts_with('{')
    };
    if pairs.iter().all(is_line) {
        return pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("\n");
    }
    serde_json::to_string_pretty(metadata).unwrap_or_default()
}

fn texts(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let members = object.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

/// Returns the JSON object of `Name: value` and `Name (secret): value` lines, or `None` if there are none. A secret
/// header without a value keeps the stored one.
pub(super) fn headers(text: &str) -> Result<Option<String>, String> {
    let mut members = Vec::new();
    for (number, line) in filled(text) {
        // The error must not repeat the line, which may contain a secret.
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| format!("headers: line {number} must be Name: value or Name {SECRET}: value"))?;
        let (name, value) = (name.trim(), value.trim());
        let value = match name.strip_suffix(SECRET) {
            None => json!(value),
            Some(_) if value.is_empty() || value == KEPT => json!({"secret": true}),
            Some(_) => json!({"value": value, "secret": true}),
        };
        members.push((name.strip_suffix(SECRET).unwrap_or(name).trim(), value.to_string()));
    }
    Ok((!members.is_empty()).then(|| object(&members)))
}

pub(super) fn headers_text(headers: &Value) -> String {
    let line = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{name}: {text}"),
        None => format!("{name} {SECRET}: {KEPT}"),
    };
    headers.as_object().into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}
