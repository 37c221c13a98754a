//! Reads values of a sender's JSON and maps what several senders have in common: texts, headers and metadata.

use super::{Desired, Entry, Identity};
use serde_json::{Map, Value, json};

/// The limits of the API for metadata.
const PAIRS_MAX: usize = 20;
const NAME_CHARS_MAX: usize = 64;
const VALUE_CHARS_MAX: usize = 500;

/// Parts of header names whose values are usually secret.
const SENSITIVE: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];

/// Returns a member that is text and not empty.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object[name].as_str().filter(|text| !text.is_empty())
}

/// Returns the items of a member that is a list.
pub(super) fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the texts in a list.
pub(super) fn texts<'a>(object: &'a Value, name: &str) -> Vec<&'a str> {
    items(object, name).iter().filter_map(Value::as_str).collect()
}

/// Returns whether a member has a value that means something.
pub(super) fn is_set(object: &Value, name: &str) -> bool {
    match &object[name] {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

impl Entry {
    /// Creates an entry with the fields that every subscription has.
    pub(super) fn new(identity: Identity, callback_url: &str, event_types: Vec<&str>) -> Self {
        let mut fields = Map::new();
        fields.insert("callback_url".to_owned(), callback_url.into());
        fields.insert("event_types".to_owned(), event_types.into());
        Self { desired: Desired { identity, fields }, notes: Vec::new(), gaps: Vec::new() }
    }

    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.desired.fields.insert(field.to_owned(), value.into());
    }

    /// Sets a field to a text, if there is one.
    pub(super) fn set_text(&mut self, field: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.set(field, value);
        }
    }

    /// Records a value that is not imported and does not change what the receiver gets.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Records a value that is not imported although the receiver depends on it.
    pub(super) fn gap(&mut self, what: impl Into<String>) {
        self.gaps.push(what.into());
    }

    /// Sets the headers. Those whose names suggest a secret are stored as such.
    pub(super) fn set_headers(&mut self, headers: &Value) {
        let headers = headers.as_object().into_iter().flatten();
        let headers = headers.filter_map(|(name, value)| Some((name, value.as_str()?)));
        let headers: Map<String, Value> = headers
            .map(|(name, value)| {
                let lower = name.to_lowercase();
                let is_secret = SENSITIVE.iter().any(|part| lower.contains(part));
                (name.clone(), if is_secret { json!({"value": value, "secret": true}) } else { value.into() })
            })
            .collect();
        if !headers.is_empty() {
            self.set("headers", headers);
        }
    }

    /// Sets the metadata. Pairs beyond the limits of the API are left out.
    pub(super) fn set_metadata(&mut self, metadata: &Value) {
        let fits = |name: &str, value: &str| {
            (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && value.chars().count() <= VALUE_CHARS_MAX
        };
        let mut kept = Map::new();
        for (name, value) in metadata.as_object().into_iter().flatten() {
            match value.as_str().filter(|value| fits(name, value) && kept.len() < PAIRS_MAX) {
                Some(value) => drop(kept.insert(name.clone(), value.into())),
                None => self.note(format!(
                    "metadata {name}: at most {PAIRS_MAX} pairs of texts, names of up to {NAME_CHARS_MAX} and values \
                     of up to {VALUE_CHARS_MAX} characters"
                )),
            }
        }
        if !kept.is_empty() {
            self.set("metadata", kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry::new(Identity { tenant: None, uid: "a".to_owned() }, "https://h.example/", vec!["*"])
    }

    #[test]
    fn headers_that_look_secret_are_sealed() {
        let mut entry = entry();
        entry.set_headers(&json!({"X-Region": "eu", "Authorization": "Bearer t", "x-api-KEY": "k", "n": 7}));
        let expected = json!({
            "X-Region": "eu", "Authorization": {"value": "Bearer t", "secret": true},
            "x-api-KEY": {"value": "k", "secret": true}
        });
        assert_eq!(entry.desired.fields["headers"], expected);
    }

    #[test]
    fn metadata_beyond_the_limits_is_reported() {
        let mut entry = entry();
        let mut pairs: Map<String, Value> = (0..19).map(|n| (format!("k{n:02}"), "v".into())).collect();
        pairs.insert("long".to_owned(), "v".repeat(501).into());
        pairs.insert("number".to_owned(), 7.into());
        pairs.insert("x".repeat(65), "v".into());
        pairs.insert("z1".to_owned(), "v".into());
        pairs.insert("z2".to_owned(), "v".into());
        entry.set_metadata(&pairs.into());
        let kept = entry.desired.fields["metadata"].as_object().expect("an object");
        assert_eq!((kept.len(), kept.contains_key("z1"), kept.contains_key("z2")), (20, true, false));
        assert_eq!(entry.notes.len(), 4, "{:?}", entry.notes);
    }

    #[test]
    fn values_that_mean_nothing_are_not_set() {
        let object = json!({"a": 0, "b": "", "c": [], "d": {}, "e": false, "f": null, "g": 1, "h": [0]});
        let set = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|name| is_set(&object, name));
        assert_eq!(set, [false, false, false, false, false, false, true, true, false]);
    }
}
