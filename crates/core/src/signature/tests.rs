//! Tests of signing and verifying: rotation, tolerance, the reference implementation of Standard Webhooks, and
//! arbitrary input. The known answers and the refused inputs are in files of their own.

mod known_answers;
mod refused;

use std::slice;

use proptest::prelude::*;
use standardwebhooks::Webhook;

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const MINUTES_5: Duration = Duration::from_secs(300);

fn secret(text: &str) -> SigningSecret {
    SigningSecret::parse(text).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn message<'a>(id: &'a str, timestamp_s: i64, body: &'a [u8]) -> Message<'a> {
    Message { id, timestamp_s, event_type: "contact.created", body }
}

/// Returns the value of the `webhook-signature` header in the default format, or an empty text if there is none.
fn standard(secrets: &[SigningSecret], id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let keys = Keys { secrets, ed25519: &[] };
    let headers = sign(&Signatures::default(), &keys, &message(id, timestamp_s, body));
    headers.into_iter().map(|(name, value)| (name == WEBHOOK_SIGNATURE).then_some(value).unwrap()).collect()
}

#[test]
fn published_test_vectors_match() {
    let rows = [
        (
            SECRET,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1_649_367_553,
            r#"{"email":"test@example.com","username":"test_user"}"#,
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
    ];
    for (key, id, timestamp_s, body, expected) in rows {
        assert_eq!(standard(&[secret(key)], id, timestamp_s, body.as_bytes()), expected);
        let without_prefix = secret(key.trim_start_matches("whsec_"));
        assert_eq!(standard(&[without_prefix], id, timestamp_s, body.as_bytes()), expected);
    }
}

#[test]
fn each_valid_secret_signs_and_either_verifies() {
    let (old, new, other) =
        (secret(SECRET), SigningSecret::from_random([7; 32]), SigningSecret::from_random([8; 32]));
    let header = standard(&[new.clone(), old.clone()], "msg_1_2", 1000, b"{}");
    assert_eq!(header.split(' ').count(), 2);
    let check = |secrets: &[&SigningSecret], header: &str| {
        verify(secrets, "msg_1_2", 1000, b"{}", header, MINUTES_5, at(1000))
    };
    assert_eq!(check(&[&old], &header), Ok(()));
    assert_eq!(check(&[&new], &header), Ok(()));
    assert_eq!(check(&[&other, &new], &header), Ok(()));
    assert_eq!(check(&[&other], &header), Err(NotAuthentic::NoMatch));
    assert_eq!(check(&[], &header), Err(NotAuthentic::NoMatch));
    assert_eq!(check(&[&old], ""), Err(NotAuthentic::NoMatch));
    assert_eq!(check(&[&old], "v1, v2,x"), Err(NotAuthentic::NoMatch));
    // Signatures with unknown versions are ignored.
    assert_eq!(check(&[&old], &format!("v1a,x {header} v2,y")), Ok(()));
    // A secret without a key of Standard Webhooks matches no signature.
    assert_eq!(check(&[&secret("correct horse")], &header), Err(NotAuthentic::NoMatch));
    assert_eq!(check(&[&secret("correct horse")], ""), Err(NotAuthentic::NoMatch));
}

#[test]
fn any_change_of_the_message_is_detected() {
    let key = secret(SECRET);
    let signing = Ed25519Key::from_seed([3; 32]);
    let public = Ed25519PublicKey::parse(&signing.public_key()).unwrap();
    let both = Signatures::parse(r#"["standard", "standard_ed25519"]"#).unwrap();
    let keys = Keys { secrets: slice::from_ref(&key), ed25519: &[signing] };
    let headers = sign(&both, &keys, &message("msg_1_2", 1000, b"{\"a\":1}"));
    let [(_, header)] = headers.as_slice() else { panic!("one header: {headers:?}") };
    let rows: &[(&str, i64, &[u8], bool)] = &[
        ("msg_1_2", 1000, b"{\"a\":1}", true),
        ("msg_1_3", 1000, b"{\"a\":1}", false),
        ("msg_1_2", 1001, b"{\"a\":1}", false),
        ("msg_1_2", 1000, b"{\"a\":2}", false),
        ("msg_1_2", 1000, b"{\"a\":1} ", false),
    ];
    for (id, timestamp_s, body, unchanged) in rows {
        let expected = if *unchanged { Ok(()) } else { Err(NotAuthentic::NoMatch) };
        let verified = verify(&[&key], id, *timestamp_s, body, header, MINUTES_5, at(1000));
        assert_eq!(verified, expected, "{id} {timestamp_s}");
        let verified = verify_ed25519(&[public], id, *timestamp_s, body, header, MINUTES_5, at(1000));
        assert_eq!(verified, expected, "{id} {timestamp_s}");
    }
}

#[test]
fn tolerance_applies_to_past_and_future() {
    let key = secret(SECRET);
    let rows = [
        (1000, 1300, Ok(())),
        (1000, 1301, Err(NotAuthentic::TooOld)),
        (1300, 1000, Ok(())),
        (1301, 1000, Err(NotAuthentic::TooNew)),
        (i64::MIN, 0, Err(NotAuthentic::TooOld)),
        (i64::MAX, 0, Err(NotAuthentic::TooNew)),
    ];
    for (timestamp_s, now_s, expected) in rows {
        let header = standard(slice::from_ref(&key), "msg_1_2", timestamp_s, b"{}");
        let verified = verify(&[&key], "msg_1_2", timestamp_s, b"{}", &header, MINUTES_5, at(now_s));
        assert_eq!(verified, expected, "{timestamp_s} seen at {now_s}");
        let without_keys = verify_ed25519(&[], "msg_1_2", timestamp_s, b"{}", "", MINUTES_5, at(now_s));
        assert_eq!(without_keys, expected.and(Err(NotAuthentic::NoMatch)), "{timestamp_s} seen at {now_s}");
    }
    let header = standard(slice::from_ref(&key), "msg_1_2", i64::MIN, b"{}");
    assert_eq!(verify(&[&key], "msg_1_2", i64::MIN, b"{}", &header, Duration::MAX, at(-1)), Ok(()));
}

#[test]
fn either_ed25519_key_verifies_during_a_rotation() {
    let (new, old) = (Ed25519Key::from_seed([1; 32]), Ed25519Key::from_seed([2; 32]));
    let public = |key: &Ed25519Key| Ed25519PublicKey::parse(&key.public_key()).unwrap();
    let (public_new, public_old) = (public(&new), public(&old));
    let other = public(&Ed25519Key::from_seed([3; 32]));
    let only = Signatures::parse(r#"["standard_ed25519"]"#).unwrap();
    let keys = Keys { secrets: &[secret(SECRET)], ed25519: &[new, old] };
    let headers = sign(&only, &keys, &message("msg_1_2", 1000, b"{}"));
    let [(name, header)] = headers.as_slice() else { panic!("one header: {headers:?}") };
    assert_eq!(name, WEBHOOK_SIGNATURE);
    assert_eq!(header.split(' ').filter(|entry| entry.starts_with("v1a,")).count(), 2);
    let check = |keys: &[Ed25519PublicKey], header: &str| {
        verify_ed25519(keys, "msg_1_2", 1000, b"{}", header, MINUTES_5, at(1000))
    };
    assert_eq!(check(&[public_new], header), Ok(()));
    assert_eq!(check(&[public_old], header), Ok(()));
    assert_eq!(check(&[other, public_old], &format!("v1,x {header}")), Ok(()));
    assert_eq!(check(&[other], header), Err(NotAuthentic::NoMatch));
    assert_eq!(check(&[public_new], &header.replace("v1a,", "v1,")), Err(NotAuthentic::NoMatch));
    assert_eq!(check(&[public_new], "v1a,"), Err(NotAuthentic::NoMatch));
}

#[test]
fn a_format_without_a_usable_key_adds_no_header() {
    let all = [
        r#"["standard", "standard_ed25519", {"preset": "svix"}]"#,
        r#"[{"preset": "github"}, {"preset": "stripe"}, {"preset": "shopify"}]"#,
        r#"[{"preset": "slack"}, {"hmac": {"header": "X-S", "algorithm": "sha1", "encoding": "hex",
            "content": "{body}", "value": "{signature}", "timestamp_header": "X-T"}}]"#,
    ];
    for json in all {
        let signatures = Signatures::parse(json).unwrap();
        let headers = sign(&signatures, &Keys::default(), &message("msg_1_2", 1000, b"{}"));
        assert_eq!(headers, [], "{json}");
    }
    let undecodable = [secret("correct horse battery staple"), secret(SECRET)];
    assert_eq!(standard(&undecodable[..1], "msg_1_2", 1000, b"{}"), "");
    let usable = standard(&undecodable[1..], "msg_1_2", 1000, b"{}");
    assert_eq!(standard(&undecodable, "msg_1_2", 1000, b"{}"), usable);
}

#[test]
fn header_names_are_those_of_the_signed_request() {
    let rows = [
        (r#"["standard"]"#, vec!["webhook-signature"], false, true),
        (r#"["standard_ed25519"]"#, vec!["webhook-signature"], true, false),
        (r#"["standard_ed25519", "standard"]"#, vec!["webhook-signature"], true, true),
        (
            r#"[{"preset": "svix"}, "standard_ed25519"]"#,
            vec!["svix-id", "svix-timestamp", "svix-signature", "webhook-signature"],
            true,
            true,
        ),
        (
            r#"[{"preset": "github"}, {"preset": "shopify"}, {"preset": "slack"}]"#,
            vec![
                "x-hub-signature-256",
                "x-github-event",
                "x-github-delivery",
                "x-shopify-hmac-sha256",
                "x-shopify-topic",
                "x-shopify-webhook-id",
                "x-slack-signature",
                "x-slack-request-timestamp",
            ],
            false,
            true,
        ),
        (
            r#"[{"preset": "stripe"}, {"hmac": {"header": "X-Sign", "algorithm": "sha1", "encoding": "hex",
                "content": "{body}", "value": "{signature}", "timestamp_header": "X-Time"}}]"#,
            vec!["stripe-signature", "x-sign", "x-time"],
            false,
            true,
        ),
    ];
    for (json, names, uses_ed25519, uses_secret) in rows {
        let signatures = Signatures::parse(json).unwrap();
        assert_eq!(signatures.header_names(), names, "{json}");
        assert_eq!(signatures.uses_ed25519(), uses_ed25519, "{json}");
        assert_eq!(signatures.uses_secret(), uses_secret, "{json}");
        let keys = Keys { secrets: &[secret(SECRET)], ed25519: &[Ed25519Key::from_seed([1; 32])] };
        let mut sent: Vec<String> = sign(&signatures, &keys, &message("msg_1_2", 1000, b"{}"))
            .into_iter()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        let mut names = signatures.header_names();
        sent.sort_unstable();
        names.sort_unstable();
        assert_eq!(sent, names, "{json}");
        assert_eq!(Signatures::parse(&signatures.to_json()), Ok(signatures.clone()), "{json}");
        assert_eq!(Signatures::from_store(&signatures.to_json()), signatures, "{json}");
    }
}

#[test]
fn stored_formats_are_read_without_the_rules_for_new_ones() {
    assert_eq!(Signatures::default().to_json(), r#"["standard"]"#);
    for unreadable in ["", "null", "[]", "[1]", r#"["standard", {"preset": "future"}]"#] {
        assert_eq!(Signatures::from_store(unreadable), Signatures::default(), "{unreadable:?}");
    }
    let reserved = r#"[{"hmac": {"header": "Authorization", "algorithm": "sha256", "encoding": "hex",
        "content": "{body}", "value": "{signature}"}}]"#;
    assert!(Signatures::parse(reserved).is_err());
    assert_eq!(Signatures::from_store(reserved).header_names(), ["authorization"]);
    assert!(!Signatures::from_store(reserved).to_json().contains("timestamp_header"));
}

#[test]
fn secrets_and_keys_are_compared_and_not_printed() {
    assert_eq!(secret(SECRET), secret(SECRET));
    assert_ne!(secret(SECRET), secret(&format!("{SECRET}=")));
    assert_eq!(secret(SECRET).reveal(), SECRET);
    assert_eq!(format!("{:?}", secret(SECRET)), "SigningSecret(…)");
    let key = Ed25519Key::from_seed([1; 32]);
    assert_eq!(key, Ed25519Key::parse(&key.reveal()).unwrap());
    assert_ne!(key, Ed25519Key::from_seed([2; 32]));
    assert_eq!(format!("{key:?}"), "Ed25519Key(…)");
    let keys = format!("{:?}", Keys { secrets: &[secret(SECRET)], ed25519: &[key] });
    assert_eq!(keys, "Keys { secrets: [SigningSecret(…)], ed25519: [Ed25519Key(…)] }");
}

/// Text that is often almost a template or a JSON list of formats.
fn near(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => proptest::sample::select(parts).prop_map(str::to_owned), 1 => ".{0,3}"];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn list(entries: Vec<serde_json::Value>) -> String {
    serde_json::Value::from(entries).to_string()
}

/// A JSON value that is often a format.
fn near_format() -> impl Strategy<Value = serde_json::Value> {
    let one_of = |texts: &'static [&'static str]| {
        let known = proptest::sample::select(texts).prop_map(str::to_owned);
        prop_oneof![6 => known, 1 => ".{0,9}"]
    };
    let named = one_of(&["standard", "standard_ed25519"]).prop_map(serde_json::Value::from);
    let preset = one_of(&["svix", "github", "stripe", "shopify", "slack"])
        .prop_map(|name| serde_json::json!({ "preset": name }));
    let custom = (
        one_of(&["X-Sign", "x-sign", "X-Other", "svix-id", "host"]),
        one_of(&["sha1", "sha256", "sha512"]),
        one_of(&["hex", "base64"]),
        near(&["{id}", "{timestamp}", "{body}", "."]),
        near(&["{id}", "{timestamp}", "{signature}", "v1="]),
        proptest::option::of(one_of(&["X-Time", "x-sign", "webhook-timestamp"])),
    );
    let custom = custom.prop_map(|(header, algorithm, encoding, content, value, timestamp_header)| {
        serde_json::json!({ "hmac": {
            "header": header,
            "algorithm": algorithm,
            "encoding": encoding,
            "content": content,
            "value": value,
            "timestamp_header": timestamp_header,
        }})
    });
    prop_oneof![named, preset, custom]
}

const TEMPLATE_PARTS: &[&str] =
    &["{id}", "{timestamp}", "{body}", "{signature}", "{", "}", "{{", "}}", "{ body}", ".", "v1=", "\u{e9}"];
const JSON_PARTS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"standard\"",
    "\"standard_ed25519\"",
    "{\"preset\":\"github\"}",
    "\"preset\"",
    "{\"hmac\":{",
    "\"header\":\"X\"",
    "\"content\":\"{body}\"",
    "null",
    "1e999",
    "\"\\ud800\"",
];

proptest! {
    #[test]
    fn signature_equals_that_of_the_reference_crate_and_verifies(
        key in proptest::collection::vec(any::<u8>(), STANDARD_KEY_BYTES_MIN..=STANDARD_KEY_BYTES_MAX),
        id in "[ -~]{1,40}",
        timestamp_s in -62_000_000_000_i64..253_000_000_000,
        body in ".{0,200}",
    ) {
        let ours = secret(&format!("whsec_{}", STANDARD.encode(key)));
        let theirs = Webhook::new(&ours.reveal()).unwrap();
        let header = standard(slice::from_ref(&ours), &id, timestamp_s, body.as_bytes());
        let reference = theirs.sign(&id, timestamp_s, body.as_bytes()).unwrap();
        prop_assert_eq!(&header, &reference);
        let now = at(timestamp_s);
        prop_assert_eq!(verify(&[&ours], &id, timestamp_s, body.as_bytes(), &reference, MINUTES_5, now), Ok(()));
    }

    #[test]
    fn any_header_is_verified_without_panic(
        header in prop_oneof![".{0,100}", "(v1a?,[A-Za-z0-9+/]{0,90}=* ?){0,3}"],
        timestamp_s in any::<i64>(),
        body in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let key = secret(SECRET);
        prop_assert!(verify(&[&key], "msg_1_2", timestamp_s, &body, &header, MINUTES_5, at(0)).is_err());
        let public = Ed25519PublicKey::parse(&Ed25519Key::from_seed([4; 32]).public_key()).unwrap();
        let verified = verify_ed25519(&[public], "msg_1_2", timestamp_s, &body, &header, MINUTES_5, at(0));
        prop_assert!(verified.is_err());
    }

    #[test]
    fn any_text_of_formats_is_parsed_without_panic(
        text in prop_oneof![near(JSON_PARTS), ".{0,60}", proptest::collection::vec(near_format(), 0..5).prop_map(list)],
    ) {
        let stored = Signatures::from_store(&text);
        if let Ok(signatures) = Signatures::parse(&text) {
            prop_assert_eq!(&signatures, &stored);
            prop_assert_eq!(&Signatures::parse(&signatures.to_json()).unwrap(), &signatures);
        }
        let keys = Keys { secrets: &[secret(SECRET)], ed25519: &[] };
        sign(&stored, &keys, &message("msg_1_2", 1000, b"{}"));
    }

    #[test]
    fn any_secret_is_parsed_and_used_without_panic(text in prop_oneof![".{0,260}", "(whsec_)?[A-Za-z0-9+/]{0,110}=*"]) {
        let Ok(parsed) = SigningSecret::parse(&text) else { return Ok(()) };
        prop_assert_eq!(&parsed.reveal(), &text);
        let usable = parsed.check_for(&Signatures::default()).is_ok();
        let secrets = [parsed];
        prop_assert_eq!(!standard(&secrets, "msg_1_2", 1000, b"{}").is_empty(), usable);
        let others = Signatures::parse(r#"[{"preset": "stripe"}, {"preset": "github"}, "standard_ed25519"]"#).unwrap();
        prop_assert_eq!(secrets[0].check_for(&others), Ok(()));
        let headers = sign(&others, &Keys { secrets: &secrets, ed25519: &[] }, &message("msg_1_2", 1000, b"{}"));
        prop_assert_eq!(headers.len(), 4);
    }

    #[test]
    fn any_key_is_parsed_without_panic(text in prop_oneof![".{0,100}", "wh[sp]k_[A-Za-z0-9+/]{0,100}=*"]) {
        if let Ok(key) = Ed25519Key::parse(&text) {
            prop_assert_eq!(Ed25519Key::parse(&key.reveal()), Ok(key));
        }
        if let Ok(key) = Ed25519PublicKey::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn any_template_is_parsed_without_panic(text in prop_oneof![near(TEMPLATE_PARTS), ".{0,220}"]) {
        if let Ok(template) = ContentTemplate::parse(&text) {
            prop_assert_eq!(template.to_string(), &text[..]);
            let message = message("msg_1", 5, b"\xff");
            let filled = template.pieces(&message, "5").collect::<Vec<_>>().concat();
            let expected = text.replace("{id}", "msg_1").replace("{timestamp}", "5");
            let (before, after) = expected.split_once("{body}").unwrap();
            prop_assert_eq!(filled, [before.as_bytes(), b"\xff", after.as_bytes()].concat());
        }
        if let Ok(template) = ValueTemplate::parse(&text) {
            prop_assert_eq!(template.to_string(), &text[..]);
            let filled = template.fill(&message("msg_1", 5, b"\xff"), "5", "ab");
            let expected = text.replace("{id}", "msg_1").replace("{timestamp}", "5").replace("{signature}", "ab");
            prop_assert_eq!(filled, expected);
        }
    }
}
