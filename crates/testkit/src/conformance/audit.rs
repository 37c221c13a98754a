//! Checks that every change by a person is audited in the transaction of the change.

use crate::fixtures::{T0, URL, actor, at, callback, created, rotation, secret_ref, updated};
use crate::harness::Harness;
use posthaste_core::audit::{Actor, AuditAction, OperatorAuditEntry, OperatorAuditFilter};
use posthaste_core::ports::{
    DeadLetterStore as _, FailedSignIns, KeyHash, KeyRole, KeyStore as _, PageRequest, ReaderStore as _,
    ResealedSecrets, Rotated, SecretRotation, StoreError, Stores, SubscriptionStore as _, Updated,
    Verification,
};
use posthaste_core::subscription::{NewSubscription, SealedSecret, Secrets, SubscriptionPatch};
use posthaste_core::{DeadLetterId, KeyId, SubscriptionId};
use serde_json::{Value, json};

const HOOK: &str = "https://receiver.example/hook";

fn ann() -> Actor {
    Actor::key(KeyId::from_store(7), "ann", Some("192.0.2.7".parse().expect("an address")))
}

fn subscription() -> NewSubscription {
    NewSubscription {
        callback_url: callback(HOOK),
        description: Some("the shop".to_owned()),
        secret: SealedSecret::new("a-signing-secret"),
        ..crate::fixtures::subscription("audited")
    }
}

fn challenged(secret: &str) -> Verification {
    Verification::challenge(callback(HOOK), SealedSecret::new(secret))
}

/// Returns the replacement of the current secret of a subscription by `secret`, as if it were encrypted again.
async fn resealed<S: Stores>(h: &Harness<S>, id: SubscriptionId, secret: &str) -> ResealedSecrets {
    let loaded = h.calm.subscriptions().load_subscription(id).await.expect("a result");
    let (_, before) = loaded.expect("a subscription");
    let previous = before.previous.as_ref().map(|(secret, _)| secret.clone());
    ResealedSecrets {
        id,
        before,
        current: SealedSecret::new(secret),
        previous,
        older: None,
        credentials: None,
    }
}

fn other_secrets() -> Secrets {
    Secrets {
        secret_ref: secret_ref(),
        current: SealedSecret::new("another"),
        previous: None,
        older: None,
        credentials: None,
    }
}

fn pause() -> SubscriptionPatch {
    SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() }
}

async fn letter<S: Stores>(h: &Harness<S>, kind: &str) -> DeadLetterId {
    let (_, _, letter) = h.dead_letter(kind).await;
    letter
}

/// Returns all audit entries, oldest first.
async fn entries<S: Stores>(h: &Harness<S>) -> Vec<OperatorAuditEntry> {
    let (filter, page) = (OperatorAuditFilter::default(), PageRequest::first(200));
    let page = h.sure(async || h.store.reader().operator_audit(filter, page).await).await;
    assert_eq!(page.next, None);
    page.items.into_iter().rev().collect()
}

/// Returns the action, the object, and the values before and after the change.
fn summary(entry: &OperatorAuditEntry) -> (&str, &str, Value, Value) {
    let json = |text: Option<&posthaste_core::json::JsonText>| {
        text.map_or(Value::Null, |text| serde_json::from_str(text.as_str()).expect("JSON"))
    };
    (&entry.action, &entry.object, json(entry.before.as_ref()), json(entry.after.as_ref()))
}

pub async fn every_change_is_audited<S: Stores>(h: &Harness<S>) {
    let (keys, admin) = (h.calm.keys(), h.calm.subscriptions());
    let letters = [letter(h, "one").await, letter(h, "two").await, letter(h, "three").await];
    let arranged = entries(h).await.len();

    let hash = KeyHash([7; 32]);
    let key =
        keys.create_key("bob".to_owned(), KeyRole::Viewer, None, hash, ann(), at(1)).await.expect("a key");
    assert!(keys.revoke_key(key.id, ann(), at(2)).await.expect("a result"));
    let id = created(admin.create_subscription(subscription(), ann(), at(3)).await).id;
    let verified = admin.mark_verified(id, challenged("a-signing-secret"), ann(), at(4)).await;
    assert!(verified.expect("a result"));
    updated(admin.update_subscription(id, pause(), None, ann(), at(5)).await);
    let to_second = rotation("a-signing-secret", "a-second-secret", at(100));
    let rotated = admin.rotate_secret(id, to_second, ann(), at(6)).await.expect("a result");
    assert!(matches!(rotated, Rotated::Rotated(_)), "{rotated:?}");
    let at_once = SecretRotation { previous: None, ..rotation("a-second-secret", "a-third-secret", at(0)) };
    let rotated = admin.rotate_secret(id, at_once, ann(), at(6)).await.expect("a result");
    assert!(matches!(rotated, Rotated::Rotated(_)), "{rotated:?}");
    let resealed = resealed(h, id, "a-third-secret again").await;
    let stored = admin.reseal_secrets(vec![resealed], "72cd6e84".to_owned(), ann(), at(6)).await;
    assert_eq!(stored.expect("a result"), [id]);
    assert!(admin.delete_subscription(id, ann(), at(7)).await.expect("a result"));
    let operator = h.calm.dead_letters();
    operator.requeue_dead_letters(vec![letters[0]], ann(), at(8)).await.expect("a result");
    operator.requeue_dead_letters(letters.to_vec(), ann(), at(9)).await.expect("a result");
    h.direct.run("UPDATE outbox_lane SET faults_in_row = 7").await;
    operator.resume_lane(ann(), at(10)).await.expect("a result");
    keys.record_sign_in(ann(), at(10)).await.expect("a row");
    let failed = FailedSignIns { address: ann().address, count: 300 };
    keys.record_failed_sign_ins(failed, at(11)).await.expect("a row");

    let found = entries(h).await.split_off(arranged);
    let (key, object) = (format!("keys/{}", key.id), format!("subscriptions/{id}"));
    let whole = |active: bool, verified: bool| {
        json!({
            "tenant": null, "uid": null, "name": null, "metadata": {}, "event_types": ["audited"], "filter": null,
            "callback_url": HOOK, "active": active, "verified": verified, "max_retry_limit": null, "timeout": null,
            "description": "the shop", "signatures": ["standard"], "public_key": null, "headers": {}, "auth": null,
            "envelope": "raw"
        })
    };
    let bob = json!({"name": "bob", "role": "viewer", "tenant": null});
    let saga = format!("SELECT id FROM webhook_delivery_sagas WHERE requeued_from = {}", letters[0]);
    let (one, saga) = (format!("dead-letters/{}", letters[0]), h.direct.number(&saga).await);
    let verified = json!({"verified": true, "method": "challenge"});
    let expected = [
        ("key_created", &*key, Value::Null, bob.clone()),
        ("key_revoked", &key, bob, Value::Null),
        ("subscription_created", &object, Value::Null, whole(true, false)),
        ("subscription_verified", &object, json!({"verified": false}), verified),
        ("subscription_changed", &object, json!({"active": true}), json!({"active": false})),
        ("secret_rotated", &object, Value::Null, json!({"previous_secret_expires_at": at(100).to_string()})),
        ("secret_rotated", &object, Value::Null, json!({"previous_secret_expires_at": null})),
        (
            "secrets_resealed",
            "subscriptions",
            Value::Null,
            json!({"count": 1, "first_id": id.get(), "last_id": id.get(), "key_id": "72cd6e84"}),
        ),
        ("subscription_deleted", &object, whole(false, true), Value::Null),
        ("dead_letters_requeued", &one, Value::Null, json!({"saga_id": saga})),
        (
            "dead_letters_requeued",
            "dead-letters",
            Value::Null,
            json!({"count": 2, "dead_letter_ids": [letters[1].get(), letters[2].get()]}),
        ),
        (
            "lane_resumed",
            "outbox",
            json!({"state": "one_at_a_time", "reason": null}),
            json!({"state": "open", "reason": null}),
        ),
        ("signed_in", "dashboard", Value::Null, Value::Null),
        ("sign_in_failed", "dashboard", Value::Null, json!({"count": 300})),
    ];
    assert_eq!(found.iter().map(summary).collect::<Vec<_>>(), expected);
    for entry in &found {
        assert_eq!(entry.client_address.as_deref(), Some("192.0.2.7"), "{entry:?}");
        let by = if entry.action == "sign_in_failed" { (None, None) } else { (Some(7), Some("ann")) };
        assert_eq!((entry.key_id.map(KeyId::get), entry.key_name.as_deref()), by, "{entry:?}");
    }
    // The root key from the settings has a name but no id.
    keys.record_sign_in(Actor::root(None), at(12)).await.expect("a row");
    let last = entries(h).await.pop().expect("a row");
    assert_eq!((last.key_id, last.key_name.as_deref(), last.client_address), (None, Some("root"), None));
}

pub async fn a_no_op_is_not_audited<S: Stores>(h: &Harness<S>) {
    let letter = letter(h, "twice").await;
    let operator = h.calm.dead_letters();
    operator.requeue_dead_letters(vec![letter], actor(), at(1)).await.expect("a result");
    let hash = KeyHash([7; 32]);
    let key = h.calm.keys().create_key("bob".to_owned(), KeyRole::Viewer, None, hash, actor(), T0).await;
    let key = key.expect("a key").id;
    assert!(h.calm.keys().revoke_key(key, actor(), at(2)).await.expect("a result"));
    let before = entries(h).await;

    let (admin, gone) = (h.calm.subscriptions(), SubscriptionId::from_store(999));
    let letters = vec![letter, DeadLetterId::from_store(999)];
    operator.requeue_dead_letters(letters, ann(), at(3)).await.expect("a result");
    assert!(!h.calm.keys().revoke_key(key, ann(), at(3)).await.expect("a result"));
    assert!(!admin.delete_subscription(gone, ann(), at(3)).await.expect("a result"));
    assert_eq!(
        admin.update_subscription(gone, pause(), None, ann(), at(3)).await.expect("a result"),
        Updated::NotFound
    );
    let rotated = admin.rotate_secret(gone, rotation("secret-1", "x", at(9)), ann(), at(3)).await;
    assert_eq!(rotated.expect("a result"), Rotated::NotFound);
    let id = SubscriptionId::from_store(h.direct.number("SELECT max(id) FROM subscriptions").await);
    let rotated = admin.rotate_secret(id, rotation("another", "x", at(9)), ann(), at(3)).await;
    assert_eq!(rotated.expect("a result"), Rotated::Changed);
    let outdated = ResealedSecrets { before: other_secrets(), ..resealed(h, id, "x").await };
    let stored = admin.reseal_secrets(vec![outdated], "72cd6e84".to_owned(), ann(), at(3)).await;
    assert_eq!(stored.expect("a result"), []);
    assert!(!admin.mark_verified(id, challenged("another"), ann(), at(3)).await.expect("a result"));
    assert_eq!(entries(h).await, before);
}

/// Checks that a change is rolled back if its audit row cannot be inserted.
pub async fn a_change_that_cannot_be_audited_is_rolled_back<S: Stores>(h: &Harness<S>) {
    let letter = letter(h, "kept").await;
    let id = h.subscribe("other").await;
    let (keys, admin) = (h.calm.keys(), h.calm.subscriptions());
    let key = keys.create_key("bob".to_owned(), KeyRole::Viewer, None, KeyHash([7; 32]), actor(), T0).await;
    let key = key.expect("a key").id;
    let tables = [
        "api_keys",
        "subscriptions",
        "subscription_changes",
        "webhook_delivery_sagas",
        "outbox_lane",
        "operator_audit",
    ];
    let state = async || {
        let mut rows = Vec::new();
        for table in tables {
            rows.push(h.direct.rows(&format!("SELECT * FROM {table} ORDER BY id")).await);
        }
        rows
    };
    let before = state().await;
    let too_long = || Actor::key(KeyId::from_store(7), "n".repeat(201), None);
    let resealed = vec![resealed(h, id, "x").await];
    let url = Verification::challenge(callback(URL), SealedSecret::new("secret-1"));
    let outcomes = [
        keys.create_key("eve".to_owned(), KeyRole::Root, None, KeyHash([8; 32]), too_long(), T0)
            .await
            .map(drop),
        keys.revoke_key(key, too_long(), T0).await.map(drop),
        admin.create_subscription(subscription(), too_long(), T0).await.map(drop),
        admin.update_subscription(id, pause(), None, too_long(), T0).await.map(drop),
        admin.mark_verified(id, url, too_long(), T0).await.map(drop),
        admin.rotate_secret(id, rotation("secret-1", "x", at(9)), too_long(), T0).await.map(drop),
        admin.reseal_secrets(resealed, "72cd6e84".to_owned(), too_long(), T0).await.map(drop),
        admin.delete_subscription(id, too_long(), T0).await.map(drop),
        h.calm.dead_letters().requeue_dead_letters(vec![letter], too_long(), T0).await.map(drop),
        h.calm.dead_letters().resume_lane(too_long(), T0).await.map(drop),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(StoreError::Refused { .. })), "{outcome:?}");
    }
    assert_eq!(state().await, before);
}

pub async fn entries_are_found_by_action_and_time<S: Stores>(h: &Harness<S>) {
    let keys = h.calm.keys();
    for second in 0..5 {
        keys.record_sign_in(ann(), at(second)).await.expect("a row");
        let failed = FailedSignIns { address: None, count: 1 };
        keys.record_failed_sign_ins(failed, at(second)).await.expect("a row");
    }
    let all = entries(h).await;
    assert_eq!(all.len(), 10);
    let found = async |filter: OperatorAuditFilter, items_max: u32| {
        let page = PageRequest::first(items_max);
        let page = h.sure(async || h.store.reader().operator_audit(filter, page).await).await;
        (page.items.iter().map(|entry| entry.id).collect::<Vec<_>>(), page.next)
    };
    let newest_first = |keep: &dyn Fn(&&OperatorAuditEntry) -> bool| {
        all.iter().rev().filter(keep).map(|entry| entry.id).collect::<Vec<_>>()
    };
    let none = OperatorAuditFilter::default();
    let failed = OperatorAuditFilter { action: Some(AuditAction::SignInFailed), ..none };
    assert_eq!(found(failed, 50).await, (newest_first(&|entry| entry.action == "sign_in_failed"), None));
    let (since, until) = (all[3].created_at, all[7].created_at);
    let span = OperatorAuditFilter { since: Some(since), until: Some(until), ..none };
    let within = |entry: &&OperatorAuditEntry| entry.created_at >= since && entry.created_at < until;
    assert_eq!(found(span, 50).await, (newest_first(&within), None));
    let (first, next) = found(none, 4).await;
    assert_eq!((first, next), (newest_first(&|_| true)[..4].to_vec(), Some(all[6].id.get())));
    // The next page starts after the examined rows, including those that did not match.
    let page = PageRequest::first(50).looking_at(3);
    let page = h.sure(async || h.store.reader().operator_audit(failed, page).await).await;
    assert_eq!((page.items.len(), page.next), (2, Some(all[7].id.get())));
}
