//! Tests of the methods of authentication: rows of submitted JSON with the stored form, the header or the error.

use serde_json::{Value, json};

use super::{TOKEN_URL, certificate, key, parsed_auth, stored_auth};
use crate::request::{Auth, AuthInput, Credentials, RequestError};

#[test]
fn every_method_is_parsed_stored_and_sent() {
    let oauth2 =
        json!({"token_url": TOKEN_URL, "client_id": "c", "scope": "a https://x/.default", "audience": "api"});
    let rows = [
        (
            json!({"basic": {"username": "u"}}),
            "password",
            "pw:€",
            Some(("authorization", "Basic dTpwdzrigqw=")),
        ),
        (json!({"basic": {"username": "u"}}), "password", "", Some(("authorization", "Basic dTo="))),
        (json!({"bearer": {}}), "token", "abc.d==", Some(("authorization", "Bearer abc.d=="))),
        (json!({"api_key": {"header": "X-Api-Key"}}), "value", "k 1", Some(("X-Api-Key", "k 1"))),
        (json!({ "oauth2_client_credentials": oauth2 }), "client_secret", "s", None),
        (
            json!({"oauth2_client_credentials": {"token_url": TOKEN_URL, "client_id": "c"}}),
            "client_secret",
            "s",
            None,
        ),
        (json!({"mtls": {"certificate": certificate()}}), "key", &key("PRIVATE KEY"), None),
    ];
    for (public, member, secret, header) in rows {
        let mut full = public.clone();
        let (kind, members) = full.as_object_mut().unwrap().iter_mut().next().unwrap();
        members[member] = json!(secret);
        let kind = kind.clone();
        let input = AuthInput::parse(&full.to_string(), false).unwrap();
        assert!(!format!("{input:?}").contains(secret) || secret.len() < 2, "{input:?}");
        let (auth, merged) = input.merge(None, &Credentials::default()).unwrap();
        assert_eq!((merged.as_str(), auth.kind(), auth.secret_member()), (secret, kind.as_str(), member));
        assert_eq!(auth.to_json(), public.to_string());
        assert_eq!(Auth::from_store(&auth.to_json()).as_ref(), Ok(&auth));
        let sent = auth.header(secret);
        assert_eq!(sent, header.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if let Some((name, _)) = sent {
            assert_eq!(auth.header_name(), Some(name.as_str()));
        }

        let without = || AuthInput::parse(&public.to_string(), false).unwrap();
        let missing = RequestError::AuthSecretMissing { kind: auth.kind(), member: auth.secret_member() };
        assert_eq!(without().merge(None, &Credentials::default()), Err(missing.clone()));
        assert_eq!(without().merge(Some(&auth), &Credentials::default()), Err(missing.clone()));
        // A secret that is left over without a method is never used.
        assert_eq!(without().merge(None, &stored_auth("old")), Err(missing));
        let kept = without().merge(Some(&auth), &stored_auth("old"));
        assert_eq!(kept, Ok((auth, "old".to_owned())));
    }
}

#[test]
fn a_stored_secret_is_kept_for_the_same_method_and_token_server() {
    let oauth2 = |url: &str, client: &str| json!({"oauth2_client_credentials": {"token_url": url, "client_id": client}});
    let missing = |kind, member| Err(RequestError::AuthSecretMissing { kind, member });
    let rows = [
        (json!({"basic": {"username": "a"}}), json!({"basic": {"username": "b", "password": null}}), Ok(())),
        (json!({"api_key": {"header": "X-A"}}), json!({"api_key": {"header": "X-B"}}), Ok(())),
        (oauth2(TOKEN_URL, "a"), oauth2("https://AUTH.example:443/token", "b"), Ok(())),
        (
            oauth2(TOKEN_URL, "a"),
            oauth2("https://evil.example/token", "a"),
            Err(RequestError::AuthSecretOfOtherServer),
        ),
        (
            oauth2(TOKEN_URL, "a"),
            oauth2("https://auth.example/other", "a"),
            Err(RequestError::AuthSecretOfOtherServer),
        ),
        (json!({"bearer": {}}), json!({"basic": {"username": "a"}}), missing("basic", "password")),
        (json!({"basic": {"username": "a"}}), json!({"bearer": {}}), missing("bearer", "token")),
        (
            json!({"bearer": {}}),
            oauth2(TOKEN_URL, "a"),
            missing("oauth2_client_credentials", "client_secret"),
        ),
        (json!({"bearer": {}}), json!({"mtls": {"certificate": certificate()}}), missing("mtls", "key")),
    ];
    for (stored, new, expected) in rows {
        let merged = AuthInput::parse(&new.to_string(), false)
            .unwrap()
            .merge(Some(&parsed_auth(&stored)), &stored_auth("old"))
            .map(|(_, secret)| assert_eq!(secret, "old"));
        assert_eq!(merged, expected, "{stored} {new}");
    }
}

/// Checks that each method is refused for the expected reason, and that the error does not contain the secret.
fn check_refused(rows: &[(Value, &str)]) {
    for (input, expected) in rows {
        let error = AuthInput::parse(&input.to_string(), false).unwrap_err();
        assert!(error.to_string().contains(expected), "{input}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(error.field(), "auth");
    }
}

#[test]
fn invalid_methods_are_refused_with_a_reason() {
    let basic =
        |username: &str, password: &str| json!({"basic": {"username": username, "password": password}});
    let oauth2 = |member: &str, value: Value| {
        let mut members = json!({"token_url": TOKEN_URL, "client_id": "c"});
        members[member] = value;
        json!({ "oauth2_client_credentials": members })
    };
    let long = |bytes: usize| "x".repeat(bytes);
    let rows = [
        (json!([]), "auth must be a JSON object"),
        (json!({}), "auth must have exactly one member"),
        (json!({"basic": {}, "bearer": {}}), "got 2 members"),
        (json!({"digest": {}}), "mtls, got \"digest\""),
        (json!({"bearer": "hunter2"}), "auth.bearer must be a JSON object"),
        (json!({"bearer": {"tokne": "hunter2"}}), "auth.bearer must not contain \"tokne\""),
        (json!({"bearer": {"token": 7}}), "auth.bearer.token must be a string"),
        (json!({"bearer": {"token": ""}}), "auth.bearer.token must be 1 to 4096 visible"),
        (json!({"bearer": {"token": "hunter2 x"}}), "auth.bearer.token must be 1 to 4096 visible"),
        (json!({"bearer": {"token": "hunter2\n"}}), "auth.bearer.token must be 1 to 4096 visible"),
        (json!({"bearer": {"token": long(4_097)}}), "auth.bearer.token must be 1 to 4096 visible"),
        (json!({"basic": {"password": "hunter2"}}), "auth.basic.username is required"),
        (basic("a:b", "hunter2"), "auth.basic.username must be 1 to 1024 bytes"),
        (basic("", "hunter2"), "auth.basic.username must be 1 to 1024 bytes"),
        (basic("a\n", "hunter2"), "auth.basic.username must be"),
        (basic("a", "hunter2\0"), "auth.basic.password must be at most 4096 bytes"),
        (basic("a", &long(4_097)), "auth.basic.password must be at most 4096 bytes"),
        (json!({"api_key": {"value": "hunter2"}}), "auth.api_key.header is required"),
        (
            json!({"api_key": {"header": "X\r\nY", "value": "hunter2"}}),
            "auth.api_key.header must be a header",
        ),
        (json!({"api_key": {"header": "X-Y", "value": " hunter2"}}), "auth.api_key.value must be 1 to 4096"),
        (json!({"api_key": {"header": "X-Y", "value": ""}}), "auth.api_key.value must be 1 to 4096"),
        (oauth2("token_url", json!(null)), "oauth2_client_credentials.token_url is required"),
        (oauth2("token_url", json!("http://a.example/")), "token_url must be an https URL"),
        (oauth2("token_url", json!("/token")), "token_url must be an absolute URL"),
        (oauth2("token_url", json!("https://u:hunter2@a.example/")), "use client_id and client_secret"),
        (oauth2("token_url", json!("https://a.example/#f")), "token_url must be a URL without a fragment"),
        (oauth2("token_url", json!(format!("https://a/{}", long(2_000)))), "must be at most 2000 bytes"),
        (oauth2("client_id", json!("")), "client_id must be 1 to 1024 bytes"),
        (oauth2("client_secret", json!("hunter2\n")), "client_secret must be 1 to 4096 bytes"),
        (oauth2("scope", json!("a  b")), "scope must be words"),
        (oauth2("scope", json!("")), "scope must be words"),
        (oauth2("scope", json!("a\"b")), "scope must be words"),
        (oauth2("audience", json!(long(1_025))), "audience must be 1 to 1024 bytes"),
    ];
    check_refused(&rows);
    assert!(AuthInput::parse(&oauth2("token_url", json!("http://a.example/")).to_string(), true).is_ok());
}

#[test]
fn invalid_pem_is_refused_with_a_reason() {
    let long = |bytes: usize| "x".repeat(bytes);
    let mtls = |certificate: &str, key: &str| json!({"mtls": {"certificate": certificate, "key": key}});
    let both = certificate() + &key("PRIVATE KEY");
    check_refused(&[
        (json!({"mtls": {"key": key("PRIVATE KEY")}}), "auth.mtls.certificate is required"),
        (mtls("", ""), "certificate must be PEM that begins with"),
        (mtls("AAEC", ""), "certificate must be PEM that begins with"),
        (mtls("-----BEGIN CERTIFICATE-----\nAAEC\n", ""), "certificate must be PEM that begins with"),
        (mtls(&certificate().replace("AAEC", "A*EC"), ""), "certificate must be PEM that begins with"),
        (mtls(&certificate().replace("END C", "END X"), ""), "certificate must be PEM that begins with"),
        (mtls(&both, ""), "the private key belongs into key"),
        (mtls(&long(16_385), ""), "certificate must be at most 16384 bytes"),
        (
            mtls(&certificate().replace("AAEC", &"AAEC".repeat(4_080)), ""),
            "certificate must be at most 16384 bytes",
        ),
        (mtls(&certificate(), &long(8_193)), "auth.mtls.key must be at most 8192 bytes"),
        (mtls(&certificate(), ""), "auth.mtls.key must be PEM with exactly one"),
        (mtls(&certificate(), &certificate()), "auth.mtls.key must be PEM with exactly one"),
        (mtls(&certificate(), &key("ENCRYPTED PRIVATE KEY")), "not encrypted"),
        (mtls(&certificate(), &key("PRIVATE KEY").repeat(2)), "auth.mtls.key must be PEM with exactly one"),
    ]);
}

#[test]
fn pem_is_normalized() {
    let long = "AAEC".repeat(20);
    let chain = format!(
        "Bag Attributes\r\n  x: y\r\n-----BEGIN CERTIFICATE-----\r\n{long}\r\n-----END CERTIFICATE-----\r\n\n{}",
        certificate()
    );
    let expected = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n{}\n-----END CERTIFICATE-----\n{}",
        &long[..64],
        &long[64..],
        certificate()
    );
    let Auth::Mtls { certificate: parsed } = parsed_auth(&json!({"mtls": {"certificate": chain}})) else {
        panic!("mtls");
    };
    assert_eq!(parsed, expected);
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        let text = key("EC PARAMETERS") + &key(label);
        let input = json!({"mtls": {"certificate": certificate(), "key": text}});
        let input = AuthInput::parse(&input.to_string(), false).unwrap();
        assert_eq!(input.merge(None, &Credentials::default()).unwrap().1, key(label));
    }
}
