//! Supplied secrets and keys of subscriptions in the API: signature formats, rotation, and the public keys for
//! receivers.

use crate::server::{TestApi, sealer};
use crate::subscription_patterns::{create, path, with_url};
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_core::request::Credentials;
use posthaste_core::signature::{Ed25519Key, SigningSecret, fingerprint};
use posthaste_core::subscription::Secrets;
use serde_json::{Value, json};
use std::time::Duration;

fn standard(byte: u8) -> String {
    SigningSecret::from_random([byte; 32]).reveal()
}

async fn secrets<S: Stores>(api: &TestApi<S>, subscription: &Value) -> Secrets {
    let id = SubscriptionId::from_store(subscription["id"].as_i64().expect("an id"));
    let loaded = api.h.store.subscriptions().load_subscription(id).await;
    loaded.expect("a result").expect("a subscription").1
}

/// Returns the live secrets, newest first.
async fn live<S: Stores>(api: &TestApi<S>, subscription: &Value) -> Vec<String> {
    let secrets = secrets(api, subscription).await;
    let open = |(place, sealed)| sealer().open(sealed, place).expect("a secret").reveal();
    secrets.live(api.clock.now()).map(open).collect()
}

pub(crate) async fn stored_credentials<S: Stores>(api: &TestApi<S>, subscription: &Value) -> Credentials {
    sealer().open_credentials(&secrets(api, subscription).await).expect("credentials")
}

pub(crate) async fn supplied_secrets_are_used<S: Stores>(api: &TestApi<S>) {
    let made = create(api, json!({"event_type": "a", "secret": standard(1)})).await;
    assert_eq!((&made["secret"], live(api, &made).await), (&standard(1).into(), vec![standard(1)]));
    assert_eq!(made["signatures"], json!(["standard"]));
    let text = json!({"event_type": "a", "signatures": [{"preset": "github"}], "secret": "a text of ours"});
    let github = create(api, text).await;
    assert_eq!(live(api, &github).await, ["a text of ours"]);
    // The formats that decode the secret cannot use this one.
    let patch = |body: Value| api.call("PATCH", &path(&github)).json(body.to_string());
    for signatures in [json!(["standard"]), json!([{"preset": "github"}, {"preset": "svix"}]), Value::Null] {
        let problem = patch(json!({"signatures": signatures})).refused(422, "signatures").await;
        assert!(!problem.to_string().contains("a text of ours"), "{problem}");
    }
    let both = json!([{"preset": "stripe"}, {"preset": "slack"}]);
    assert_eq!(patch(json!({"signatures": both})).expect(200).await["signatures"], both);
    let hmac = json!([{"hmac": {
        "header": "X-Sig", "algorithm": "sha512", "encoding": "hex", "content": "{timestamp}.{body}",
        "value": "v={signature}"
    }}]);
    let shown = patch(json!({"signatures": hmac})).expect(200).await;
    assert_eq!(shown["signatures"][0]["hmac"]["header"], "X-Sig");
    let rotate = format!("{}/rotate-secret", path(&github));
    api.post(&rotate).json(json!({"secret": standard(2), "overlap_s": 0}).to_string()).expect(200).await;
    assert_eq!(patch(json!({"signatures": null})).expect(200).await["signatures"], json!(["standard"]));
}

pub(crate) async fn bad_secrets_and_formats_are_refused_by_name<S: Stores>(api: &TestApi<S>) {
    let short = "whsec_c2hvcnQ=";
    let github = json!([{"preset": "github"}]);
    let rows = [
        ("secret", json!({"secret": "short"})),
        ("secret", json!({"secret": "not base64 at all"})),
        ("secret", json!({"secret": short})),
        ("secret", json!({"secret": short, "signatures": [{"preset": "svix"}]})),
        ("secret", json!({"secret": "short", "signatures": github})),
        ("secret", json!({"secret": "x".repeat(257), "signatures": github})),
        ("secret", json!({"secret": "broken\nsecret", "signatures": github})),
        ("secret", json!({"secret": "v2:0123456789", "signatures": github})),
        ("secret", json!({"secret": 7})),
        ("signing_key", json!({"signing_key": "whsk_c2hvcnQ="})),
        ("signing_key", json!({"signing_key": standard(1)})),
        ("signatures", json!({"signatures": []})),
        ("signatures", json!({"signatures": "standard"})),
        ("signatures", json!({"signatures": ["standard", "standard"]})),
        ("signatures", json!({"signatures": [{"preset": "other"}]})),
        (
            "signatures",
            json!({"signatures": ["standard", {"preset": "svix"}, {"preset": "github"}, "standard_ed25519"]}),
        ),
        (
            "signatures",
            json!({"signatures": [{"hmac": {
                "header": "webhook-signature", "algorithm": "sha256", "encoding": "hex", "content": "{body}",
            "value": "{signature}"
            }}]}),
        ),
    ];
    for (field, fields) in rows {
        let mut body = with_url(json!({"event_type": "a"}));
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let problem = api.post("/v1/subscriptions").json(body.to_string()).refused(422, field).await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.starts_with(field), "{detail}");
        assert!(
            !detail.contains(short) && !detail.contains("broken"),
            "a secret is never repeated: {detail}"
        );
    }
    assert_eq!(api.count("subscriptions").await, 0);
    let made = create(api, json!({"event_type": "a", "secret": standard(1)})).await;
    let rotate = format!("{}/rotate-secret", path(&made));
    for (field, body) in [
        ("secret", json!({"secret": short})),
        ("secret", json!({"secret": standard(1)})),
        ("signing_key", json!({"signing_key": "whsk_"})),
    ] {
        api.post(&rotate).json(body.to_string()).refused(422, field).await;
    }
    api.call("PATCH", &path(&made)).json(r#"{"secret":"a-new-secret"}"#).refused(422, "secret").await;
}

pub(crate) async fn three_secrets_are_live_during_rotations<S: Stores>(api: &TestApi<S>) {
    let made = create(api, json!({"event_type": "a", "secret": standard(1)})).await;
    let rotate = async |body: Value| {
        api.post(&format!("{}/rotate-secret", path(&made))).json(body.to_string()).expect(200).await
    };
    let rotated = rotate(json!({"secret": standard(2)})).await;
    assert_eq!(rotated["secret"], standard(2));
    assert_eq!(live(api, &made).await, [standard(2), standard(1)]);
    rotate(json!({"secret": standard(3), "overlap_s": 3_600})).await;
    assert_eq!(live(api, &made).await, [standard(3), standard(2), standard(1)]);
    rotate(json!({"secret": standard(4)})).await;
    assert_eq!(live(api, &made).await, [standard(4), standard(3), standard(2)], "the fourth one is dropped");
    api.clock.set(api.clock.now().after(Duration::from_secs(3_601)));
    assert_eq!(live(api, &made).await, [standard(4), standard(3)], "each one has its own overlap");
    rotate(json!({"secret": standard(5), "overlap_s": 60})).await;
    rotate(json!({"secret": standard(6), "overlap_s": 0})).await;
    assert_eq!(live(api, &made).await, [standard(6)]);
    assert_eq!(secrets(api, &made).await.older, None);
}

pub(crate) async fn public_keys_are_shown_to_receivers<S: Stores>(api: &TestApi<S>) {
    let well_known = |key: &str| {
        let name = fingerprint(key).expect("a public key");
        api.get(&format!("/.well-known/posthaste/keys/{name}")).no_key()
    };
    let made = create(api, json!({"event_type": "a"})).await;
    assert_eq!(made["public_key"], Value::Null);
    let both = json!({"signatures": ["standard", "standard_ed25519"]}).to_string();
    let changed = api.call("PATCH", &path(&made)).json(both.clone()).expect(200).await;
    let first = changed["public_key"].as_str().expect("a generated key").to_owned();
    assert_eq!(well_known(&first).expect(200).await, json!({"public_key": first}));
    let unchanged = api.call("PATCH", &path(&made)).json(both).expect(200).await;
    assert_eq!(unchanged, changed, "the key is created once");
    let without = api.call("PATCH", &path(&made)).json(r#"{"signatures":null}"#).expect(200).await;
    assert_eq!(without["public_key"], json!(first), "the key is kept for later");

    let own = Ed25519Key::from_seed([7; 32]);
    let body = json!({"event_type": "a", "signatures": ["standard_ed25519"], "signing_key": own.reveal()});
    let made = create(api, body).await;
    assert_eq!(made["public_key"], json!(own.public_key()));
    assert!(!made.to_string().contains("whsk_"), "{made}");
    let rotate = format!("{}/rotate-secret", path(&made));
    let rotated = api.post(&rotate).expect(200).await;
    let second = rotated["public_key"].as_str().expect("a key").to_owned();
    assert_ne!(second, own.public_key());
    let third = Ed25519Key::from_seed([8; 32]);
    api.post(&rotate).json(json!({"signing_key": third.reveal()}).to_string()).expect(200).await;
    well_known(&third.public_key()).expect(200).await;
    well_known(&second).refused(404, "").await;
    let keys = stored_credentials(api, &made).await.signing_keys;
    let expires: Vec<bool> = keys.iter().map(|key| key.expires_at.is_some()).collect();
    assert_eq!((expires, &keys[0].key), (vec![false, true, true], &third.reveal()));
    assert_eq!(keys[2].key, own.reveal());
    api.post(&rotate).json(r#"{"overlap_s":0}"#).expect(200).await;
    assert_eq!(stored_credentials(api, &made).await.signing_keys.len(), 1);
    for unknown in ["x", "0123456789012345678901", "a%2Fb", "%00"] {
        let path = format!("/.well-known/posthaste/keys/{unknown}");
        api.get(&path).no_key().refused(404, "").await;
    }
    api.call("DELETE", &path(&made)).expect(204).await;
    well_known(&third.public_key()).refused(404, "").await;
}

pub(crate) async fn a_replacement_keeps_secrets_that_it_does_not_name<S: Stores>(api: &TestApi<S>) {
    let put = |fields: Value| {
        let mut body = with_url(json!({"event_type": "a", "signatures": ["standard", "standard_ed25519"]}));
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        api.call("PUT", "/v1/subscriptions/uid/u").json(body.to_string())
    };
    let key = |byte| Ed25519Key::from_seed([byte; 32]).reveal();
    let full = json!({
        "secret": standard(1), "signing_key": key(1), "headers": {"X-Token": {"value": "tok-1", "secret": true}},
        "auth": {"bearer": {"token": "bear-1"}}
    });
    let made = put(full.clone()).expect(201).await;
    let tag = put(full).send().await.expect(200).header("etag").to_owned();
    assert_eq!(tag, format!("\"{}-1\"", made["id"]), "the same values are no change");
    let kept = json!({"headers": {"x-token": {"secret": true}, "X-A": "b"}, "auth": {"bearer": {}}});
    let replaced = put(kept.clone()).expect(200).await;
    assert_eq!(replaced["public_key"], made["public_key"]);
    assert_eq!(live(api, &made).await, [standard(1)]);
    let credentials = stored_credentials(api, &made).await;
    assert_eq!(credentials.headers["x-token"], "tok-1");
    assert_eq!((credentials.auth.as_deref(), credentials.signing_keys.len()), (Some("bear-1"), 1));

    let mut other = kept;
    (other["secret"], other["signing_key"]) = (standard(2).into(), key(2).into());
    let rotated = put(other).expect(200).await;
    assert_eq!(rotated["secret"], standard(2));
    assert_eq!(
        live(api, &made).await,
        [standard(2), standard(1)],
        "the replaced one remains valid for a day"
    );
    let credentials = stored_credentials(api, &made).await;
    assert_eq!((credentials.headers["x-token"].as_str(), credentials.signing_keys.len()), ("tok-1", 2));
    assert_eq!(credentials.signing_keys[0].key, key(2));
    let bare = put(json!({})).expect(200).await;
    assert_eq!((&bare["headers"], &bare["auth"]), (&json!({}), &Value::Null));
    let credentials = stored_credentials(api, &made).await;
    assert_eq!((credentials.headers.len(), credentials.auth, credentials.signing_keys.len()), (0, None, 2));
    assert_eq!(live(api, &made).await, [standard(2), standard(1)]);
    // A secret that the formats cannot use is refused before anything is changed.
    put(json!({"name": "n", "secret": "whsec_c2hvcnQ="})).refused(422, "secret").await;
    assert_eq!(api.get(&path(&made)).expect(200).await, bare);
}
