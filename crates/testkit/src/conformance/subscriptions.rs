//! Checks that subscriptions change as requested, and that a URL is verified only by a challenge sent to it.

use crate::fixtures::{URL, actor, at, callback, event_type};
use crate::harness::Harness;
use posthaste_core::ports::{
    ReaderStore as _, Stores, SubscriptionStore as _, Verification, WorkerStore as _,
};
use posthaste_core::subscription::{SealedSecret, SubscriptionPatch};
use std::time::Duration;

fn challenged(url: &str, secret: &str) -> Verification {
    Verification { callback_url: callback(url), secret: SealedSecret::new(secret) }
}

fn moved(url: &str) -> SubscriptionPatch {
    SubscriptionPatch { callback_url: Some(callback(url)), ..SubscriptionPatch::default() }
}

pub async fn a_verification_of_the_old_url_does_not_verify_the_new_one<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe_unverified("a", None).await;
    let admin = h.store.subscriptions();
    let verified = |url: &'static str, secret: &'static str| {
        let admin = admin.clone();
        async move {
            h.sure(async || admin.mark_verified(id, challenged(url, secret), actor(), at(2)).await).await
        }
    };
    h.sure(async || admin.update_subscription(id, moved("https://other.example/"), actor(), at(1)).await)
        .await;
    assert!(!verified(URL, "secret-1").await, "the challenge went to the old URL");
    assert!(!verified("https://other.example/", "secret-0").await, "the challenge had another secret");
    assert!(verified("https://other.example/", "secret-1").await);
    let (subscription, _) =
        h.sure(async || admin.load_subscription(id).await).await.expect("the subscription");
    assert!(subscription.verified && subscription.active);
    h.sure(async || admin.delete_subscription(id, actor(), at(3)).await).await;
    assert!(!verified("https://other.example/", "secret-1").await, "deleted");
}

pub async fn a_changed_url_must_be_verified_again<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe("a").await;
    let admin = h.store.subscriptions();
    let patch = SubscriptionPatch {
        event_type: Some(event_type("b")),
        max_retry_limit: Some(Some(9)),
        timeout: Some(Some(Duration::from_secs(7))),
        description: Some(Some("the shop".to_owned())),
        ..moved(URL)
    };
    let same = h
        .sure(async || admin.update_subscription(id, patch.clone(), actor(), at(1)).await)
        .await
        .expect("it");
    assert!(same.verified, "the same URL is no change");
    assert_eq!((same.event_type.as_str(), same.max_retry_limit, same.updated_at), ("b", Some(9), at(1)));
    assert_eq!(same.description.as_deref(), Some("the shop"));
    let target = h.sure(async || h.store.worker().load_targets(vec![id]).await).await.remove(0);
    assert_eq!((same.timeout, target.timeout), (Some(Duration::from_secs(7)), Some(Duration::from_secs(7))));
    let again = h.sure(async || admin.update_subscription(id, patch.clone(), actor(), at(2)).await).await;
    assert_eq!(again, Some(same), "nothing changed, the time of the last change included");
    let other = h
        .sure(async || admin.update_subscription(id, moved("https://other.example/"), actor(), at(2)).await)
        .await
        .expect("it");
    assert!(!other.verified && other.active);
    assert_eq!((other.max_retry_limit, other.description.as_deref()), (Some(9), Some("the shop")));
    let clear = SubscriptionPatch {
        max_retry_limit: Some(None),
        timeout: Some(None),
        description: Some(None),
        active: Some(false),
        ..SubscriptionPatch::default()
    };
    let cleared = h
        .sure(async || admin.update_subscription(id, clear.clone(), actor(), at(3)).await)
        .await
        .expect("it");
    assert_eq!((cleared.max_retry_limit, cleared.timeout, cleared.active), (None, None, false));
    assert_eq!(cleared.description, None);
    assert_eq!(h.sure(async || h.store.reader().subscription(id).await).await, Some(cleared));
    let gone = h.calm.subscriptions().delete_subscription(id, actor(), at(4)).await.expect("delete");
    assert!(gone);
    assert_eq!(
        h.sure(async || admin.update_subscription(id, clear.clone(), actor(), at(5)).await).await,
        None
    );
    assert!(!h.sure(async || admin.delete_subscription(id, actor(), at(5)).await).await);
    assert!(h.sure(async || admin.load_subscription(id).await).await.is_none());
}

pub async fn a_secret_rotates_with_overlap<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe("a").await;
    let admin = h.calm.subscriptions();
    let rotated = admin
        .rotate_secret(id, SealedSecret::new("secret-2"), at(100), actor(), at(1))
        .await
        .expect("a result");
    assert!(rotated.expect("it").verified, "a new secret does not unverify");
    let target = h.sure(async || h.store.worker().load_targets(vec![id]).await).await.remove(0);
    assert_eq!(target.secrets.current.expose(), "secret-2");
    let (previous, until) = target.secrets.previous.expect("the previous one");
    assert_eq!((previous.expose(), until), ("secret-1", at(100)));
    admin.rotate_secret(id, SealedSecret::new("secret-3"), at(200), actor(), at(2)).await.expect("a result");
    let (_, secrets) =
        h.sure(async || h.store.subscriptions().load_subscription(id).await).await.expect("it");
    let (previous, until) = secrets.previous.expect("the previous one");
    assert_eq!((secrets.current.expose(), previous.expose(), until), ("secret-3", "secret-2", at(200)));
}

pub async fn every_change_is_recorded<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe("a").await;
    let admin = h.calm.subscriptions();
    let paused = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
    admin.update_subscription(id, paused, actor(), at(1)).await.expect("pause");
    admin.update_subscription(id, moved("https://other.example/"), actor(), at(2)).await.expect("move");
    admin.delete_subscription(id, actor(), at(3)).await.expect("delete");
    let changes =
        "SELECT CASE WHEN active THEN 1 ELSE 0 END, CASE WHEN verified THEN 1 ELSE 0 END, callback_url,
        CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END FROM subscription_changes ORDER BY id";
    let rows: Vec<Vec<String>> =
        h.direct.rows(changes).await.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
    let other = "https://other.example/";
    assert_eq!(
        rows,
        [
            ["1", "0", URL, "0"],
            ["1", "1", URL, "0"],
            ["0", "1", URL, "0"],
            ["0", "0", other, "0"],
            ["0", "0", other, "1"]
        ]
    );
    assert_eq!(
        h.calm.reader().subscription(id).await.expect("a result").and_then(|it| it.deleted_at),
        Some(at(3))
    );
}
