//! Tests the document of subscriptions: what is accepted, every error, and that an export can be applied.

use super::*;
use crate::client::Failure;

fn variable(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("whsec_from_env".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn parsed(document: &Value, tenant: Option<&str>) -> Result<Vec<Desired>, String> {
    parse(document.to_string().into_bytes(), tenant, &variable).map_err(|failure| {
        let Failure::Usage(text) = failure else { panic!("not a usage error: {failure}") };
        text
    })
}

/// Returns a document with one entry that has the given fields in addition to the required ones.
fn with(fields: &Value) -> Value {
    let mut entry = json!({"uid": "a", "callback_url": "https://h.example/", "event_types": ["a.b"]});
    entry.as_object_mut().expect("an object").extend(fields.as_object().cloned().expect("an object"));
    json!({"subscriptions": [entry]})
}

#[test]
fn variables_become_secrets() {
    let document = with(&json!({
        "secret": {"env": "SECRET"}, "name": null,
        "headers": {
            "X-Plain": "1", "X-Env": {"env": "SECRET"}, "X-Kept": {"secret": true},
            "X-Value": {"value": {"env": "SECRET"}, "secret": false}, "X-Short": {"value": "2"}
        },
        "auth": {"basic": {"username": "u", "password": {"env": "SECRET"}}}
    }));
    let found = parsed(&document, None).expect("a document");
    let expected = json!({
        "callback_url": "https://h.example/", "event_types": ["a.b"], "secret": "whsec_from_env",
        "headers": {
            "X-Plain": "1", "X-Env": {"value": "whsec_from_env", "secret": true}, "X-Kept": {"secret": true},
            "X-Value": {"value": "whsec_from_env", "secret": false}, "X-Short": {"value": "2", "secret": false}
        },
        "auth": {"basic": {"username": "u", "password": "whsec_from_env"}}
    });
    assert_eq!(found.into_iter().map(|entry| Value::from(entry.fields)).collect::<Vec<_>>(), [expected]);
}

#[test]
fn every_error_names_its_place() {
    for (fields, message) in [
        (json!({"uid": ""}), "subscriptions[0].uid must be text, got an empty text"),
        (json!({"uid": null}), "subscriptions[0].uid must be text, got nothing"),
        (json!({"tenant": 7}), "subscriptions[0].tenant must be text, got a number"),
        (json!({"callback_url": null}), "subscriptions[0].callback_url is required"),
        (
            json!({"event_types": []}),
            "subscriptions[0].event_types must be a list of one or more texts, got a list",
        ),
        (
            json!({"event_type": "a"}),
            "subscriptions[0].event_type is not known; the fields are uid, tenant, name",
        ),
        (json!({"active": "yes"}), "subscriptions[0].active must be true or false, got text"),
        (
            json!({"metadata": {"a": 1}}),
            "subscriptions[0].metadata must be an object of texts, got an object",
        ),
        (
            json!({"max_retry_limit": 1.5}),
            "subscriptions[0].max_retry_limit must be a whole number, got a number",
        ),
        (
            json!({"signatures": "standard"}),
            "subscriptions[0].signatures must be a list of one or more, got text",
        ),
        (json!({"filter": "a"}), "subscriptions[0].filter must be an object or a list, got text"),
        (json!({"secret": 7}), r#"subscriptions[0].secret must be text or {"env":"NAME"}, got a number"#),
        (
            json!({"secret": {"env": "NONE"}}),
            "subscriptions[0].secret: the environment variable NONE is not set",
        ),
        (json!({"secret": {"env": "EMPTY"}}), "the environment variable EMPTY is not set"),
        (json!({"headers": []}), "subscriptions[0].headers must be an object, got a list"),
        (json!({"headers": {"X": 1}}), "subscriptions[0].headers.X must be text, "),
        (json!({"headers": {"X": {"secret": false}}}), "subscriptions[0].headers.X must be text, "),
        (json!({"headers": {"X": {"secret": true, "b": 1}}}), "subscriptions[0].headers.X must be text, "),
        (
            json!({"headers": {"X": {"value": {"env": "NONE"}, "secret": true}}}),
            "headers.X.value: the environment",
        ),
        (
            json!({"auth": {"digest": {}}}),
            "subscriptions[0].auth must be an object with exactly one of basic, ",
        ),
        (json!({"auth": {"basic": {}, "bearer": {}}}), "auth must be an object with exactly one of basic, "),
        (json!({"auth": {"bearer": {"tokn": "x"}}}), "auth.bearer.tokn is not known; the members are token"),
        (json!({"auth": {"basic": {"username": 1}}}), "auth.basic.username must be text, got a number"),
        (
            json!({"auth": {"bearer": {"token": {"env": "NONE"}}}}),
            "auth.bearer.token: the environment variable NONE",
        ),
    ] {
        let error = parsed(&with(&fields), None).expect_err("an error");
        assert!(error.contains(message), "{fields}: {error}");
        assert_eq!(error.lines().count(), 1, "{fields}: {error}");
    }
    for text in ["", "{", "[]", "{}", r#"{"subscriptions":{}}"#, r#"{"subscriptions":[],"more":1}"#] {
        let failure = parse(text.into(), None, &variable).expect_err(text);
        assert!(matches!(&failure, Failure::Usage(text) if text.starts_with("the file: ")), "{failure}");
    }
    assert_eq!(
        parsed(&json!({"subscriptions": [7]}), None),
        Err("subscriptions[0] must be an object, got a number".to_owned())
    );
}

#[test]
fn wrong_values_are_not_printed() {
    let document = with(
        &json!({"secret": ["hush"], "headers": {"X": ["hush"]}, "auth": {"bearer": {"token": ["hush"]}}}),
    );
    let error = parsed(&document, None).expect_err("three errors");
    assert!(error.lines().count() == 3 && !error.contains("hush"), "{error}");
}

#[test]
fn errors_of_all_entries_are_listed() {
    let error = parsed(&json!({"subscriptions": [{}, {"uid": "a"}]}), None).expect_err("errors");
    assert_eq!(error.lines().count(), 5, "{error}");
}

#[test]
fn a_uid_is_unique_within_its_tenant() {
    let entry = |uid: &str, tenant: Option<&str>| json!({"uid": uid, "tenant": tenant, "callback_url": "https://h.example/", "event_types": ["*"]});
    let document = json!({"subscriptions": [entry("b", Some("t")), entry("a", None), entry("a", Some("t"))]});
    let found = parsed(&document, None).expect("a document");
    let identities: Vec<String> = found.iter().map(|entry| entry.identity.to_string()).collect();
    assert_eq!(identities, ["a", "a of tenant t", "b of tenant t"], "sorted");

    let twice = json!({"subscriptions": [entry("a", None), entry("b", None), entry("a", None)]});
    let error = parsed(&twice, None).expect_err("a duplicate");
    assert_eq!(error, "subscriptions[2]: a appears twice, first as subscriptions[0]");
    // With --tenant, an entry without a tenant belongs to it, and an entry of another tenant is an error.
    let error = parsed(&document, Some("t")).expect_err("a duplicate");
    assert!(error.contains("a of tenant t appears twice"), "{error}");
    let error = parsed(&document, Some("u")).expect_err("another tenant");
    assert!(error.contains("subscriptions[0].tenant must be u, as --tenant says, got t"), "{error}");
}
