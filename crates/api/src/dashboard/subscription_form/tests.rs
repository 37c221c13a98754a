//! Tests the conversion between the form and the JSON of the API.

use super::{FieldError, FormFields};
use serde_json::{Value, json};

fn form(pairs: &[(&str, &str)]) -> FormFields {
    FormFields::filled(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn created(pairs: &[(&str, &str)]) -> Value {
    let body = form(pairs).creation().expect("a body");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn empty_fields_are_left_out_of_a_creation() {
    assert_eq!(created(&[("event_types", " \n"), ("headers", ""), ("auth", ""), ("filter", " ")]), json!({}));
    assert_eq!(
        created(&[
            ("event_types", "order.*\n\n invoice.paid "),
            ("filter", "[ {\"exact\": {\"region\":\n\"eu\"}} ]"),
            ("tenant", "acme"),
            ("callback_url", " https://x.example/ "),
            ("max_retry_limit", "7"),
            ("metadata", "team = billing\nformula=a=b"),
            ("envelope", "standard"),
            ("signatures", "standard_both"),
            ("headers", "X-Team: a:b\nX-Token (secret): s3cret"),
            ("auth", "basic"),
            ("auth_basic_username", "u"),
            ("auth_basic_password", " p "),
            ("auth_bearer_token", "of another method"),
        ]),
        json!({
            "event_types": ["order.*", "invoice.paid"],
            "filter": [{"exact": {"region": "eu"}}],
            "tenant": "acme",
            "callback_url": "https://x.example/",
            "max_retry_limit": 7,
            "metadata": {"team": "billing", "formula": "a=b"},
            "envelope": "standard",
            "signatures": ["standard", "standard_ed25519"],
            "headers": {"X-Team": "a:b", "X-Token": {"value": "s3cret", "secret": true}},
            "auth": {"basic": {"username": "u", "password": " p "}},
        })
    );
    // What is not valid is left to the API.
    let odd = [("max_retry_limit", "many"), ("signatures", "rsa"), ("auth", "kerberos")];
    let expected = json!({"max_retry_limit": "many", "signatures": ["rsa"], "auth": {"kerberos": {}}});
    assert_eq!(created(&odd), expected);
    // Repeated names reach the API, which rejects them.
    let twice = form(&[("headers", "X-A: 1\nX-A: 2")]).creation().expect("a body");
    assert_eq!(twice, r#"{"headers":{"X-A":"1","X-A":"2"}}"#);
}

#[test]
fn text_that_the_body_cannot_represent_is_rejected() {
    for (name, text, detail) in [
        ("filter", "{", "filter at #"),
        ("metadata", "a=1\nb", "metadata: line 2 must be key=value"),
        ("metadata", "{\"a\":", "metadata must be a JSON object"),
        ("headers", "X-A: 1\n\nhush", "headers: line 3 must be Name: value or Name (secret): value"),
    ] {
        let FieldError { field, detail: found } = form(&[(name, text)]).creation().expect_err(text);
        assert_eq!(field, name);
        assert!(found.contains(detail), "{found}");
        assert!(!found.contains("hush"), "{found}");
    }
    let custom = [("signatures", "custom"), ("signatures_json", "{}")];
    let error = form(&custom).creation().expect_err("an error");
    assert!(error.field == "signatures" && error.detail.contains("must be a list"), "{error:?}");
}

fn stored() -> Value {
    json!({
        "id": 3, "uid": "shop-1", "tenant": "acme", "name": "the shop", "description": null,
        "metadata": {"team": "billing"}, "event_types": ["order.*", "invoice.paid"], "event_type": null,
        "filter": {"any": [{"exact": {"region": "eu"}}, {"prefix": {"subject": "a"}}]},
        "callback_url": "https://x.example/", "max_retry_limit": 5, "timeout": "20s",
        "signatures": [{"hmac": {
            "header": "x-sig", "algorithm": "sha256", "encoding": "hex", "content": "{body}", "value": "{signature}",
        }}],
        "public_key": null, "headers": {"X-Team": "a", "X-Token": {"secret": true}},
        "auth": {"mtls": {"certificate": "-----BEGIN\nx\n-----END\n"}}, "envelope": "raw",
    })
}

#[test]
fn a_form_that_was_not_edited_changes_nothing() {
    for current in [
        stored(),
        json!({"event_types": ["a"], "callback_url": "https://x.example/", "metadata": {}, "headers": {},
            "signatures": ["standard"], "envelope": "raw", "auth": null, "filter": null}),
        // One key has a line break, so the input contains JSON.
        json!({"event_types": ["a"], "metadata": {"a\nb": "1", "c": "=2 "}, "signatures": ["standard"]}),
    ] {
        let fields = FormFields::of_json(&current);
        let same = FormFields::of_json(&current);
        assert_eq!(fields.changes(&same).as_deref(), Ok("{}"), "{current}");
        let created: Value = serde_json::from_str(&fields.creation().expect("a body")).expect("JSON");
        for name in ["event_types", "filter", "metadata", "signatures", "headers", "auth"] {
            let is_empty = current[name].is_null() || current[name] == json!({});
            let expected = if is_empty { &Value::Null } else { &current[name] };
            if name != "auth" {
                assert_eq!(&created[name], expected, "{name} of {current}");
            }
        }
    }
    let text = FormFields::of_json(&stored());
    assert_eq!(text.get("headers"), "X-Team: a\nX-Token (secret): ••••••");
    assert_eq!((text.get("signatures"), text.get("auth")), ("custom", "mtls"));
    assert_eq!(text.get("auth_mtls_key"), "");
}

#[test]
fn only_changed_fields_are_in_a_patch() {
    let current = FormFields::of_json(&stored());
    let patch = |changes: &[(&str, &str)]| {
        let mut edited = FormFields::of_json(&stored());
        for (name, value) in changes {
            edited.values.insert((*name).to_owned(), (*value).to_owned());
        }
        let body = edited.changes(&current).expect("a patch");
        serde_json::from_str::<Value>(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    };
    let certificate = json!({"certificate": "-----BEGIN\nx\n-----END", "key": "k\n"});
    for (changes, expected) in [
        (&[("description", " new ")][..], json!({"description": "new"})),
        (&[("description", " ")], json!({})),
        (&[("name", ""), ("filter", "")], json!({"name": null, "filter": null})),
        (&[("event_types", ""), ("callback_url", "")], json!({"event_types": [], "callback_url": ""})),
        (&[("tenant", "other"), ("secret", "s")], json!({})),
        (
            &[("headers", "X-Team: a\nX-Token (secret):\nX-New: b")],
            json!({"headers": {"X-Team": "a", "X-Token": {"secret": true}, "X-New": "b"}}),
        ),
        (
            &[("headers", "X-Token (secret):\nX-Team: a")],
            json!({"headers": {"X-Token": {"secret": true}, "X-Team": "a"}}),
        ),
        (&[("headers", "")], json!({"headers": null})),
        (&[("auth", "")], json!({"auth": null})),
        (&[("auth_mtls_key", "k\n")], json!({"auth": {"mtls": certificate}})),
        (&[("signatures", "stripe")], json!({"signatures": [{"preset": "stripe"}]})),
    ] {
        assert_eq!(patch(changes), expected, "{changes:?}");
    }
}

#[test]
fn an_error_belongs_to_an_input() {
    for (field, expected) in [
        ("event_type", "event_types"),
        ("event_types[3]", "event_types"),
        ("headers.X-Team", "headers"),
        ("max_retry_limit", "max_retry_limit"),
    ] {
        assert_eq!(FieldError::of(field, "").field, expected);
    }
}
