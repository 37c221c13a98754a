//! The document of `posthaste subscription export` and `apply`: `{"subscriptions":[…]}`. [`text`] creates it from what a
//! server shows, [`parse`] checks it completely and replaces references to environment variables.

use crate::client::desired::{AUTH_KINDS, Desired, FIELDS, Identity, SECRET_FIELDS, Stored};
use crate::client::{Failure, input};
use posthaste_core::json::JsonText;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns the text of a document with the given subscriptions, and their number.
pub(super) fn text(stored: &Stored) -> (String, usize) {
    let entries: Vec<Value> =
        stored.iter().map(|(identity, subscription)| exported(identity, subscription)).collect();
    let count = entries.len();
    (format!("{:#}\n", json!({ "subscriptions": entries })), count)
}

/// Returns the fields of a subscription that a PUT accepts. Empty ones are left out.
fn exported(identity: &Identity, subscription: &Value) -> Value {
    let is_empty = |value: &Value| value.is_null() || *value == json!({});
    let fields =
        FIELDS.into_iter().filter_map(|field| Some((field.to_owned(), subscription.get(field)?.clone())));
    let mut entry: Map<String, Value> = fields.filter(|(_, value)| !is_empty(value)).collect();
    entry.insert("uid".to_owned(), identity.uid.clone().into());
    if let Some(tenant) = &identity.tenant {
        entry.insert("tenant".to_owned(), tenant.clone().into());
    }
    entry.into()
}

/// Parses a document and returns its entries in the order of their tenants and uids. `tenant` is the tenant of entries
/// that have none, and the only one that others may have. `variable` returns an environment variable.
///
/// # Errors
///
/// Returns a usage error that lists all errors of the document.
pub(super) fn parse(
    text: Vec<u8>,
    tenant: Option<&str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Desired>, Failure> {
    let invalid = |why: String| Failure::Usage(format!("the file: {why}"));
    let text = JsonText::parse(text, input::BYTES_MAX).map_err(|error| invalid(error.to_string()))?;
    let document = serde_json::from_str(text.as_str()).map_err(|error| invalid(error.to_string()))?;
    let shape = || invalid("expected {\"subscriptions\":[…]} and nothing else".to_owned());
    let Value::Object(mut document) = document else { return Err(shape()) };
    let (Some(Value::Array(entries)), true) = (document.remove("subscriptions"), document.is_empty()) else {
        return Err(shape());
    };
    let mut reader = Reader { tenant, variable, errors: Vec::new() };
    let mut found: BTreeMap<Identity, (String, Map<String, Value>)> = BTreeMap::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let place = format!("subscriptions[{index}]");
        let Some((identity, fields)) = reader.entry(&place, entry) else { continue };
        match found.get(&identity) {
            Some((first, _)) => {
                reader.errors.push(format!("{place}: {identity} appears twice, first as {first}"));
            }
            None => drop(found.insert(identity, (place, fields))),
        }
    }
    Failure::refuse(&reader.errors)?;
    Ok(found.into_iter().map(|(identity, (_, fields))| Desired { identity, fields }).collect())
}

/// Checks the entries of a document and collects their errors. Messages name the kind of a wrong value and never the
/// value itself, which may be a secret.
struct Reader<'a> {
    tenant: Option<&'a str>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    errors: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, place: &str, accepted: &str, value: &Value) {
        self.errors.push(format!("{place} must be {accepted}, got {}", kind(value)));
    }

    /// Returns the identity and the fields of an entry, or `None` if it has no identity.
    fn entry(&mut self, place: &str, entry: Value) -> Option<(Identity, Map<String, Value>)> {
        let Value::Object(mut fields) = entry else {
            self.wrong(place, "an object", &entry);
            return None;
        };
        fields.retain(|_, value| !value.is_null());
        let identity = self.identity(place, &mut fields);
        for required in ["callback_url", "event_types"] {
            if !fields.contains_key(required) {
                self.errors.push(format!("{place}.{required} is required"));
            }
        }
        let fields: Map<String, Value> = fields
            .into_iter()
            .filter_map(|(field, value)| Some((field.clone(), self.field(place, &field, value)?)))
            .collect();
        Some((identity?, fields))
    }

    fn identity(&mut self, place: &str, fields: &mut Map<String, Value>) -> Option<Identity> {
        let uid = fields.remove("uid").unwrap_or_default();
        let tenant = fields.remove("tenant");
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        if !is_text(&uid) {
            self.wrong(&format!("{place}.uid"), "text", &uid);
        }
        let tenant = match (tenant, self.tenant) {
            (Some(tenant), _) if !is_text(&tenant) => {
                self.wrong(&format!("{place}.tenant"), "text", &tenant);
                None
            }
            (Some(Value::String(own)), Some(given)) if own != given => {
                self.errors.push(format!("{place}.tenant must be {given}, as --tenant says, got {own}"));
                None
            }
            (Some(own), _) => own.as_str().map(str::to_owned),
            (None, given) => given.map(str::to_owned),
        };
        let uid = uid.as_str().filter(|uid| !uid.is_empty())?;
        Some(Identity { tenant, uid: uid.to_owned() })
    }

    /// Returns the value of a field as it is sent, or `None` if it is wrong.
    fn field(&mut self, place: &str, field: &str, value: Value) -> Option<Value> {
        let place = format!("{place}.{field}");
        let is_texts = |items: &[Value]| !items.is_empty() && items.iter().all(Value::is_string);
        let (accepted, is_right) = match field {
            "name" | "description" | "callback_url" | "timeout" | "envelope" => ("text", value.is_string()),
            "event_types" => {
                ("a list of one or more texts", value.as_array().is_some_and(|items| is_texts(items)))
            }
            "filter" => ("an object or a list", value.is_object() || value.is_array()),
            "active" => ("true or false", value.is_boolean()),
            "metadata" => {
                let is_right = value.as_object().is_some_and(|pairs| pairs.values().all(Value::is_string));
                ("an object of texts", is_right)
            }
            "max_retry_limit" => ("a whole number", value.is_u64()),
            "signatures" => {
                ("a list of one or more", value.as_array().is_some_and(|items| !items.is_empty()))
            }
            "headers" => return self.headers(&place, value),
            "auth" => return self.auth(&place, &value),
            _ if SECRET_FIELDS.contains(&field) => return self.text_or_variable(&place, value),
            _ => {
                let known = ["uid", "tenant"].into_iter().chain(FIELDS).chain(SECRET_FIELDS);
                let known = known.collect::<Vec<_>>().join(", ");
                self.errors.push(format!("{place} is not known; the fields are {known}"));
                return None;
            }
        };
        if !is_right {
            self.wrong(&place, accepted, &value);
        }
        is_right.then_some(value)
    }

    /// Returns a text, or the environment variable that `{"env":"NAME"}` names.
    fn text_or_variable(&mut self, place: &str, value: Value) -> Option<Value> {
        if value.is_string() {
            return Some(value);
        }
        let Some(name) = variable_name(&value) else {
            self.wrong(place, r#"text or {"env":"NAME"}"#, &value);
            return None;
        };
        let found = (self.variable)(name).filter(|text| !text.is_empty());
        if found.is_none() {
            self.errors.push(format!("{place}: the environment variable {name} is not set"));
        }
        found.map(Value::String)
    }

    fn headers(&mut self, place: &str, value: Value) -> Option<Value> {
        let Value::Object(headers) = value else {
            self.wrong(place, "an object", &value);
            return None;
        };
        let headers = headers.into_iter().filter_map(|(name, value)| {
            let value = self.header(&format!("{place}.{name}"), value)?;
            Some((name, value))
        });
        Some(headers.collect::<Map<_, _>>().into())
    }

    /// Returns a header as it is sent. A value from the environment is secret, unless the file says otherwise.
    fn header(&mut self, place: &str, value: Value) -> Option<Value> {
        if value.is_string() {
            return Some(value);
        }
        if variable_name(&value).is_some() {
            return Some(json!({"value": self.text_or_variable(place, value)?, "secret": true}));
        }
        let accepted = r#"text, {"env":"NAME"}, {"value":…,"secret":true} or {"secret":true}"#;
        let Value::Object(mut members) = value else {
            self.wrong(place, accepted, &value);
            return None;
        };
        let (value, secret) = (members.remove("value"), members.remove("secret"));
        let is_secret = secret.as_ref().and_then(Value::as_bool);
        let is_right = members.is_empty()
            && (secret.is_none() || is_secret.is_some())
            && (value.is_some() || is_secret == Some(true));
        if !is_right {
            self.errors.push(format!("{place} must be {accepted}"));
            return None;
        }
        let mut header = json!({"secret": is_secret.unwrap_or_default()});
        if let Some(value) = value {
            header["value"] = self.text_or_variable(&format!("{place}.value"), value)?;
        }
        Some(header)
    }

    fn auth(&mut self, place: &str, value: &Value) -> Option<Value> {
        let kinds = || AUTH_KINDS.map(|(kind, _, _)| kind).join(", ");
        let single =
            value.as_object().filter(|members| members.len() == 1).and_then(|members| members.iter().next());
        let known = single.and_then(|(name, members)| {
            let kind = AUTH_KINDS.into_iter().find(|(kind, _, _)| kind == name)?;
            Some((kind, members.as_object()?.clone()))
        });
        let Some(((kind, public, secret), members)) = known else {
            self.errors.push(format!("{place} must be an object with exactly one of {}", kinds()));
            return None;
        };
        let mut auth = Map::new();
        for (name, member) in members.into_iter().filter(|(_, member)| !member.is_null()) {
            let place = format!("{place}.{kind}.{name}");
            if name == secret {
                auth.insert(name, self.text_or_variable(&place, member)?);
            } else if !public.contains(&name.as_str()) {
                let known = [public, &[secret]].concat().join(", ");
                self.errors.push(format!("{place} is not known; the members are {known}"));
            } else if member.is_string() {
                auth.insert(name, member);
            } else {
                self.wrong(&place, "text", &member);
            }
        }
        Some(json!({ kind: auth }))
    }
}

/// Returns the name of the environment variable to which a value refers.
fn variable_name(value: &Value) -> Option<&str> {
    value.as_object().filter(|members| members.len() == 1)?.get("env")?.as_str()
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty text",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
