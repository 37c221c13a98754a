//! Tests rows that may be deleted or changed only under a condition: ledger entries and subscriptions.

use super::arrange::{ORDER_PATHS, ORDERS, one_of_each};
use super::refusal::{Rule, dump, refused};
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_testkit::fixtures::{T0, actor};
use posthaste_testkit::harness::{Engine, Harness};

const LEDGER: &str = "idempo_ledger";
const SUBSCRIPTIONS: &str = "subscriptions";

pub(crate) async fn the_ledger_of_an_unfinished_order_cannot_be_deleted<S: Stores>(h: &Harness<S>) {
    for (state, id) in one_of_each(h, ORDERS, ORDER_PATHS).await {
        let of_order = format!("idempotency_key = (SELECT idempotency_key FROM {ORDERS} WHERE id = {id})");
        let delete = format!("DELETE FROM {LEDGER} WHERE {of_order}");
        let replace = format!("INSERT OR REPLACE INTO {LEDGER} SELECT * FROM {LEDGER} WHERE {of_order}");
        let ended = match state {
            "sent" | "dead" => true,
            "queued" | "sending" | "failed" => false,
            other => panic!("{other} is not a state of an order"),
        };
        if ended {
            let before = dump(h, LEDGER).await.len();
            h.direct.run(&delete).await;
            assert_eq!(dump(h, LEDGER).await.len(), before - 1, "{delete}");
        } else {
            refused(h, &[Rule::Guard], LEDGER, &delete).await;
            if h.engine == Engine::Sqlite {
                refused(h, &[Rule::Guard], LEDGER, &replace).await;
            }
        }
    }
    for change in ["idempotency_key = 'another'", "request_digest = 'another'"] {
        refused(h, &[Rule::Guard], LEDGER, &format!("UPDATE {LEDGER} SET {change}")).await;
    }
    // A single unfinished order makes the whole statement fail.
    assert_eq!(dump(h, LEDGER).await.len(), 3);
    refused(h, &[Rule::Guard], LEDGER, &format!("DELETE FROM {LEDGER}")).await;
}

pub(crate) async fn a_deleted_subscription_cannot_be_restored<S: Stores>(h: &Harness<S>) {
    let gone = h.subscribe("gone").await;
    let stays = h.subscribe("stays").await;
    assert!(h.calm.subscriptions().delete_subscription(gone, actor(), T0).await.expect("the deletion"));
    let changes = [
        "deleted_at = NULL",
        "active = verified",
        "description = 'again'",
        "event_type = 'other'",
        "callback_url = 'https://other.example/'",
        "secret = 'another'",
        "updated_at = created_at",
        "id = DEFAULT",
        "id = id + 1000",
        "rowid = id + 1000",
    ];
    for change in changes {
        let is_other_dialect = match h.engine {
            Engine::Sqlite => change.contains("DEFAULT"),
            Engine::Postgres | Engine::PostgresCut => change.contains("+ 1000"),
        };
        if !is_other_dialect {
            let update = format!("UPDATE {SUBSCRIPTIONS} SET {change} WHERE id = {gone}");
            refused(h, &[Rule::Guard], SUBSCRIPTIONS, &update).await;
        }
    }
    let renumber = match h.engine {
        Engine::Sqlite => "id = id + 1000",
        Engine::Postgres | Engine::PostgresCut => "id = DEFAULT",
    };
    let update = format!("UPDATE {SUBSCRIPTIONS} SET {renumber} WHERE id = {stays}");
    refused(h, &[Rule::Guard], SUBSCRIPTIONS, &update).await;
    for id in [gone, stays] {
        refused(h, &[Rule::Guard], SUBSCRIPTIONS, &format!("DELETE FROM {SUBSCRIPTIONS} WHERE id = {id}"))
            .await;
        if h.engine == Engine::Sqlite {
            let replace = format!(
                "INSERT OR REPLACE INTO {SUBSCRIPTIONS} SELECT * FROM {SUBSCRIPTIONS} WHERE id = {id}"
            );
            refused(h, &[Rule::Guard], SUBSCRIPTIONS, &replace).await;
        }
    }
}
