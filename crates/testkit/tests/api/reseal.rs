//! Tests that the API encrypts stored secrets again, and reports those that it cannot decrypt.

use crate::server::{TestApi, sealer};
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_core::subscription::SecretColumn;
use posthaste_services::seal::{PlainSecrets, SealingKeys, SecretSealer};
use serde_json::{Value, json};

const PATH: &str = "/v1/subscriptions/reseal-secrets";

async fn create<S: Stores>(api: &TestApi<S>) -> (i64, String) {
    let body = r#"{"event_type":"a","callback_url":"https://receiver.example/hook"}"#;
    let made = api.post("/v1/subscriptions").json(body).expect(201).await;
    (made["id"].as_i64().expect("an id"), made["secret"].as_str().expect("a secret").to_owned())
}

async fn store_secret<S: Stores>(api: &TestApi<S>, id: i64, text: &str) {
    api.h.direct.run(&format!("UPDATE subscriptions SET secret = '{text}' WHERE id = {id}")).await;
}

async fn stored<S: Stores>(api: &TestApi<S>, id: i64) -> posthaste_core::subscription::Secrets {
    let loaded = api.h.store.subscriptions().load_subscription(SubscriptionId::from_store(id)).await;
    loaded.expect("a result").expect("a subscription").1
}

fn counts(answer: &Value) -> (u64, u64, u64) {
    let count = |name: &str| answer[name].as_u64().expect("a count");
    (count("examined"), count("outdated"), count("resealed"))
}

pub(crate) async fn outdated_secrets_are_resealed_and_unreadable_ones_reported<S: Stores>(api: &TestApi<S>) {
    let (plain, secret) = create(api).await;
    let (moved, _) = create(api).await;
    let (lost, _) = create(api).await;
    let (fine, _) = create(api).await;
    store_secret(api, plain, &secret).await;
    store_secret(api, moved, stored(api, fine).await.current.expose()).await;
    let keys = SealingKeys::parse(&"0b".repeat(32)).expect("a key");
    let other = SecretSealer::new(Some(keys), PlainSecrets::Accepted);
    let place = stored(api, lost).await.place(SecretColumn::Current);
    let signing = posthaste_core::signature::SigningSecret::from_random([7; 32]);
    store_secret(api, lost, other.seal(&signing, place, [7; 12]).expose()).await;

    let before = api.get(&format!("/v1/subscriptions/{plain}")).expect(200).await;
    let dry = api.post(PATH).json(r#"{"dry_run":true}"#).expect(200).await;
    assert_eq!((counts(&dry), &dry["dry_run"]), ((4, 1, 0), &true.into()), "{dry}");
    assert_eq!(stored(api, plain).await.current.expose(), secret, "a dry run changes nothing");
    let resealed = api.post(PATH).expect(200).await;
    assert_eq!(counts(&resealed), (4, 1, 1), "{resealed}");
    assert_eq!((&resealed["next_cursor"], &resealed["dry_run"]), (&Value::Null, &false.into()));
    assert_eq!(resealed["key_id"].as_str(), sealer().key_id());
    assert_eq!(resealed["missing_keys"], json!([other.key_id()]));
    let unreadable: Vec<i64> = resealed["unreadable"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["subscription_id"].as_i64().expect("an id"))
        .collect();
    assert_eq!(unreadable, [moved, lost], "{resealed}");
    let again = api.post(PATH).expect(200).await;
    assert_eq!(counts(&again), (4, 0, 0), "{again}");

    let secrets = stored(api, plain).await;
    let opened = sealer().open(&secrets.current, secrets.place(SecretColumn::Current));
    assert_eq!(opened.expect("a secret").reveal(), secret);
    assert!(secrets.current.expose().starts_with("v2:"));
    // The subscription has not changed, and one batch is one row of the audit.
    assert_eq!(api.get(&format!("/v1/subscriptions/{plain}")).expect(200).await, before);
    let audit = api.get("/v1/audit?action=secrets_resealed").expect(200).await;
    let rows = audit["items"].as_array().expect("rows");
    let after = json!({"count": 1, "first_id": plain, "last_id": plain, "key_id": sealer().key_id()});
    assert_eq!((rows.len(), &rows[0]["after"]), (1, &after), "{audit}");
    for bad in [r#"{"cursor":"x"}"#, r#"{"cursor":7}"#] {
        api.post(PATH).json(bad).refused(422, "cursor").await;
    }
    api.post(PATH).json(r#"{"dry_run":1}"#).refused(422, "dry_run").await;
    api.post(PATH).json(r#"{"check":true}"#).refused(422, "check").await;
}
