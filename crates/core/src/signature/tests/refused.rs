//! Input that is refused, with the error that the user receives: lists of formats, templates, secrets and keys.

use super::*;

fn custom(header: &str, content: &str, value: &str) -> String {
    let (header, content, value) =
        (serde_json::json!(header), serde_json::json!(content), serde_json::json!(value));
    format!(
        r#"{{"hmac": {{"header": {header}, "algorithm": "sha256", "encoding": "hex", "content": {content},
            "value": {value}}}}}"#
    )
}

fn x_sign() -> String {
    custom("X-Sign", "{body}", "{signature}")
}

#[test]
fn lists_of_formats_that_are_refused() {
    let list = |entries: &[&str]| format!("[{}]", entries.join(","));
    let rows = [
        (String::new(), "signatures must be a list: EOF"),
        ("null".to_owned(), "signatures must be a list: invalid type: null"),
        (r#""standard""#.to_owned(), "signatures must be a list: invalid type: string"),
        (r#"["standard"] x"#.to_owned(), "signatures must be a list: trailing characters"),
        (" ".repeat(4_097), "signatures must have at most 4096 bytes, got 4097"),
        ("[]".to_owned(), "signatures must have 1 to 3 entries, got 0"),
        (
            list(&[
                r#""standard""#,
                r#"{"preset":"svix"}"#,
                r#"{"preset":"slack"}"#,
                r#"{"preset":"stripe"}"#,
            ]),
            "signatures must have 1 to 3 entries, got 4",
        ),
        (r#"["none"]"#.to_owned(), "signatures[0] must be \"standard\", \"standard_ed25519\""),
        (r#"["Standard"]"#.to_owned(), "unknown variant `Standard`"),
        ("[7]".to_owned(), "signatures[0] must be \"standard\""),
        ("[{}]".to_owned(), "signatures[0] must be \"standard\""),
        (r#"["standard", null]"#.to_owned(), "signatures[1] must be \"standard\""),
        (r#"[{"preset":"svix","hmac":{}}]"#.to_owned(), "signatures[0] must be \"standard\""),
        (
            r#"["standard", {"preset":"paypal"}]"#.to_owned(),
            "signatures[1].preset must be svix, github, stripe, shopify or slack, got paypal",
        ),
        (r#"[{"preset":"Svix"}]"#.to_owned(), "got Svix"),
        (r#"[{"preset":["svix"]}]"#.to_owned(), "signatures[0] must be \"standard\""),
        (r#"["standard", "standard"]"#.to_owned(), "different headers, got webhook-signature twice"),
        (
            r#"["standard_ed25519", "standard", "standard_ed25519"]"#.to_owned(),
            "different headers, got webhook-signature twice",
        ),
        (
            r#"[{"preset":"slack"}, {"preset":"slack"}]"#.to_owned(),
            "different headers, got X-Slack-Signature twice",
        ),
        (list(&[&x_sign(), &x_sign().replace("X-Sign", "x-sIGN")]), "different headers, got x-sIGN twice"),
        (
            list(&[r#"{"preset":"github"}"#, &x_sign().replace("X-Sign", "x-github-delivery")]),
            "different headers, got x-github-delivery twice",
        ),
        (
            list(&[&x_sign().replace("\"value\"", "\"timestamp_header\":\"X-SIGN\",\"value\"")]),
            "different headers, got X-SIGN twice",
        ),
    ];
    for (json, expected) in rows {
        let error = Signatures::parse(&json).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}

#[test]
fn custom_formats_that_are_refused() {
    let with = |from: &str, to: &str| {
        let changed = x_sign().replace(from, to);
        assert_ne!(changed, x_sign(), "{from}");
        changed
    };
    let rows = [
        (r#"{"hmac":{}}"#.to_owned(), "missing field `header`"),
        (r#"{"hmac":"sha256"}"#.to_owned(), "invalid type: string"),
        (with("\"value\"", "\"key\":\"x\",\"value\""), "unknown field `key`"),
        (with("\"value\"", "\"header\":\"X-B\",\"value\""), "duplicate field `header`"),
        (with("sha256", "md5"), "signatures[0].hmac.algorithm must be sha1, sha256 or sha512, got md5"),
        (with("sha256", "SHA256"), "got SHA256"),
        (with("hex", "base32"), "signatures[0].hmac.encoding must be hex or base64, got base32"),
        (with("X-Sign", ""), "signatures[0].hmac.header must be the name of a header"),
        (with("X-Sign", "X Sign"), "got \"X Sign\""),
        (with("X-Sign", "X-Sign:"), "got \"X-Sign:\""),
        (with("X-Sign", "X-Sign\\r\\nX-Other"), "got \"X-Sign\\r\\nX-Other\""),
        (with("X-Sign", "X-S\u{ef}gn"), "must be the name of a header"),
        (with("X-Sign", &"x".repeat(101)), "must be the name of a header: 1 to 100 letters"),
        (
            with("\"value\"", "\"timestamp_header\":\"X T\",\"value\""),
            "signatures[0].hmac.timestamp_header must be the name of a header",
        ),
        (
            with("\"value\"", "\"timestamp_header\":\"Webhook-Timestamp\",\"value\""),
            "signatures[0].hmac.timestamp_header must not be Webhook-Timestamp, which is reserved",
        ),
    ];
    for (entry, expected) in rows {
        let error = Signatures::parse(&format!("[{entry}]")).unwrap_err().to_string();
        assert!(error.contains(expected), "{entry}: {error}");
    }
    let reserved = [
        "Host",
        "content-type",
        "Content-Digest",
        "connection",
        "Keep-Alive",
        "Transfer-Encoding",
        "TE",
        "trailer",
        "upgrade",
        "Authorization",
        "User-Agent",
        "expect",
        "proxy-authorization",
        "webhook-id",
        "Webhook-Signature",
        "webhook-request-origin",
        "svix-id",
        "ce-type",
        "Posthaste-Attempt",
        "traceparent",
        "tracestate",
        "cookie",
        "date",
        "accept",
        "accept-encoding",
    ];
    for name in reserved {
        let problem = FormatError::ReservedHeader { field: "header", got: name.to_owned() };
        let parsed = Signatures::parse(&format!("[{}]", custom(name, "{body}", "{signature}")));
        assert_eq!(parsed, Err(SignaturesError::Entry { index: 0, problem }), "{name}");
    }
    let longest = with("X-Sign", &"x".repeat(100));
    assert!(Signatures::parse(&format!("[{longest}]")).is_ok());
}

#[test]
fn templates_that_are_refused() {
    let long = format!("{{body}}{}", "x".repeat(195));
    let content = [
        ("", "must contain {body}"),
        ("body", "must contain {body}"),
        ("{id}.{timestamp}", "must contain {body}"),
        ("{body}.{body}", "must contain {body} only once"),
        (
            "{body}{signature}",
            "must contain only the placeholders {id}, {timestamp} and {body}, got {signature}",
        ),
        ("{body}{}", "got {}"),
        ("{Body}", "got {Body}"),
        ("{body }", "must contain only visible ASCII characters, got ' '"),
        ("{body}\n", "must contain only visible ASCII characters, got '\\n'"),
        ("{body}\u{e9}", "must contain only visible ASCII characters, got 'é'"),
        ("{body}{", "must have a matching brace for each brace"),
        ("{body", "must have a matching brace for each brace"),
        ("body}", "must have a matching brace for each brace"),
        ("}{body}", "must have a matching brace for each brace"),
        ("{id{body}", "must have a matching brace for each brace"),
        ("{{body}}", "must not contain {{ or }}: a literal brace is not supported"),
        ("{body}}", "must not contain {{ or }}: a literal brace is not supported"),
        (&long, "must have at most 200 characters, got 201"),
    ];
    for (text, expected) in content {
        let error = ContentTemplate::parse(text).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{text:?}: {error}");
        let in_list = Signatures::parse(&format!("[{}]", custom("X-Sign", text, "{signature}"))).unwrap_err();
        assert_eq!(in_list.to_string(), format!("signatures[0].hmac.content {error}"));
    }
    let value = [
        ("", "must contain {signature}"),
        ("v1={id}", "must contain {signature}"),
        (
            "{signature}{body}",
            "must contain only the placeholders {id}, {timestamp} and {signature}, got {body}",
        ),
        ("v1 {signature}", "must contain only visible ASCII characters, got ' '"),
        ("{signature}\r\nX-Other:1", "must contain only visible ASCII characters, got '\\r'"),
        ("{{signature}}", "must not contain {{ or }}: a literal brace is not supported"),
    ];
    for (text, expected) in value {
        let error = ValueTemplate::parse(text).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{text:?}: {error}");
        let in_list = Signatures::parse(&format!("[{}]", custom("X-Sign", "{body}", text))).unwrap_err();
        assert_eq!(in_list.to_string(), format!("signatures[0].hmac.value {error}"));
    }
    assert!(ContentTemplate::parse(&long[..200]).is_ok());
}

#[test]
fn secrets_that_are_refused() {
    // The limits count bytes: the third has four characters.
    for text in ["12345678", "correct horse", "üöäß", &"x".repeat(256)] {
        assert_eq!(secret(text).reveal(), text);
    }
    let rows = [
        (String::new(), BadSecret::Length(0)),
        ("1234567".to_owned(), BadSecret::Length(7)),
        ("x".repeat(257), BadSecret::Length(257)),
        (format!("{SECRET}\n"), BadSecret::Control),
        ("correct\0horse".to_owned(), BadSecret::Control),
        ("correct\u{85}horse".to_owned(), BadSecret::Control),
        ("v1:abcdefgh".to_owned(), BadSecret::Encrypted),
        ("v2:abcdefgh".to_owned(), BadSecret::Encrypted),
    ];
    for (text, expected) in rows {
        assert_eq!(SigningSecret::parse(&text), Err(expected), "{text:?}");
    }
}

#[test]
fn secrets_that_a_format_cannot_decode_are_refused() {
    let encoded = |bytes: usize| STANDARD.encode(vec![5; bytes]);
    let rows = [
        (encoded(24), Ok(())),
        (format!("whsec_{}", encoded(24)), Ok(())),
        (format!("whsec_{}", encoded(75)), Ok(())),
        (encoded(23), Err(BadSecret::KeyLength(23))),
        (format!("whsec_{}", encoded(23)), Err(BadSecret::KeyLength(23))),
        (format!("whsec_{}", encoded(76)), Err(BadSecret::KeyLength(76))),
        ("correct horse battery staple".to_owned(), Err(BadSecret::NotBase64)),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS".to_owned(), Err(BadSecret::NotBase64)),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-".to_owned(), Err(BadSecret::NotBase64)),
        ("whsec_whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La".to_owned(), Err(BadSecret::NotBase64)),
    ];
    let decoding = [r#"["standard"]"#, r#"[{"preset":"github"}, {"preset":"svix"}]"#];
    let others = [
        r#"["standard_ed25519"]"#.to_owned(),
        r#"[{"preset":"github"}, {"preset":"stripe"}, {"preset":"slack"}]"#.to_owned(),
        format!(r#"[{{"preset":"shopify"}}, {}]"#, x_sign()),
    ];
    for (text, expected) in rows {
        for signatures in decoding {
            let signatures = Signatures::parse(signatures).unwrap();
            assert_eq!(secret(&text).check_for(&signatures), expected, "{text}");
        }
        for signatures in &others {
            let signatures = Signatures::parse(signatures).unwrap();
            assert_eq!(secret(&text).check_for(&signatures), Ok(()), "{text}");
        }
    }
    assert_eq!(SigningSecret::from_random([9; 32]).check_for(&Signatures::default()), Ok(()));
}

#[test]
fn keys_that_are_refused() {
    let private = |bytes: &[u8]| format!("whsk_{}", STANDARD.encode(bytes));
    let pair = STANDARD.decode(Ed25519Key::from_seed([1; 32]).reveal().trim_start_matches("whsk_")).unwrap();
    let (seed, public) = pair.split_at(32);
    assert!(Ed25519Key::parse(&private(&pair)).is_ok());
    let rows = [
        (String::new(), BadSigningKey::NoPrefix),
        (STANDARD.encode(seed), BadSigningKey::NoPrefix),
        (format!("whpk_{}", STANDARD.encode(public)), BadSigningKey::NoPrefix),
        (format!("whsk_{}", STANDARD.encode(seed).trim_end_matches('=')), BadSigningKey::NotBase64),
        (private(seed) + "\n", BadSigningKey::NotBase64),
        (private(&[]), BadSigningKey::Length(0)),
        (private(&seed[..31]), BadSigningKey::Length(31)),
        (private(&pair[..33]), BadSigningKey::Length(33)),
        (private(&[&pair[..], b"x"].concat()), BadSigningKey::Length(65)),
        (private(&[public, seed].concat()), BadSigningKey::OtherPublicKey),
        (private(&[seed, seed].concat()), BadSigningKey::OtherPublicKey),
        (private(&[seed, &[0; 32]].concat()), BadSigningKey::OtherPublicKey),
    ];
    for (text, expected) in rows {
        assert_eq!(Ed25519Key::parse(&text), Err(expected), "{text:?}");
    }
    let public_key = |bytes: &[u8]| format!("whpk_{}", STANDARD.encode(bytes));
    assert!(Ed25519PublicKey::parse(&public_key(public)).is_ok());
    // No point of the curve has the y-coordinate 2.
    let no_point: [u8; 32] = std::array::from_fn(|index| if index == 0 { 2 } else { 0 });
    let rows = [
        (String::new(), BadPublicKey::NoPrefix),
        (private(seed), BadPublicKey::NoPrefix),
        ("whpk_?".to_owned(), BadPublicKey::NotBase64),
        (public_key(&public[1..]), BadPublicKey::NotBase64),
        (public_key(&pair), BadPublicKey::NotBase64),
        (public_key(&no_point), BadPublicKey::NotAPoint),
    ];
    for (text, expected) in rows {
        assert_eq!(Ed25519PublicKey::parse(&text), Err(expected), "{text:?}");
        assert_eq!(fingerprint(&text), Err(expected), "{text:?}");
    }
}
