//! Lists that go on where they stopped, while rows arrive.

use crate::server::TestApi;
use posthaste_core::ports::Stores;
use posthaste_testkit::fixtures::T0;

const LISTS: [&str; 5] = ["events", "subscriptions", "deliveries", "dead-letters", "orders"];

pub(crate) async fn every_row_comes_once_while_others_arrive<S: Stores>(api: &TestApi<S>) {
    api.h.subscribe("a").await;
    let mut wanted: Vec<i64> = api.h.publish("a", 25).await.into_iter().map(|id| id.get()).collect();
    api.h.route_all(T0).await;
    wanted.sort_unstable_by(|one, other| other.cmp(one));
    for (list, id) in [("events", "id"), ("deliveries", "event_id")] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("/v1/{list}?event_type=a&limit=4&cursor={cursor}")).expect(200).await;
            let items = page["items"].as_array().expect("items");
            assert!(items.len() <= 4);
            found.extend(items.iter().filter_map(|item| item[id].as_i64()));
            // Newer rows stand before the first page, so they disturb no later one.
            api.h.publish("a", 3).await;
            api.h.route_all(T0).await;
            match page["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        let (first, rest) = found.split_at(found.len() - 25);
        assert_eq!(rest, wanted, "{list}");
        assert!(first.iter().all(|id| !wanted.contains(id)), "{list}");
    }
}

pub(crate) async fn bad_cursors_and_limits_are_refused<S: Stores>(api: &TestApi<S>) {
    api.h.publish("a", 3).await;
    let page = api.get("/v1/events?limit=1").expect(200).await;
    let cursor = page["next_cursor"].as_str().expect("a cursor").to_owned();
    for list in LISTS {
        for limit in ["0", "-1", "201", "x", "1.5", "99999999999"] {
            api.get(&format!("/v1/{list}?limit={limit}")).refused(422, "limit").await;
        }
        for bad in ["x", "%00", "AAAA", "cursor"] {
            api.get(&format!("/v1/{list}?cursor={bad}")).refused(422, "cursor").await;
        }
        if list != "events" {
            api.get(&format!("/v1/{list}?cursor={cursor}")).refused(422, "cursor").await;
            assert_eq!(
                api.get(&format!("/v1/{list}?limit=200")).expect(200).await["items"],
                serde_json::json!([])
            );
        }
        api.get(&format!("/v1/{list}?limit=1&limit=2")).refused(422, "limit").await;
        api.get(&format!("/v1/{list}?unknown=1")).refused(422, "unknown").await;
    }
}
