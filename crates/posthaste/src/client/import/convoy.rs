//! Maps the subscriptions of a Convoy project, with their endpoints, to subscriptions. [`fetch`] reads a bundle from
//! the API of Convoy, [`parse`] maps a bundle from there or from a file.

mod endpoint;

use super::mapping::{is_set, items, text, texts};
use super::remote::RemoteClient;
use super::{Entry, Identity, Plan};
use crate::client::call::path_segment;
use crate::client::{Failure, PAGES_MAX};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The number of items that are fetched at once.
const PAGE_ITEMS: u32 = 100;

/// Maps a bundle, `{"endpoints": […], "subscriptions": […], "project": {…}}`. `project` is the id of the project if the
/// bundle does not name it.
///
/// # Errors
///
/// Returns what is wrong with the bundle.
pub(super) fn parse(bundle: &Value, project: Option<&str>) -> Result<Plan, Vec<String>> {
    let configured = Some(&bundle["project"]).filter(|project| project.is_object());
    // The response of the API has the project in `data`.
    let configured =
        configured.map(|project| if project["data"].is_object() { &project["data"] } else { project });
    let lists = [content(bundle, "endpoints"), content(bundle, "subscriptions")];
    let (endpoints, subscriptions) = match lists {
        [Ok(endpoints), Ok(subscriptions)] => (endpoints, subscriptions),
        lists => return Err(lists.into_iter().filter_map(Result::err).collect()),
    };
    let named = configured.and_then(|project| text(project, "uid"));
    let of_endpoint = || endpoints.iter().find_map(|endpoint| text(endpoint, "project_id"));
    let Some(project) = project.or(named).or_else(of_endpoint) else {
        return Err(vec!["the bundle does not name its project: give its id with --project".to_owned()]);
    };
    let mut plan = Plan::default();
    if configured.is_none() {
        plan.notes.push(
            "the bundle has no project: its signatures are assumed to be the default of Convoy, the header \
             X-Convoy-Signature with SHA256 in hex"
                .to_owned(),
        );
    }
    let signature = configured.map_or(&Value::Null, |project| &project["config"]["signature"]);
    let mut errors = Vec::new();
    for (index, subscription) in subscriptions.iter().enumerate() {
        match entry(project, subscription, endpoints, signature) {
            Ok(Found::Entry(entry)) => plan.entries.push(*entry),
            Ok(Found::Skipped(identity, why)) => plan.skipped.push((identity, why)),
            Err(why) => errors.push(format!("subscriptions[{index}]{why}")),
        }
    }
    let used: BTreeSet<&str> = subscriptions.iter().filter_map(endpoint_id).collect();
    for endpoint in endpoints {
        if let Some(uid) = text(endpoint, "uid").filter(|uid| !used.contains(uid)) {
            let identity = identity(project, uid, endpoint);
            let why = "the endpoint has no subscription, so that Convoy has not sent anything to it";
            plan.skipped.push((identity, why.to_owned()));
        }
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// Returns a list of the bundle: a list, or a response of the API that has all of it.
fn content<'a>(bundle: &'a Value, name: &str) -> Result<&'a [Value], String> {
    let list = &bundle[name];
    let data = &list["data"];
    if data["pagination"]["has_next_page"] == true {
        return Err(format!("{name} is only one page of a list: add the other pages, or use --url"));
    }
    let content = list.as_array().or_else(|| data["content"].as_array());
    content.map(Vec::as_slice).ok_or_else(|| format!("{name} must be a list"))
}

enum Found {
    Entry(Box<Entry>),
    Skipped(Identity, String),
}

fn endpoint_id(subscription: &Value) -> Option<&str> {
    text(subscription, "endpoint_id").or_else(|| text(&subscription["endpoint_metadata"], "uid"))
}

fn identity(project: &str, id: &str, endpoint: &Value) -> Identity {
    let tenant = text(endpoint, "owner_id").map(str::to_owned);
    Identity { tenant, uid: format!("convoy:{project}:{id}") }
}

/// Maps a subscription with its endpoint.
fn entry(
    project: &str,
    subscription: &Value,
    endpoints: &[Value],
    signature: &Value,
) -> Result<Found, String> {
    let id = text(subscription, "uid").ok_or(".uid must be text")?;
    let wanted = endpoint_id(subscription);
    let listed = endpoints.iter().find(|endpoint| wanted.is_some() && text(endpoint, "uid") == wanted);
    let endpoint = listed.unwrap_or(&subscription["endpoint_metadata"]);
    let identity = identity(project, id, endpoint);
    if subscription["type"] == "cli" {
        return Ok(Found::Skipped(identity, "it belongs to the Convoy command line".to_owned()));
    }
    let url = text(endpoint, "url").or_else(|| text(endpoint, "target_url"));
    let url = url.ok_or(" has an endpoint that is not in endpoints, or has no url")?;
    let filter = &subscription["filter_config"];
    let types = if is_set(filter, "event_types") { texts(filter, "event_types") } else { vec!["*"] };
    let mut entry = Entry::new(identity, url, types);
    let name =
        text(subscription, "name").or_else(|| text(endpoint, "name")).or_else(|| text(endpoint, "title"));
    entry.set_text("name", name);
    endpoint::map(&mut entry, endpoint);
    endpoint::sign(&mut entry, endpoint, signature);
    for what in filters(subscription) {
        entry.gap(what);
    }
    if is_set(subscription, "function") {
        entry.gap("the function that transforms the payload");
    }
    if let Some(source) = text(&subscription["source_metadata"], "uid") {
        entry.gap(format!("the source {source}, to whose events the subscription is limited"));
    }
    if is_set(&subscription["rate_limit_config"], "count") {
        entry.note("the rate limit of the subscription");
    }
    if is_set(subscription, "retry_config") {
        entry.note("the retry configuration: Posthaste has its own schedule and max_retry_limit");
    }
    if subscription["delivery_mode"] == "at_most_once" {
        entry.gap("the delivery mode at_most_once: Posthaste delivers at least once");
    }
    Ok(Found::Entry(Box::new(entry)))
}

/// Returns descriptions of the filters, which Posthaste cannot evaluate, because it does not read payloads.
fn filters(subscription: &Value) -> Vec<String> {
    const SCOPES: [&str; 4] = ["body", "headers", "query", "path"];
    let scopes =
        |filter: &Value| SCOPES.into_iter().filter(|scope| is_set(filter, scope)).collect::<Vec<_>>();
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    found.entry("*").or_default().extend(scopes(&subscription["filter_config"]["filter"]));
    for filter in items(subscription, "filters") {
        // Earlier versions cannot disable a filter and have no such field.
        if filter.get("enabled_at").is_none_or(|time| !time.is_null()) {
            found.entry(text(filter, "event_type").unwrap_or("*")).or_default().extend(scopes(filter));
        }
    }
    let described = |(event_type, scopes): (&str, BTreeSet<&str>)| {
        let scopes = scopes.into_iter().collect::<Vec<_>>().join(" and ");
        match event_type {
            "*" => format!("the filter on {scopes}"),
            event_type => format!("the filter on {scopes} of {event_type}"),
        }
    };
    found.into_iter().filter(|(_, scopes)| !scopes.is_empty()).map(described).collect()
}

/// Reads a bundle from the API.
pub(super) async fn fetch(remote: &RemoteClient, project: &str) -> Result<Value, Failure> {
    let path = format!("/api/v1/projects/{}", path_segment(project));
    let endpoints = list(remote, &format!("{path}/endpoints")).await?;
    let mut subscriptions = list(remote, &format!("{path}/subscriptions")).await?;
    for subscription in subscriptions.iter_mut().filter_map(Value::as_object_mut) {
        let id = subscription.get("uid").and_then(Value::as_str).unwrap_or_default();
        // Earlier versions have filters in the subscription only.
        let filters =
            remote.get_optional(&format!("{path}/subscriptions/{}/filters", path_segment(id))).await?;
        subscription
            .insert("filters".to_owned(), filters.map(|found| found["data"].clone()).unwrap_or_default());
    }
    let project = remote.get_optional(&path).await?.unwrap_or_default();
    Ok(json!({"endpoints": endpoints, "subscriptions": subscriptions, "project": project}))
}

/// Reads all pages of a list.
async fn list(remote: &RemoteClient, path: &str) -> Result<Vec<Value>, Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let query = [
            ("perPage", Some(PAGE_ITEMS.to_string())),
            ("direction", Some("next".to_owned())),
            ("next_page_cursor", cursor),
        ];
        let page = remote.get(path, &query).await?;
        let data = &page["data"];
        if !data["content"].is_array() && !data["content"].is_null() || !data.is_object() {
            return Err(Failure::Local(format!(
                "the response to GET {path} has no content: is this a Convoy server?"
            )));
        }
        found.extend(items(data, "content").iter().cloned());
        cursor = text(&data["pagination"], "next_page_cursor").map(str::to_owned);
        if data["pagination"]["has_next_page"] != true || cursor.is_none() {
            return Ok(found);
        }
    }
    Err(Failure::Local(format!("GET {path} returned too many pages: is this a Convoy server?")))
}

#[cfg(test)]
mod tests;
