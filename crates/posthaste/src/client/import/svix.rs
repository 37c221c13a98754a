//! Maps the endpoints of Svix applications to subscriptions. [`fetch`] reads a bundle from the API of Svix, [`parse`]
//! maps a bundle from there or from a file.

use super::mapping::{is_set, items, text, texts};
use super::remote::RemoteClient;
use super::{Entry, Identity, Plan};
use crate::client::call::path_segment;
use crate::client::{Failure, PAGES_MAX};
use serde_json::{Value, json};

/// The number of items that are fetched at once, the maximum of the Svix API.
const PAGE_ITEMS: u32 = 250;

/// Maps a bundle, `[{"application": {…}, "endpoints": [{…}]}]`. With `applications`, only those are mapped.
///
/// # Errors
///
/// Returns what is wrong with the bundle.
pub(super) fn parse(bundle: &Value, applications: &[String]) -> Result<Plan, Vec<String>> {
    let Some(parts) = bundle.as_array() else {
        return Err(vec![r#"the bundle must be a list, [{"application":{…},"endpoints":[…]}]"#.to_owned()]);
    };
    let (mut plan, mut errors) = (Plan::default(), Vec::new());
    let mut found: Vec<&str> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let application = &part["application"];
        let Some(name) = own_id(application) else {
            errors.push(format!("[{index}].application must be an object with a uid or an id"));
            continue;
        };
        let names = [text(application, "uid"), text(application, "id")];
        let is_wanted = |wanted: &&String| names.contains(&Some(wanted.as_str()));
        if !applications.is_empty() && !applications.iter().any(|wanted| is_wanted(&wanted)) {
            continue;
        }
        found.extend(names.iter().flatten());
        if is_set(application, "rateLimit") {
            plan.notes.push(format!("not imported: the rate limit of application {name}"));
        }
        if !part["endpoints"].is_array() {
            errors.push(format!("[{index}].endpoints must be a list"));
        }
        for (place, endpoint) in items(part, "endpoints").iter().enumerate() {
            match entry(name, endpoint) {
                Ok(entry) => plan.entries.push(entry),
                Err(why) => errors.push(format!("[{index}].endpoints[{place}]{why}")),
            }
        }
    }
    let missing = applications.iter().filter(|wanted| !found.contains(&wanted.as_str()));
    errors.extend(missing.map(|wanted| format!("--app {wanted}: there is no such application")));
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// Returns the uid of an object, or its id if it has none.
fn own_id(object: &Value) -> Option<&str> {
    text(object, "uid").or_else(|| text(object, "id"))
}

/// Maps an endpoint with its secret and headers.
fn entry(application: &str, endpoint: &Value) -> Result<Entry, String> {
    let id = own_id(endpoint).ok_or(" must be an object with a uid or an id")?;
    let url = text(endpoint, "url").ok_or(".url must be text")?;
    let identity = Identity { tenant: Some(application.to_owned()), uid: format!("svix:{application}:{id}") };
    // The API says filterTypes, some exports say eventTypes. Both are lists of exact names.
    let types = ["filterTypes", "eventTypes"].into_iter().find(|name| is_set(endpoint, name));
    let types = types.map_or_else(|| vec!["*"], |name| texts(endpoint, name));
    let mut entry = Entry::new(identity, url, types);
    entry.set_text("description", text(endpoint, "description"));
    entry.set("active", endpoint["disabled"] != true);
    entry.set_metadata(&endpoint["metadata"]);
    // The API returns headers and the names of redacted ones side by side.
    let headers = &endpoint["headers"];
    let (headers, redacted) = match headers["headers"].is_object() {
        true => (&headers["headers"], texts(headers, "sensitive")),
        false => (headers, texts(endpoint, "sensitive")),
    };
    entry.set_headers(headers);
    sign(&mut entry, text(endpoint, "secret"));
    // A value that was added to the bundle by hand is not missing.
    let is_given = |name: &str| headers.as_object().is_some_and(|headers| headers.contains_key(name));
    let redacted: Vec<&str> = redacted.into_iter().filter(|name| !is_given(name)).collect();
    if !redacted.is_empty() {
        entry.gap(format!("the headers {}, whose values Svix does not show", redacted.join(", ")));
    }
    if is_set(endpoint, "channels") {
        entry.gap(format!("the channels {}", texts(endpoint, "channels").join(", ")));
    }
    let transformation = &endpoint["transformation"];
    if is_set(endpoint, "transformation") && transformation["enabled"] != false {
        entry.gap("the transformation");
    }
    if let Some(name) = ["throttleRate", "rateLimit"].into_iter().find(|name| is_set(endpoint, name)) {
        entry.note(format!("the rate limit of {} messages per second", endpoint[name]));
    }
    Ok(entry)
}

/// Sets the signatures and the secret, so that the receiver can verify requests as before.
fn sign(entry: &mut Entry, secret: Option<&str>) {
    let ed25519 = json!(["standard_ed25519"]);
    match secret {
        Some(key) if key.starts_with("whsk_") => {
            entry.set("signatures", ed25519);
            entry.set("signing_key", key);
        }
        Some(key) if key.starts_with("whpk_") => {
            entry.set("signatures", ed25519);
            entry.gap("the private key, which Svix does not show: the receiver needs the new public key");
        }
        Some(secret) => {
            entry.set("signatures", json!([{"preset": "svix"}]));
            entry.set("secret", secret);
        }
        None => {
            entry.set("signatures", json!([{"preset": "svix"}]));
            entry.gap("the secret, which is absent: the receiver needs the new one");
        }
    }
}

/// Reads a bundle from the API: all applications, or the given ones.
pub(super) async fn fetch(remote: &RemoteClient, applications: &[String]) -> Result<Value, Failure> {
    let found = match applications {
        [] => list(remote, "/api/v1/app/").await?,
        given => {
            let mut found = Vec::new();
            for name in given {
                found.push(remote.get(&format!("/api/v1/app/{}/", path_segment(name)), &[]).await?);
            }
            found
        }
    };
    let mut bundle = Vec::new();
    for application in found {
        let path =
            format!("/api/v1/app/{}/endpoint/", path_segment(text(&application, "id").unwrap_or_default()));
        let mut endpoints = list(remote, &path).await?;
        for endpoint in endpoints.iter_mut().filter_map(Value::as_object_mut) {
            let id = endpoint.get("id").and_then(Value::as_str).unwrap_or_default();
            let path = format!("{path}{}/", path_segment(id));
            let secret = remote.get(&format!("{path}secret/"), &[]).await?["key"].clone();
            let headers = remote.get(&format!("{path}headers/"), &[]).await?;
            // Only the hosted service has transformations.
            let transformation = remote.get_optional(&format!("{path}transformation/")).await?;
            let transformation = transformation.filter(|found| is_set(found, "code")).unwrap_or_default();
            for (name, value) in
                [("secret", secret), ("headers", headers), ("transformation", transformation)]
            {
                endpoint.insert(name.to_owned(), value);
            }
        }
        bundle.push(json!({"application": application, "endpoints": endpoints}));
    }
    Ok(bundle.into())
}

/// Reads all pages of a list.
async fn list(remote: &RemoteClient, path: &str) -> Result<Vec<Value>, Failure> {
    let (mut found, mut iterator) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let query = [("limit", Some(PAGE_ITEMS.to_string())), ("iterator", iterator)];
        let page = remote.get(path, &query).await?;
        if !page["data"].is_array() {
            return Err(Failure::Local(format!(
                "the response to GET {path} has no data: is this a Svix server?"
            )));
        }
        found.extend(items(&page, "data").iter().cloned());
        iterator = text(&page, "iterator").map(str::to_owned);
        if page["done"] != false || iterator.is_none() {
            return Ok(found);
        }
    }
    Err(Failure::Local(format!("GET {path} returned too many pages: is this a Svix server?")))
}

#[cfg(test)]
mod tests;
