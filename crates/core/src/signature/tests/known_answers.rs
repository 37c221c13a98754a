//! Signatures that another program computed for the same keys and message: the modules `hmac`, `hashlib`, `base64` and
//! `uuid` of Python 3, and the Python package `cryptography` for Ed25519.

use super::*;

const ID: &str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W";
const TIMESTAMP_S: i64 = 1_674_087_231;
const BODY: &[u8] = br#"{"type":"contact.created","data":{"id":"1f81eb52"}}"#;

/// Base64 of 32 bytes of the value 7.
const NEWER: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const TEXT: &str = "correct horse battery staple";

#[track_caller]
fn check(signatures: &str, secrets: &[&str], ed25519: &[Ed25519Key], expected: &[(&str, &str)]) {
    let signatures = Signatures::parse(signatures).unwrap();
    let secrets: Vec<SigningSecret> = secrets.iter().map(|text| secret(text)).collect();
    for secret in &secrets {
        assert_eq!(secret.check_for(&signatures), Ok(()));
    }
    let headers = sign(&signatures, &Keys { secrets: &secrets, ed25519 }, &message(ID, TIMESTAMP_S, BODY));
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(headers, expected);
}

#[test]
fn standard_and_svix_sign_id_timestamp_and_body_with_each_secret() {
    // hmac.new(base64.b64decode(key), f"{ID}.{TIMESTAMP}.".encode() + BODY, "sha256"), in base64.
    const BOTH: &str =
        "v1,Wki09Ee/paPwCuuX26KyEvzSrJG26QuEJafUKRPNlYc= v1,QFpoCXyply1K+wNJ/mc2O0P+J5kH2YOzjoGQjn8w/ig=";
    let svix = [("svix-id", ID), ("svix-timestamp", "1674087231"), ("svix-signature", BOTH)];
    check(r#"["standard"]"#, &[NEWER, SECRET], &[], &[("webhook-signature", BOTH)]);
    check(r#"[{"preset": "svix"}]"#, &[NEWER, SECRET], &[], &svix);
    let [a, b, c] = svix;
    let all = [("webhook-signature", BOTH), a, b, c];
    check(r#"[{"preset": "svix"}, "standard"]"#, &[NEWER, SECRET], &[], &all);
}

#[test]
fn keys_longer_than_a_block_are_hashed_first() {
    // The key bytes(range(75)), without the prefix whsec_.
    let longest = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygp\
                   KissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElK";
    let expected = "v1,qtLmJAjUTGbxh5MYup/GuQ5M5TYEOymeL2I34KgrW+w=";
    check(r#"["standard"]"#, &[longest], &[], &[("webhook-signature", expected)]);
    // The key b"k" * 256 over the body alone.
    let rows = [
        ("sha1", "RM9ogfnDrWCPaUXHLl6JzRBTt0g="),
        ("sha256", "6d8MhWoGOlss5Hahtk0crXxUAJNsUpVhlFYTlEJ0u+I="),
        (
            "sha512",
            "xIQBL0aFi/zQKK5uRI9r+ntAePdhNtVOcIqFExvIvJ1hw5fNd9U0sz1447ObIav4hhjOPsbbHtCx68IUV5mW/Q==",
        ),
    ];
    for (algorithm, expected) in rows {
        let json = format!(
            r#"[{{"hmac": {{"header": "X-Sign", "algorithm": "{algorithm}", "encoding": "base64",
                "content": "{{body}}", "value": "{{signature}}"}}}}]"#
        );
        check(&json, &[&"k".repeat(256), SECRET], &[], &[("X-Sign", expected)]);
    }
}

#[test]
fn stripe_uses_the_text_of_each_secret() {
    // hmac.new(secret.encode(), f"{TIMESTAMP}.".encode() + BODY, "sha256").hexdigest()
    let value = "t=1674087231,v1=298448e1c9b2bdfbf4c6c0858ec780b20c2b5caceb4d9ea036b80d43a12f7162,\
                 v1=ce15e792f5997bbe3a7ff61e398fe72b13486123f213c8909469c5f6586c4cbf";
    check(r#"[{"preset": "stripe"}]"#, &[NEWER, SECRET], &[], &[("Stripe-Signature", value)]);
}

#[test]
fn github_shopify_and_slack_use_the_newest_secret() {
    // hmac.new(TEXT.encode(), BODY, "sha256"); the UUID from hashlib.sha256(ID.encode()).digest()[:16].
    let github = [
        ("X-Hub-Signature-256", "sha256=f3dbf5309e163fa5c4d5e875cff34f9247681fbdf0d07853031fa3620733e28f"),
        ("X-GitHub-Event", "contact.created"),
        ("X-GitHub-Delivery", "47848c7f-f82b-8187-94ec-6ee06513ee94"),
    ];
    check(r#"[{"preset": "github"}]"#, &[TEXT, SECRET], &[], &github);
    let shopify = [
        ("X-Shopify-Hmac-Sha256", "89v1MJ4WP6XE1eh1z/NPkkdoH73w0HhTAx+jYgcz4o8="),
        ("X-Shopify-Topic", "contact.created"),
        ("X-Shopify-Webhook-Id", ID),
    ];
    check(r#"[{"preset": "shopify"}]"#, &[TEXT, SECRET], &[], &shopify);
    // The content f"v0:{TIMESTAMP}:".encode() + BODY.
    let slack = [
        ("X-Slack-Signature", "v0=fb4474c597c83425d2102f454cb7e21533e3eebfba6c798d8bc617ae0b3e6734"),
        ("X-Slack-Request-Timestamp", "1674087231"),
    ];
    check(r#"[{"preset": "slack"}]"#, &[TEXT, SECRET], &[], &slack);
}

#[test]
fn custom_hmac_fills_its_templates() {
    // hmac.new(TEXT.encode(), f"{TIMESTAMP},".encode() + BODY + f";{ID}".encode(), algorithm).hexdigest()
    let rows = [
        ("sha1", "355ee1b6fbce184d71556e1f9028cec855c8384d"),
        ("sha256", "2f3210f525f05df011226861c5501cc417e90c9bcced38ae262d8f9858a81f9e"),
        (
            "sha512",
            "877ae6146dbfdad5634378ceeeac4ec925cecd8ec86aa2dc0a8b3eb18cccde5330a5d057c844c2ca51d4dd2aef91e925\
             f842b3cb4740d323ac434812a298a86f",
        ),
    ];
    for (algorithm, digits) in rows {
        let json = format!(
            r#"[{{"hmac": {{"header": "X-Acme-Signature", "algorithm": "{algorithm}", "encoding": "hex",
                "content": "{{timestamp}},{{body}};{{id}}", "value": "t={{timestamp}},i={{id}},s={{signature}}",
                "timestamp_header": "X-Acme-Time"}}}}]"#
        );
        let value = format!("t=1674087231,i={ID},s={digits}");
        check(&json, &[TEXT, SECRET], &[], &[("X-Acme-Signature", &value), ("X-Acme-Time", "1674087231")]);
    }
}

/// The first 32 bytes are 0 to 31; the others are their public key.
const PAIR: &str =
    "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==";
const SEED: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const PUBLIC: &str = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

#[test]
fn ed25519_keys_equal_those_of_another_library() {
    // Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key(), then hashlib.sha256 of its bytes.
    let key = Ed25519Key::from_seed(std::array::from_fn(|index| u8::try_from(index).unwrap()));
    assert_eq!(Ed25519Key::parse(PAIR).as_ref(), Ok(&key));
    assert_eq!(Ed25519Key::parse(SEED).as_ref(), Ok(&key));
    assert_eq!(key.reveal(), PAIR);
    assert_eq!(key.public_key(), PUBLIC);
    assert_eq!(Ed25519PublicKey::parse(PUBLIC).unwrap().to_string(), PUBLIC);
    assert_eq!(fingerprint(PUBLIC).as_deref(), Ok("Vkdap1RjR0wChd9dvyvKtz"));
    let other = Ed25519Key::from_seed([9; 32]).public_key();
    assert_eq!(fingerprint(&other).as_deref(), Ok("28KYJRxRMhtyZueNHBUcK2"));
}

#[test]
fn ed25519_signatures_follow_those_with_secrets() {
    // key.sign(f"{ID}.{TIMESTAMP}.".encode() + BODY) of the Python package cryptography.
    const FIRST: &str =
        "v1a,DQ/GKXtGIGkXUVUYb+H+JnKN/b3qzLxRISLewPJHW28oMX1va2r6wJwHMNZDsSlkspJpUzhMw0lFN9Syl5W0Dw==";
    const SECOND: &str =
        "v1a,Tgf2ZMIoJR/F83pfGjguGHUo+8L9b+0jrPVm3gf+MN4qLChMIk9rxCJGS2XMkUtKdZE0xGoL0mj51m6awRbiDg==";
    let keys = [Ed25519Key::parse(SEED).unwrap(), Ed25519Key::from_seed([9; 32])];
    let both = format!("{FIRST} {SECOND}");
    check(r#"["standard_ed25519"]"#, &[], &keys, &[("webhook-signature", &both)]);
    let after_secret = format!("v1,QFpoCXyply1K+wNJ/mc2O0P+J5kH2YOzjoGQjn8w/ig= {both}");
    for signatures in [r#"["standard", "standard_ed25519"]"#, r#"["standard_ed25519", "standard"]"#] {
        check(signatures, &[SECRET], &keys, &[("webhook-signature", &after_secret)]);
    }
    let public = Ed25519PublicKey::parse(PUBLIC).unwrap();
    let verified =
        verify_ed25519(&[public], ID, TIMESTAMP_S, BODY, &after_secret, MINUTES_5, at(TIMESTAMP_S));
    assert_eq!(verified, Ok(()));
}
