//! Tests the mapping of a Convoy project, as the API of Convoy returns it.

use super::*;

fn bundle() -> Value {
    json!({
        "project": {
            "uid": "01H0P", "name": "shop", "type": "outgoing",
            "config": {"signature": {
                "header": "X-Shop-Signature",
                "versions": [{"uid": "v", "hash": "SHA512", "encoding": "base64", "created_at": "2025-01-01T00:00:00Z"}]
            }}
        },
        "endpoints": [
            {
                "uid": "01H0E1", "project_id": "01H0P", "owner_id": "acme", "url": "https://acme.example/hook",
                "name": "Acme", "description": "orders", "status": "active", "http_timeout": 10, "rate_limit": 5000,
                "rate_limit_duration": 60, "advanced_signatures": false, "content_type": "application/json",
                "secrets": [
                    {"uid": "s1", "value": "old-secret-old-secret", "expires_at": "2025-06-01T00:00:00Z"},
                    {"uid": "s2", "value": "Vuk5LM0uujddIsqO5v_eSuz88", "expires_at": null, "deleted_at": null}
                ],
                "authentication": {
                    "type": "api_key", "api_key": {"header_name": "X-Key", "header_value": "v"}
                }
            },
            {
                "uid": "01H0E2", "project_id": "01H0P", "target_url": "https://globex.example/hook", "title": "Globex",
                "is_disabled": true, "advanced_signatures": true, "http_timeout": "15s",
                "secrets": [{"uid": "s3", "value": "another-secret-of-globex"}], "authentication": null
            },
            {"uid": "01H0E3", "project_id": "01H0P", "owner_id": "initech", "url": "https://initech.example/"}
        ],
        "subscriptions": [
            {
                "uid": "01H0S1", "name": "acme orders", "type": "api", "endpoint_metadata": {"uid": "01H0E1"},
                "filter_config": {"event_types": ["order.paid", "order.shipped"], "filter": {"body": {}, "headers": {}}},
                "source_metadata": null, "function": null, "rate_limit_config": {"count": 0, "duration": 0}
            },
            {
                "uid": "01H0S2", "name": "globex", "type": "api", "endpoint_metadata": {"uid": "01H0E2"},
                "filter_config": {"event_types": ["*"], "filter": {"body": {"amount": {"$gt": 100}}, "headers": {"x": 1}}},
                "filters": [
                    {"event_type": "order.paid", "body": {"a": 1}, "headers": {}, "enabled_at": "2025-01-01T00:00:00Z"},
                    {"event_type": "order.off", "body": {"a": 1}, "enabled_at": null}
                ],
                "function": "function transform(payload) { return payload }", "retry_config": {"retry_count": 3},
                "source_metadata": {"uid": "01H0R"}, "delivery_mode": "at_most_once"
            },
            {"uid": "01H0S3", "name": "debug", "type": "cli", "endpoint_metadata": {"uid": "01H0E1"}}
        ]
    })
}

#[test]
fn subscriptions_are_mapped_with_their_endpoints() {
    let plan = parse(&bundle(), None).expect("a plan");
    let [acme, globex] = &plan.entries[..] else { panic!("two entries") };
    assert_eq!(acme.desired.identity.to_string(), "convoy:01H0P:01H0S1 of tenant acme");
    assert_eq!(
        Value::from(acme.desired.fields.clone()),
        json!({
            "name": "acme orders", "description": "orders", "callback_url": "https://acme.example/hook", "active": true,
            "event_types": ["order.paid", "order.shipped"], "timeout": "10s", "secret": "Vuk5LM0uujddIsqO5v_eSuz88",
            "auth": {"api_key": {"header": "X-Key", "value": "v"}},
            "signatures": [{"hmac": {
                "header": "X-Shop-Signature", "algorithm": "sha512", "encoding": "base64", "content": "{body}",
                "value": "{signature}"
            }}]
        })
    );
    assert_eq!((acme.gaps.len(), &acme.notes[..]), (0, &["the rate limit of 5000 requests".to_owned()][..]));
    assert_eq!(globex.desired.identity.to_string(), "convoy:01H0P:01H0S2");
    let fields = &globex.desired.fields;
    assert_eq!((&fields["active"], &fields["timeout"]), (&false.into(), &"15s".into()));
    assert_eq!(
        fields["signatures"][0]["hmac"],
        json!({
            "header": "X-Shop-Signature", "algorithm": "sha512", "encoding": "base64",
            "content": "{timestamp},{body}", "value": "t={timestamp},v1={signature}"
        })
    );
    let gaps = globex.gaps.join("\n");
    for words in [
        "no tenant",
        "the filter on body and headers",
        "the filter on body of order.paid",
        "the function",
        "the source 01H0R",
        "at_most_once",
    ] {
        assert!(gaps.lines().any(|gap| gap.contains(words)), "{words} in\n{gaps}");
    }
    assert_eq!(globex.gaps.len(), 6, "{gaps}");
    assert!(globex.notes.concat().contains("the retry configuration"));
    let skipped: Vec<(&str, &str)> =
        plan.skipped.iter().map(|(identity, why)| (identity.uid.as_str(), why.as_str())).collect();
    assert_eq!(skipped[0], ("convoy:01H0P:01H0S3", "it belongs to the Convoy command line"));
    assert!(skipped[1].0 == "convoy:01H0P:01H0E3" && skipped[1].1.contains("no subscription"), "{skipped:?}");
    assert_eq!((skipped.len(), plan.notes.len()), (2, 0));
}

#[test]
fn default_signature_is_assumed_without_a_project() {
    let mut bundle = bundle();
    bundle["project"] = Value::Null;
    let plan = parse(&bundle, None).expect("a plan, whose project the endpoints name");
    let hmac = &plan.entries[0].desired.fields["signatures"][0]["hmac"];
    assert_eq!(
        (&hmac["header"], &hmac["algorithm"], &hmac["encoding"]),
        (&"X-Convoy-Signature".into(), &"sha256".into(), &"hex".into())
    );
    assert!(plan.notes.concat().contains("X-Convoy-Signature with SHA256"), "{:?}", plan.notes);
    assert!(
        parse(&bundle, Some("other")).expect("a plan").entries[0]
            .desired
            .identity
            .uid
            .starts_with("convoy:other:")
    );
}

#[test]
fn later_signature_versions_have_their_number() {
    let mut bundle = bundle();
    bundle["project"]["config"]["signature"]["versions"] =
        json!([{"hash": "SHA256", "encoding": "hex"}, {"hash": "SHA512", "encoding": "hex"}]);
    let plan = parse(&bundle, None).expect("a plan");
    let value = |place: usize| plan.entries[place].desired.fields["signatures"][0]["hmac"]["value"].clone();
    assert_eq!((value(0), value(1)), ("{signature}".into(), "t={timestamp},v2={signature}".into()));
    assert!(plan.entries[1].gaps.concat().contains("the signature versions before v2"));
}

#[test]
fn responses_of_the_api_are_accepted_as_they_are() {
    let mut whole = bundle();
    let last = json!({"has_next_page": false});
    for name in ["endpoints", "subscriptions"] {
        whole[name] = json!({"status": true, "data": {"content": whole[name], "pagination": last}});
    }
    whole["project"] = json!({"status": true, "data": whole["project"]});
    assert_eq!(parse(&whole, None), parse(&bundle(), None));
    whole["endpoints"]["data"]["pagination"]["has_next_page"] = true.into();
    let errors = parse(&whole, None).expect_err("an incomplete list");
    assert!(errors.concat().contains("endpoints is only one page"), "{errors:?}");
}

#[test]
fn wrong_bundles_are_refused_with_the_place() {
    for (bundle, messages) in [
        (json!([]), vec!["endpoints must be a list", "subscriptions must be a list"]),
        (json!({"endpoints": [], "subscriptions": []}), vec!["give its id with --project"]),
        (
            json!({"project": {"uid": "p"}, "endpoints": [], "subscriptions": [{"uid": "s"}, {}]}),
            vec![
                "subscriptions[0] has an endpoint that is not in endpoints",
                "subscriptions[1].uid must be text",
            ],
        ),
    ] {
        let errors = parse(&bundle, None).expect_err("an error");
        assert_eq!(errors.len(), messages.len(), "{errors:?}");
        for (error, message) in errors.iter().zip(messages) {
            assert!(error.contains(message), "{error}");
        }
    }
}
