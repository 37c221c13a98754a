//! Tests of headers and credentials: rows of submitted JSON with the stored form or the error.

mod auth;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::time::Timestamp;

const TOKEN_URL: &str = "https://auth.example/token";

fn stored_headers() -> Credentials {
    let headers = BTreeMap::from([("x-token".to_owned(), "stored".to_owned())]);
    Credentials { headers, ..Credentials::default() }
}

fn stored_auth(secret: &str) -> Credentials {
    Credentials { auth: Some(secret.to_owned()), ..Credentials::default() }
}

fn headers(json: &Value) -> RequestHeaders {
    RequestHeadersInput::parse(&json.to_string()).unwrap().merge(&stored_headers()).unwrap().0
}

fn parsed_auth(json: &Value) -> Auth {
    AuthInput::parse(&json.to_string(), false).unwrap().into_auth()
}

fn certificate() -> String {
    "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n".to_owned()
}

fn key(label: &str) -> String {
    format!("-----BEGIN {label}-----\nAAEC\n-----END {label}-----\n")
}

#[test]
fn headers_are_split_into_public_part_and_secrets() {
    let input = json!({
        "X-Token": {"secret": true},
        "x-new": {"value": "fresh", "secret": true},
        "X-Team": "billing",
        "X-Empty": "",
        "Accept": {"value": "a b", "secret": false},
        "X-Plain": {"value": "c"},
    });
    let (headers, secrets) =
        RequestHeadersInput::parse(&input.to_string()).unwrap().merge(&stored_headers()).unwrap();
    let expected = concat!(
        r#"{"Accept":"a b","X-Empty":"","#,
        r#""x-new":{"secret":true},"X-Plain":"c","X-Team":"billing","X-Token":{"secret":true}}"#
    );
    assert_eq!(
        serde_json::from_str::<Value>(&headers.to_json()).unwrap(),
        serde_json::from_str::<Value>(expected).unwrap()
    );
    let pairs = [("x-new", "fresh"), ("x-token", "stored")];
    assert_eq!(secrets, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    assert_eq!(RequestHeaders::from_store(&headers.to_json()).as_ref(), Ok(&headers));

    let credentials = Credentials { headers: secrets, ..Credentials::default() };
    let sent = headers.with_secrets(&credentials).unwrap();
    let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("Accept", "a b"),
        ("X-Empty", ""),
        ("x-new", "fresh"),
        ("X-Plain", "c"),
        ("X-Team", "billing"),
        ("X-Token", "stored"),
    ];
    assert_eq!(sent, expected);
    let missing = headers.with_secrets(&Credentials::default());
    assert_eq!(missing, Err(RequestError::HeaderSecretMissing("x-new".to_owned())));
}

#[test]
fn a_secret_header_needs_a_new_or_a_stored_value() {
    let rows = [
        (r#"{"X-Token":{"secret":true}}"#, Ok("stored")),
        (r#"{"x-TOKEN":{"secret":true,"value":null}}"#, Ok("stored")),
        (r#"{"X-Token":{"secret":true,"value":"new"}}"#, Ok("new")),
        (r#"{"X-Other":{"secret":true}}"#, Err("X-Other")),
    ];
    for (text, expected) in rows {
        let merged = RequestHeadersInput::parse(text).unwrap().merge(&stored_headers());
        let value = merged.map(|(_, secrets)| secrets.into_values().collect::<Vec<_>>());
        let expected = expected
            .map(|value| vec![value.to_owned()])
            .map_err(|name| RequestError::HeaderSecretMissing(name.to_owned()));
        assert_eq!(value, expected, "{text}");
    }
    let plain = RequestHeadersInput::parse(r#"{"X-Token":"open"}"#).unwrap().merge(&stored_headers());
    assert!(plain.unwrap().1.is_empty());
}

#[test]
fn header_names_and_values_are_validated() {
    let many = |count: usize| {
        let entries = (0..count).map(|i| (format!("x-{i}"), json!("v")));
        Value::Object(entries.collect()).to_string()
    };
    let one = |name: &str, value: &str| json!({ name: value }).to_string();
    let name = |text: &str| Some(RequestError::HeaderName(crate::json_object::quoted(text)));
    let value = Some(RequestError::HeaderValue("X-A".to_owned()));
    let form = Some(RequestError::HeaderForm("X-A".to_owned()));
    let rows = [
        ("{}".to_owned(), None),
        (many(20), None),
        (many(21), Some(RequestError::TooManyHeaders(21))),
        (one(&"n".repeat(100), "v"), None),
        (one(&"n".repeat(101), "v"), name(&"n".repeat(101))),
        (one("!#$%&'*+-.^_`|~", "v"), None),
        (one("", "v"), name("")),
        (one("X-A\r\nX-B", "v"), name("X-A\r\nX-B")),
        (one("X-A\n", "v"), name("X-A\n")),
        (one("X A", "v"), name("X A")),
        (one("X-A:", "v"), name("X-A:")),
        (one("X-Ä", "v"), name("X-Ä")),
        (one("X-A\0", "v"), name("X-A\0")),
        (one("X-A", &"v".repeat(4_096)), None),
        (one("X-A", &"v".repeat(4_097)), value.clone()),
        (one("X-A", "a\r\nX-B: c"), value.clone()),
        (one("X-A", "a\nb"), value.clone()),
        (one("X-A", "a\tb"), value.clone()),
        (one("X-A", "a\u{7f}"), value.clone()),
        (one("X-A", "ä"), value.clone()),
        (one("X-A", " a"), value.clone()),
        (one("X-A", "a "), value.clone()),
        (one("X-A", "a ~!\"\\ b"), None),
        (json!({"X-A": {"value": "ä", "secret": true}}).to_string(), value),
        (
            json!({"X-A": {"value": "", "secret": true}}).to_string(),
            Some(RequestError::EmptySecretHeader("X-A".to_owned())),
        ),
        (json!({"X-A": 1}).to_string(), form.clone()),
        (json!({"X-A": null}).to_string(), form.clone()),
        (json!({"X-A": ["a"]}).to_string(), form.clone()),
        (json!({"X-A": {}}).to_string(), form.clone()),
        (json!({"X-A": {"secret": false}}).to_string(), form.clone()),
        (json!({"X-A": {"secret": "true", "value": "a"}}).to_string(), form.clone()),
        (json!({"X-A": {"value": 1}}).to_string(), form.clone()),
        (json!({"X-A": {"value": "a", "other": 1}}).to_string(), form.clone()),
        (r#"{"X-A":{"value":"a","value":"b"}}"#.to_owned(), form),
        (r#"{"X-A":"1","x-a":"2"}"#.to_owned(), Some(RequestError::DuplicateHeader("x-a".to_owned()))),
    ];
    for (text, expected) in rows {
        assert_eq!(RequestHeadersInput::parse(&text).err(), expected, "{text}");
    }
    let twice = RequestHeadersInput::parse(r#"{"X-A":"1","X-A":"2"}"#).unwrap_err();
    assert_eq!(twice.to_string(), r#"headers must not contain "X-A" twice"#);
    let list = RequestHeadersInput::parse(r#"["hunter2"]"#).unwrap_err();
    assert_eq!((list.to_string().as_str(), list.field()), ("headers must be a JSON object", "headers"));
    let form = RequestHeadersInput::parse(r#"{"X-A":1}"#).unwrap_err().to_string();
    let expected = r#"headers.X-A must be a string, {"value": "…", "secret": true}, or {"secret": true} to keep the stored value"#;
    assert_eq!(form, expected);
}

#[test]
fn reserved_headers_are_refused_in_any_case() {
    let rows = concat!(
        "host content-length content-type content-encoding transfer-encoding connection keep-alive te trailer upgrade ",
        "proxy-authorization Proxy-Connection user-agent expect webhook-id webhook-signature Webhook-Anything svix-id ",
        "ce-type CE-x posthaste-attempt traceparent tracestate webhook-request-origin HOST Content-Type"
    );
    for name in rows.split(' ') {
        let parsed = RequestHeadersInput::parse(&json!({ name: "v" }).to_string());
        assert_eq!(parsed, Err(RequestError::HeaderReserved(name.to_owned())), "{name}");
        let api_key =
            AuthInput::parse(&json!({"api_key": {"header": name, "value": "v"}}).to_string(), false);
        assert!(matches!(api_key, Err(RequestError::AuthMember { member: "header", .. })), "{name}");
        // A name that became reserved after it was stored can still be read.
        assert!(RequestHeaders::from_store(&json!({ name: "v" }).to_string()).is_ok());
    }
    for name in ["authorization", "accept", "date", "x-host", "hosts", "cookie", "webhooks"] {
        assert!(RequestHeadersInput::parse(&json!({ name: "v" }).to_string()).is_ok(), "{name}");
    }
}

#[test]
fn no_header_is_set_twice() {
    let basic = json!({"basic": {"username": "u"}});
    let api_key = json!({"api_key": {"header": "X-Api-Key"}});
    let mtls = json!({"mtls": {"certificate": certificate()}});
    let oauth2 = json!({"oauth2_client_credentials": {"token_url": TOKEN_URL, "client_id": "c"}});
    let signatures = ["Stripe-Signature".to_owned(), "x-api-key".to_owned()];
    let of_auth = |name: &str| Err(RequestError::HeaderOfAuth(name.to_owned()));
    let of_signature = |name: &str| Err(RequestError::HeaderOfSignature(name.to_owned()));
    let rows = [
        ("Authorization", None, &[][..], Ok(())),
        ("Authorization", Some(&basic), &[], of_auth("Authorization")),
        ("AUTHORIZATION", Some(&json!({"bearer": {}})), &[], of_auth("AUTHORIZATION")),
        ("authorization", Some(&oauth2), &[], of_auth("authorization")),
        ("Authorization", Some(&api_key), &[], Ok(())),
        ("Authorization", Some(&mtls), &[], Ok(())),
        ("x-api-KEY", Some(&api_key), &[], of_auth("x-api-KEY")),
        ("x-api-key", Some(&basic), &[], Ok(())),
        ("stripe-signature", None, &signatures, of_signature("stripe-signature")),
        ("X-Team", Some(&basic), &signatures, Ok(())),
        (
            "X-Team",
            Some(&api_key),
            &signatures,
            Err(RequestError::ApiKeyHeaderOfSignature("X-Api-Key".to_owned())),
        ),
    ];
    for (name, method, signatures, expected) in rows {
        let method = method.map(parsed_auth);
        let checked = check(&headers(&json!({ name: "v" })), method.as_ref(), signatures);
        assert_eq!(checked, expected, "{name} {method:?}");
    }
}

#[test]
fn credentials_are_stored_and_read() {
    let full = Credentials {
        headers: BTreeMap::from([
            ("x-b".to_owned(), "hunter2".to_owned()),
            ("x-a".to_owned(), "€".to_owned()),
        ]),
        auth: Some("hunter2".to_owned()),
        signing_keys: vec![
            StoredKey { key: "whsk_hunter2".to_owned(), expires_at: None },
            StoredKey { key: "whsk_hunter2old".to_owned(), expires_at: Some(Timestamp::from_micros(5)) },
        ],
    };
    let text = concat!(
        r#"{"auth":"hunter2","headers":{"x-a":"€","x-b":"hunter2"},"#,
        r#""signing_keys":[{"key":"whsk_hunter2"},{"expires_at_us":5,"key":"whsk_hunter2old"}]}"#
    );
    let empty_password = stored_auth("");
    let rows = [
        (Credentials::default(), "{}", true),
        (empty_password, r#"{"auth":""}"#, false),
        (full.clone(), text, false),
    ];
    for (credentials, text, is_empty) in rows {
        assert_eq!(credentials.to_json(), text);
        assert_eq!(credentials.is_empty(), is_empty);
        assert_eq!(Credentials::from_json(text), Ok(credentials));
    }
    let debug = format!("{full:?}");
    assert!(!debug.contains("hunter2") && debug.contains("x-a"), "{debug}");

    let newer =
        r#"{"auth":null,"headers":null,"later":[1],"signing_keys":[{"key":"k","expires_at_us":null,"z":1}]}"#;
    let keys = vec![StoredKey { key: "k".to_owned(), expires_at: None }];
    let expected = Credentials { signing_keys: keys, ..Credentials::default() };
    assert_eq!(Credentials::from_json(newer), Ok(expected));
    let rows = [
        ("", CredentialsError::NotAnObject),
        ("\"hunter2\"", CredentialsError::NotAnObject),
        (r#"{"auth":1}"#, CredentialsError::Member("auth")),
        (r#"{"headers":{"a":1}}"#, CredentialsError::Member("headers")),
        (r#"{"headers":[]}"#, CredentialsError::Member("headers")),
        (r#"{"signing_keys":["hunter2"]}"#, CredentialsError::Member("signing_keys")),
        (r#"{"signing_keys":[{"key":"k","expires_at_us":"x"}]}"#, CredentialsError::Member("signing_keys")),
    ];
    for (text, expected) in rows {
        assert_eq!(Credentials::from_json(text), Err(expected), "{text}");
    }
}

#[test]
fn debug_output_does_not_contain_secrets() {
    let text = r#"{"X-A":{"value":"hunter2","secret":true},"X-B":"hunter2"}"#;
    let debug = format!("{:?}", RequestHeadersInput::parse(text).unwrap());
    assert_eq!(debug, r#"RequestHeadersInput(["x-a", "x-b"])"#);
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = "(basic|bearer|api_key|oauth2_client_credentials|mtls|username|password|token|header|value|secret|\
                token_url|client_id|client_secret|scope|audience|certificate|key|X-[A-Z]|.{0,3})";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::from(TOKEN_URL)),
        "(-----(BEGIN|END) (CERTIFICATE|PRIVATE KEY)-----|AAEC|\n|.){0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 30, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name, inner), 0..5)
                .prop_map(|list| Value::Object(list.into_iter().collect())),
        ]
    })
}

fn parse_all(text: &str) {
    if let Ok(input) = RequestHeadersInput::parse(text)
        && let Ok((headers, _)) = input.merge(&Credentials::default())
    {
        assert_eq!(RequestHeaders::from_store(&headers.to_json()), Ok(headers));
    }
    if let Ok(input) = AuthInput::parse(text, true) {
        let auth = input.into_auth();
        assert_eq!(Auth::from_store(&auth.to_json()), Ok(auth));
    }
    if let Ok(credentials) = Credentials::from_json(text) {
        assert_eq!(Credentials::from_json(&credentials.to_json()), Ok(credentials));
    }
}

proptest! {
    #[test]
    fn any_json_is_parsed_without_panic(value in any_json()) {
        parse_all(&value.to_string());
    }

    #[test]
    fn any_text_is_parsed_without_panic(text in any::<String>()) {
        parse_all(&text);
    }
}
