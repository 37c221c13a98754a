//! Checks that subscriptions change as requested, and that a URL is verified only by a challenge sent to it.

use crate::fixtures::{URL, actor, at, callback, event_types, rotation, subscription};
use crate::harness::{Engine, Harness};
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{
    ReaderStore as _, ResealedSecrets, Rotated, SecretRotation, StoreError, Stores, SubscriptionStore as _,
    Updated, Verification, WorkerStore as _,
};
use posthaste_core::subscription::{NewSubscription, SealedSecret, Secrets, SubscriptionPatch};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

fn challenged(url: &str, secret: &str) -> Verification {
    Verification::challenge(callback(url), SealedSecret::new(secret))
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
    h.sure(async || {
        admin.update_subscription(id, moved("https://other.example/"), None, actor(), at(1)).await
    })
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
        event_types: Some(event_types(&["b"])),
        max_retry_limit: Some(Some(9)),
        timeout: Some(Some(Duration::from_secs(7))),
        description: Some(Some("the shop".to_owned())),
        ..moved(URL)
    };
    let same = h
        .sure(async || admin.update_subscription(id, patch.clone(), None, actor(), at(1)).await)
        .await
        .subscription()
        .expect("it");
    assert!(same.verified, "the same URL is no change");
    assert_eq!(
        (same.event_types.single().expect("one"), same.max_retry_limit, same.updated_at),
        ("b", Some(9), at(1))
    );
    assert_eq!(same.description.as_deref(), Some("the shop"));
    let target = h.sure(async || h.store.worker().load_targets(vec![id]).await).await.remove(0);
    assert_eq!((same.timeout, target.timeout), (Some(Duration::from_secs(7)), Some(Duration::from_secs(7))));
    let again =
        h.sure(async || admin.update_subscription(id, patch.clone(), None, actor(), at(2)).await).await;
    assert_eq!(again.subscription(), Some(same), "nothing changed, the time of the last change included");
    let other = h
        .sure(async || {
            admin.update_subscription(id, moved("https://other.example/"), None, actor(), at(2)).await
        })
        .await
        .subscription()
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
        .sure(async || admin.update_subscription(id, clear.clone(), None, actor(), at(3)).await)
        .await
        .subscription()
        .expect("it");
    assert_eq!((cleared.max_retry_limit, cleared.timeout, cleared.active), (None, None, false));
    assert_eq!(cleared.description, None);
    assert_eq!(h.sure(async || h.store.reader().subscription(id).await).await, Some(cleared));
    let gone = h.calm.subscriptions().delete_subscription(id, actor(), at(4)).await.expect("delete");
    assert!(gone);
    assert_eq!(
        h.sure(async || admin.update_subscription(id, clear.clone(), None, actor(), at(5)).await).await,
        Updated::NotFound
    );
    assert!(!h.sure(async || admin.delete_subscription(id, actor(), at(5)).await).await);
    assert!(h.sure(async || admin.load_subscription(id).await).await.is_none());
}

pub async fn a_secret_rotates_with_overlap<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe("a").await;
    let admin = h.calm.subscriptions();
    let rotate = async |rotation: SecretRotation, seconds: u64| {
        admin.rotate_secret(id, rotation, actor(), at(seconds)).await.expect("a result")
    };
    let Rotated::Rotated(rotated) = rotate(rotation("secret-1", "secret-2", at(100)), 1).await else {
        panic!("not rotated")
    };
    assert!(rotated.verified, "a new secret does not unverify");
    let target = h.sure(async || h.store.worker().load_targets(vec![id]).await).await.remove(0);
    assert_eq!(target.secrets.current.expose(), "secret-2");
    let (previous, until) = target.secrets.previous.expect("the previous one");
    assert_eq!((previous.expose(), until), ("secret-1", at(100)));
    // A rotation of a secret that was replaced in the meantime would lose the secret that replaced it.
    assert_eq!(rotate(rotation("secret-1", "secret-x", at(200)), 2).await, Rotated::Changed);
    rotate(rotation("secret-2", "secret-3", at(200)), 2).await;
    let (_, secrets) =
        h.sure(async || h.store.subscriptions().load_subscription(id).await).await.expect("it");
    let (previous, until) = secrets.previous.expect("the previous one");
    assert_eq!((secrets.current.expose(), previous.expose(), until), ("secret-3", "secret-2", at(200)));
    assert_eq!(secrets.secret_ref, target.secrets.secret_ref, "a rotation keeps the reference");
    rotate(SecretRotation { previous: None, ..rotation("secret-3", "secret-4", at(0)) }, 3).await;
    let (_, secrets) =
        h.sure(async || h.store.subscriptions().load_subscription(id).await).await.expect("it");
    assert_eq!((secrets.current.expose(), secrets.previous), ("secret-4", None));
    let gone = SubscriptionId::from_store(999);
    let rotated = admin.rotate_secret(gone, rotation("a", "b", at(9)), actor(), at(4)).await;
    assert_eq!(rotated.expect("a result"), Rotated::NotFound);
}

pub async fn a_secret_reference_is_unique_and_never_changes<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe("a").await;
    let (_, secrets) = h.calm.subscriptions().load_subscription(id).await.expect("a result").expect("it");
    let same = NewSubscription { secret_ref: secrets.secret_ref, ..subscription("b") };
    let created = h.store.subscriptions().create_subscription(same, actor(), at(1)).await;
    assert!(matches!(created, Err(StoreError::Refused { .. })), "{created:?}");
    let other = match h.engine {
        Engine::Sqlite => "randomblob(16)",
        Engine::Postgres | Engine::PostgresCut => "gen_random_uuid()",
    };
    let update = |value: &str| format!("UPDATE subscriptions SET secret_ref = {value} WHERE id = {id}");
    let insert = format!(
        "INSERT INTO subscriptions (event_type, callback_url, secret, created_at, updated_at, secret_ref)
         SELECT event_type, callback_url, secret, created_at, updated_at, NULL FROM subscriptions WHERE id = {id}"
    );
    for sql in [update(other), update("NULL"), insert] {
        let refusal = h.direct.try_rows(&sql).await.expect_err(&sql);
        assert!(refusal.contains("secret_ref"), "{sql}: {refusal}");
    }
    let unchanged = h.calm.subscriptions().load_subscription(id).await.expect("a result").expect("it");
    assert_eq!(unchanged.1, secrets);
}

/// Returns the secrets `current` and `previous`, encrypted again.
fn resealed(id: SubscriptionId, before: &Secrets, current: &str, previous: Option<&str>) -> ResealedSecrets {
    let (current, previous) = (SealedSecret::new(current), previous.map(SealedSecret::new));
    ResealedSecrets { id, before: before.clone(), current, previous, older: None, credentials: None }
}

pub async fn secrets_are_resealed_without_a_change_of_the_subscription<S: Stores>(h: &Harness<S>) {
    let admin = h.store.subscriptions();
    let mut ids = Vec::new();
    for kind in ["a", "b", "c", "d"] {
        ids.push(h.subscribe(kind).await);
    }
    let calm = h.calm.subscriptions();
    calm.rotate_secret(ids[0], rotation("secret-1", "x", at(50)), actor(), at(1)).await.expect("a result");
    calm.delete_subscription(ids[3], actor(), at(1)).await.expect("a result");
    // Deleted subscriptions are omitted, and rows are returned in the order of their ids.
    let load =
        async |after: i64, rows_max: u32| h.sure(async || admin.load_secrets(after, rows_max).await).await;
    let rows = load(0, 10).await;
    assert_eq!(rows.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids[..3]);
    assert_eq!(load(ids[0].get(), 1).await, rows[1..2]);
    assert_eq!(load(ids[2].get(), 10).await, []);

    let history = "SELECT count(*) FROM subscription_changes";
    let (changes, updated) = (h.direct.number(history).await, h.calm.reader().subscription(ids[0]).await);
    let (first, second) = (&rows[0].1, &rows[1].1);
    let other = Secrets { current: SealedSecret::new("rotated in the meantime"), ..second.clone() };
    let batch = || {
        vec![
            resealed(ids[0], first, "x again", Some("secret-1 again")),
            resealed(ids[1], &other, "lost", None),
            resealed(ids[2], &rows[2].1, "secret-1 again", None),
            resealed(ids[3], second, "deleted", None),
        ]
    };
    let reseal = async |batch: Vec<ResealedSecrets>| {
        let mut stored =
            calm.reseal_secrets(batch, "72cd6e84".to_owned(), actor(), at(2)).await.expect("ids");
        stored.sort_unstable();
        stored
    };
    assert_eq!(reseal(batch()).await, [ids[0], ids[2]]);
    assert_eq!(reseal(batch()).await, [], "a repeated call finds nothing to replace");
    let rows = load(0, 10).await;
    let texts = |secrets: &Secrets| {
        let previous = secrets.previous.as_ref().map(|(secret, until)| (secret.expose().to_owned(), *until));
        (secrets.current.expose().to_owned(), previous)
    };
    let expected = ("x again".to_owned(), Some(("secret-1 again".to_owned(), at(50))));
    assert_eq!(texts(&rows[0].1), expected);
    assert_eq!((&rows[1].1, texts(&rows[2].1)), (second, ("secret-1 again".to_owned(), None)));
    // An expired previous secret is removed.
    assert_eq!(reseal(vec![resealed(ids[0], &rows[0].1, "x again", None)]).await, [ids[0]]);
    assert_eq!(texts(&load(0, 1).await[0].1), ("x again".to_owned(), None));
    assert_eq!(h.direct.number(history).await, changes);
    let unchanged = h.calm.reader().subscription(ids[0]).await;
    assert_eq!(unchanged.expect("a result"), updated.expect("a result"));
}

/// Rotates and reseals the secret of one subscription concurrently, many times. Every rotation must be effective, and
/// its replaced secret must become the previous one.
pub async fn a_rotation_and_a_reseal_do_not_lose_a_secret<S: Stores>(h: &Harness<S>) {
    const ROTATIONS: usize = 30;
    let id = h.subscribe("a").await;
    let admin = h.calm.subscriptions();
    let load = async || admin.load_subscription(id).await.expect("a result").expect("it").1;
    let (done, resealed) = (AtomicBool::new(false), watch::Sender::new(0));
    let rotations = async {
        for number in 0..ROTATIONS {
            // After a rotation, wait for a reseal, so that neither of them always comes too late.
            resealed.subscribe().wait_for(|count| *count > number).await.expect("a count");
            loop {
                let before = load().await;
                // The number of the secret is kept by a reseal, the mark behind it is not.
                let (name, _) = before.current.expose().split_once('/').unwrap_or(("secret-1", ""));
                let rotation = SecretRotation {
                    replaced: before.current.clone(),
                    secret: SealedSecret::new(format!("new-{number}/0")),
                    previous: Some((SealedSecret::new(format!("{name}/0")), at(100))),
                    older: None,
                    signing_key: None,
                };
                match admin.rotate_secret(id, rotation, actor(), at(1)).await.expect("a result") {
                    Rotated::Rotated(_) => break,
                    Rotated::Changed => {}
                    Rotated::NotFound => panic!("the subscription is gone"),
                }
            }
            let after = load().await;
            assert!(
                after.current.expose().starts_with(&format!("new-{number}/")),
                "{}",
                after.current.expose()
            );
            let previous = after.previous.expect("the previous secret").0;
            let expected = if number == 0 { "secret-1/".to_owned() } else { format!("new-{}/", number - 1) };
            assert!(previous.expose().starts_with(&expected), "{}", previous.expose());
        }
        done.store(true, Ordering::Relaxed);
    };
    let reseals = async {
        let mut mark = 0;
        while !done.load(Ordering::Relaxed) {
            let before = load().await;
            mark += 1;
            let again = |sealed: &SealedSecret| {
                let name = sealed.expose().split('/').next().unwrap_or_default();
                SealedSecret::new(format!("{name}/{mark}"))
            };
            let (current, previous) =
                (again(&before.current), before.previous.as_ref().map(|(old, _)| again(old)));
            let row = ResealedSecrets { id, before, current, previous, older: None, credentials: None };
            let stored = admin.reseal_secrets(vec![row], "72cd6e84".to_owned(), actor(), at(1)).await;
            let stored = stored.expect("a result").len();
            resealed.send_modify(|count| *count += stored);
        }
    };
    tokio::join!(rotations, reseals);
}

pub async fn every_change_is_recorded<S: Stores>(h: &Harness<S>) {
    let id = h.subscribe("a").await;
    let admin = h.calm.subscriptions();
    let paused = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
    admin.update_subscription(id, paused, None, actor(), at(1)).await.expect("pause");
    admin.update_subscription(id, moved("https://other.example/"), None, actor(), at(2)).await.expect("move");
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
