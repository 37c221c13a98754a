//! Checks that keys are found by their hash, and that processes report their presence and counts.

use crate::fixtures::{T0, actor, at, worker_id};
use crate::harness::{Engine, Harness};
use posthaste_core::SubscriptionId;
use posthaste_core::health::Attempts;
use posthaste_core::ports::{
    HealthSum, KeyHash, KeyRole, KeyStore as _, PresenceStore as _, ProcessSeen, Rollup, SESSION_LENGTH,
    SESSIONS_PER_KEY_MAX, SessionHash, StoreError, Stores,
};

/// The maximum value of a stored sum.
const AMOUNT_MAX: i64 = 1_000_000_000_000_000;

pub async fn keys_are_found_by_hash_until_revoked<S: Stores>(h: &Harness<S>) {
    let keys = h.store.keys();
    let hash = KeyHash([7; 32]);
    let made = h
        .calm
        .keys()
        .create_key("ci".to_owned(), KeyRole::Ingest, None, hash, actor(), T0)
        .await
        .expect("a key");
    let found = h.sure(async || keys.find_key(hash).await).await.expect("the key");
    assert_eq!(found, made);
    assert_eq!((found.name.as_str(), found.role, found.last_used_at), ("ci", KeyRole::Ingest, None));
    assert_eq!(h.sure(async || keys.find_key(KeyHash([8; 32])).await).await, None);
    h.sure(async || keys.touch_key(made.id, at(10)).await).await;
    // A key is not updated again within a minute.
    h.sure(async || keys.touch_key(made.id, at(69)).await).await;
    assert_eq!(h.sure(async || keys.list_keys().await).await[0].last_used_at, Some(at(10)));
    h.sure(async || keys.touch_key(made.id, at(70)).await).await;
    assert_eq!(h.sure(async || keys.list_keys().await).await[0].last_used_at, Some(at(70)));
    assert!(h.calm.keys().revoke_key(made.id, actor(), at(80)).await.expect("a result"));
    assert!(!h.calm.keys().revoke_key(made.id, actor(), at(81)).await.expect("a result"), "revoked once");
    assert_eq!(h.sure(async || keys.find_key(hash).await).await, None);
    assert_eq!(h.sure(async || keys.list_keys().await).await[0].revoked_at, Some(at(80)));
}

pub async fn sessions_are_found_until_they_end<S: Stores>(h: &Harness<S>) {
    let keys = h.store.keys();
    let (token, other, key) = (SessionHash([1; 32]), SessionHash([2; 32]), KeyHash([7; 32]));
    let found = async |token, now| h.sure(async || keys.find_session(token, now).await).await;
    assert_eq!(found(token, T0).await, None);
    h.sure(async || keys.create_session(token, key, T0).await).await;
    h.sure(async || keys.create_session(other, key, T0).await).await;
    let end = T0.after(SESSION_LENGTH);
    for (now, expected) in [
        (T0, Some(key)),
        (at(12 * 3_600 - 1), Some(key)),
        (end, None),
        // According to a clock that was set back, the session would last longer than the maximum.
        (T0.before(std::time::Duration::from_secs(1)), None),
    ] {
        assert_eq!(found(token, now).await, expected, "{now:?}");
    }
    h.sure(async || keys.end_session(token).await).await;
    h.sure(async || keys.end_session(token).await).await;
    assert_eq!((found(token, T0).await, found(other, T0).await), (None, Some(key)));
    // Expired sessions are deleted when a new one is created.
    h.sure(async || keys.create_session(token, key, end).await).await;
    assert_eq!(h.direct.number("SELECT count(*) FROM sessions").await, 1);
}

pub async fn a_key_has_a_limited_number_of_sessions<S: Stores>(h: &Harness<S>) {
    let (keys, busy, calm) = (h.calm.keys(), KeyHash([7; 32]), KeyHash([8; 32]));
    let token = |number: u32| {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        SessionHash(bytes)
    };
    keys.create_session(SessionHash([1; 32]), calm, T0).await.expect("a session");
    let count = SESSIONS_PER_KEY_MAX + 5;
    for number in 0..count {
        keys.create_session(token(number), busy, at(number.into())).await.expect("a session");
    }
    let kept = h.direct.number("SELECT count(*) FROM sessions").await;
    assert_eq!(kept, i64::from(SESSIONS_PER_KEY_MAX) + 1);
    let now = at(count.into());
    for (number, expected) in [(0, None), (4, None), (5, Some(busy)), (count - 1, Some(busy))] {
        assert_eq!(keys.find_session(token(number), now).await.expect("a result"), expected, "{number}");
    }
    assert_eq!(keys.find_session(SessionHash([1; 32]), now).await.expect("a result"), Some(calm));
}

pub async fn a_key_is_immutable_and_cannot_be_unrevoked<S: Stores>(h: &Harness<S>) {
    let keys = h.calm.keys();
    let hash = KeyHash([7; 32]);
    let made =
        keys.create_key("ci".to_owned(), KeyRole::Ingest, None, hash, actor(), T0).await.expect("a key");
    let other = match h.engine {
        Engine::Sqlite => "x'0808080808080808080808080808080808080808080808080808080808080808'",
        Engine::Postgres | Engine::PostgresCut => "decode(repeat('08', 32), 'hex')",
    };
    let changes = [
        "UPDATE api_keys SET role = 'root'".to_owned(),
        "UPDATE api_keys SET name = 'another'".to_owned(),
        format!("UPDATE api_keys SET key_hash = {other}"),
        "DELETE FROM api_keys".to_owned(),
    ];
    // The owner is refused as well.
    for change in &changes {
        assert!(h.direct.try_rows(change).await.is_err(), "{change}");
    }
    assert!(keys.revoke_key(made.id, actor(), at(1)).await.expect("a result"));
    for change in changes
        .iter()
        .map(String::as_str)
        .chain(["UPDATE api_keys SET revoked_at = NULL", "UPDATE api_keys SET revoked_at = created_at"])
    {
        assert!(h.direct.try_rows(change).await.is_err(), "{change}");
    }
    if h.engine == Engine::Sqlite {
        let replace = "REPLACE INTO api_keys (name, role, key_hash, created_at) SELECT name, 'root', key_hash, created_at FROM api_keys";
        assert!(h.direct.try_rows(replace).await.is_err(), "a REPLACE is a DELETE");
    }
    assert_eq!(keys.find_key(hash).await.expect("a result"), None);
    assert_eq!(keys.list_keys().await.expect("the keys")[0].role, KeyRole::Ingest);
}

pub async fn presence_and_counts_are_recorded<S: Stores>(h: &Harness<S>) {
    let presence = h.calm.presence();
    let seen = |seconds| ProcessSeen {
        process_id: worker_id(1),
        role: "router".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: T0,
        seen_at: at(seconds),
    };
    let rollup = |counter: &str, amount| Rollup { interval_start: T0, counter: counter.to_owned(), amount };
    let first = vec![rollup("events", 3), rollup("deliveries", 1), rollup("events", 4)];
    presence.report_presence(seen(5), first).await.expect("a report");
    presence.report_presence(seen(10), vec![rollup("events", 5)]).await.expect("a report");
    let row = |counter: &str, amount: &str| vec![Some(counter.to_owned()), Some(amount.to_owned())];
    for width_s in [10, 300] {
        let sql = format!("SELECT counter, amount FROM rollups WHERE width_s = {width_s} ORDER BY counter");
        assert_eq!(h.direct.rows(&sql).await, [row("deliveries", "1"), row("events", "12")], "{width_s} s");
    }
    let processes = h.direct.rows("SELECT process_id, role FROM processes").await;
    assert_eq!(processes, [row("worker-1", "router")]);
    // A later report deletes old rollups and processes that were not seen recently.
    const DAY_S: u64 = 86_400;
    let later = ProcessSeen { process_id: worker_id(2), ..seen(3 * DAY_S) };
    let last = Rollup { interval_start: at(3 * DAY_S), ..rollup("events", 1) };
    presence.report_presence(later, vec![last]).await.expect("a report");
    assert_eq!(h.direct.number("SELECT count(*) FROM rollups").await, 2);
    assert_eq!(h.direct.texts("SELECT process_id FROM processes").await, ["worker-2"]);
}

/// Checks that reports, which any login may write, are refused if a name or count is invalid, and that sums stop at
/// a maximum.
pub async fn reports_are_bounded<S: Stores>(h: &Harness<S>) {
    let presence = h.calm.presence();
    let seen = ProcessSeen {
        process_id: worker_id(1),
        role: "router".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: T0,
        seen_at: at(5),
    };
    let rollup = |counter: &str, amount| Rollup { interval_start: T0, counter: counter.to_owned(), amount };
    for (process, rollups) in [
        (ProcessSeen { role: "x".repeat(31), ..seen.clone() }, vec![]),
        (ProcessSeen { role: "two words".to_owned(), ..seen.clone() }, vec![]),
        (ProcessSeen { role: String::new(), ..seen.clone() }, vec![]),
        (ProcessSeen { version: "1".repeat(51), ..seen.clone() }, vec![]),
        (seen.clone(), vec![rollup(&"x".repeat(51), 1)]),
        (seen.clone(), vec![rollup("<script>", 1)]),
        (seen.clone(), vec![rollup("events", -1)]),
        (seen.clone(), vec![rollup("events", i64::MAX)]),
    ] {
        let refused = presence.report_presence(process.clone(), rollups.clone()).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{process:?} {rollups:?}: {refused:?}");
    }
    assert_eq!(h.direct.number("SELECT count(*) FROM processes").await, 0);
    for _ in 0..2 {
        presence.report_presence(seen.clone(), vec![rollup("events", AMOUNT_MAX)]).await.expect("a report");
    }
    let most = h.direct.number("SELECT max(amount) FROM rollups").await;
    assert_eq!(most, AMOUNT_MAX, "and the next report does not fail");
    let subscription_id = h.subscribe("a").await;
    let sum = |subscription_id, failed| HealthSum {
        subscription_id,
        interval_start: T0,
        attempts: Attempts { failed, ..Attempts::default() },
    };
    let refused = presence.report_health(vec![sum(subscription_id, u64::MAX)], at(5)).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    let nobody = SubscriptionId::from_store(subscription_id.get() + 1);
    presence.report_health(vec![sum(subscription_id, 1), sum(nobody, 1)], at(5)).await.expect("a report");
    let found = h.direct.number("SELECT count(*) FROM subscription_health").await;
    assert_eq!(found, 1, "a subscription that does not exist has no row");
}
