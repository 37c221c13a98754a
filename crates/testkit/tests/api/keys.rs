//! API keys in the API: creation, use and revocation.

use crate::server::TestApi;
use posthaste_core::ports::Stores;

pub(crate) async fn a_key_is_shown_once_and_revoked_for_good<S: Stores>(api: &TestApi<S>) {
    let made = api.post("/v1/keys").json(r#"{"name":"shop","role":"ingest"}"#).expect(201).await;
    let (id, key) = (&made["id"], made["key"].as_str().expect("a key").to_owned());
    assert!(key.starts_with("phk_") && key.len() == 47, "{key}");
    assert_eq!((&made["name"], &made["role"]), (&"shop".into(), &"ingest".into()));
    assert_eq!(made["created_at"], "2027-01-15T08:00:00.000000Z");
    let other = api.post("/v1/keys").json(r#"{"name":"shop","role":"ingest"}"#).expect(201).await;
    assert_ne!(other["key"], made["key"]);
    let event = r#"{"event_type":"a","payload":1}"#;
    api.post("/v1/events").key(&key).json(event).expect(202).await;
    let listed = api.get("/v1/keys").send().await;
    assert!(!listed.text().contains("phk_"), "{}", listed.text());
    let listed = listed.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(&listed["items"][0]["id"], id);
    // The last use is recorded asynchronously.
    let bound = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while api.get("/v1/keys").expect(200).await["items"][0]["last_used_at"].is_null() {
        assert!(std::time::Instant::now() < bound, "the use of the key was never recorded");
    }
    let path = format!("/v1/keys/{id}");
    api.call("DELETE", &path).expect(204).await;
    // The revocation takes effect immediately in the process that performed it.
    api.post("/v1/events").key(&key).json(event).refused(401, "").await;
    api.call("DELETE", &path).refused(404, "").await;
    assert!(api.get("/v1/keys").expect(200).await["items"][0]["revoked_at"].is_string());
    let stored = api.h.direct.texts("SELECT name FROM api_keys").await.join(" ");
    assert!(!stored.contains(&key));
}

pub(crate) async fn bad_keys_are_refused<S: Stores>(api: &TestApi<S>) {
    let long = format!(r#"{{"name":"{}","role":"viewer"}}"#, "n".repeat(201));
    for (body, status, field) in [
        ("", 400, ""),
        ("{", 400, ""),
        ("[]", 422, "body"),
        (r#"{"role":"viewer"}"#, 422, "name"),
        (r#"{"name":"","role":"viewer"}"#, 422, "name"),
        (r#"{"name":"a\u0000","role":"viewer"}"#, 422, "name"),
        (r#"{"name":7,"role":"viewer"}"#, 422, "name"),
        (long.as_str(), 422, "name"),
        (r#"{"name":"a"}"#, 422, "role"),
        (r#"{"name":"a","role":"king"}"#, 422, "role"),
        (r#"{"name":"a","role":"viewer","key":"mine"}"#, 422, "key"),
    ] {
        api.post("/v1/keys").json(body).refused(status, field).await;
    }
    api.call("DELETE", "/v1/keys/0").refused(422, "id").await;
    assert_eq!(api.count("api_keys").await, 0);
}
