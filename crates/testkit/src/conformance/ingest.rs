//! Checks that events are stored once, that a request is stored completely or not at all, and that payloads are
//! returned unchanged.

use crate::fixtures::{T0, event, id_of, json, named_event, stored};
use crate::harness::{Engine, Harness};
use posthaste_core::attributes::Attributes;
use posthaste_core::event::{ExternalEventId, NewEvent};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{
    Conflict, IngestStore as _, Ingested, ReaderStore as _, RequestOutcome, Stores, WorkerStore as _,
};
use posthaste_core::tenant::Tenant;
use std::collections::BTreeSet;

pub async fn concurrent_equal_submissions_create_one_event<S: Stores>(h: &Harness<S>) {
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let ingest = h.store.ingest();
        let engine = h.engine;
        callers.spawn(async move {
            for _ in 0..500 {
                let request = vec![named_event("order.paid", "same")];
                match ingest.insert_events(vec![request], T0).await {
                    Ok(outcomes) => match &outcomes[0] {
                        RequestOutcome::Stored(events) => return events[0],
                        RequestOutcome::Blocked => {}
                        RequestOutcome::Refused(why) => panic!("{why}"),
                        RequestOutcome::Conflict(conflict) => panic!("{conflict:?}"),
                    },
                    Err(error) => assert_eq!(engine, Engine::PostgresCut, "{error:?}"),
                }
            }
            panic!("no response after 500 tries");
        });
    }
    let answers = callers.join_all().await;
    let ids: BTreeSet<_> = answers.iter().copied().map(id_of).collect();
    assert_eq!(ids.len(), 1, "all callers get the same id");
    assert_eq!(h.direct.number("SELECT count(*) FROM events").await, 1);
    let news = answers.iter().filter(|answer| matches!(answer, Ingested::New(_))).count();
    if h.engine == Engine::PostgresCut {
        assert!(news <= 1, "{news} callers were first");
    } else {
        assert_eq!(news, 1);
    }
}

pub async fn duplicates_within_a_batch_are_stored_once<S: Stores>(h: &Harness<S>) {
    let one = vec![named_event("a", "x"), event("a"), named_event("a", "x"), named_event("a", "y")];
    let two = vec![named_event("a", "y"), named_event("a", "z")];
    let requests = vec![one, two];
    let outcomes = h.calm.ingest().insert_events(requests.clone(), T0).await.expect("events");
    let (one, two) = (stored(&outcomes[0]).to_vec(), stored(&outcomes[1]).to_vec());
    assert!(matches!(
        one[..],
        [Ingested::New(_), Ingested::New(_), Ingested::Duplicate(_), Ingested::New(_)]
    ));
    assert!(matches!(two[..], [Ingested::Duplicate(_), Ingested::New(_)]));
    assert_eq!(id_of(one[0]), id_of(one[2]));
    assert_eq!(id_of(one[3]), id_of(two[0]));
    assert_eq!(h.direct.number("SELECT count(*) FROM events").await, 4);
    // All external ids exist: no event is inserted, and the same ids are returned.
    let again: Vec<Vec<NewEvent>> = requests
        .into_iter()
        .map(|request| request.into_iter().filter(|event| event.external_event_id.is_some()).collect())
        .collect();
    let outcomes = h.sure(async || h.store.ingest().insert_events(again.clone(), T0).await).await;
    let ids: Vec<_> = outcomes.iter().flat_map(stored).copied().map(id_of).collect();
    assert_eq!(ids, [id_of(one[0]), id_of(one[0]), id_of(one[3]), id_of(one[3]), id_of(two[1])]);
    assert_eq!(h.direct.number("SELECT count(*) FROM events").await, 4);
}

pub async fn an_external_id_identifies_one_content<S: Stores>(h: &Harness<S>) {
    let ingest = async |requests: Vec<Vec<NewEvent>>| {
        h.sure(async || h.store.ingest().insert_events(requests.clone(), T0).await).await
    };
    let count = async || h.direct.number("SELECT count(*) FROM events").await;
    let other_payload = NewEvent { payload: json("2"), ..named_event("a", "x") };
    let first = id_of(stored(&ingest(vec![vec![named_event("a", "x")]]).await[0])[0]);
    let tenant = Some(Tenant::from_store("acme".to_owned()));
    let other_tenant = NewEvent { tenant, ..named_event("a", "x") };
    let attributes = Attributes::parse(r#"{"region":"eu"}"#).expect("attributes");
    let other_attributes = NewEvent { attributes, ..named_event("a", "x") };
    for other in [named_event("b", "x"), other_payload.clone(), other_tenant, other_attributes] {
        // Test the event alone, after new events in its own array, and before another caller's events.
        let conflict = |place| RequestOutcome::Conflict(Conflict { place, first: Some(first) });
        assert_eq!(ingest(vec![vec![other.clone()]]).await, [conflict(0)]);
        let before = count().await;
        let array = vec![named_event("a", &format!("new-{before}")), other.clone(), event("a")];
        let callers = vec![
            vec![named_event("a", &format!("first-{before}")), named_event("a", "x")],
            array,
            vec![named_event("a", &format!("last-{before}"))],
            vec![other],
        ];
        let outcomes = ingest(callers).await;
        assert_eq!((&outcomes[1], &outcomes[3]), (&conflict(1), &conflict(0)));
        assert_eq!(id_of(stored(&outcomes[0])[1]), first);
        assert_eq!(stored(&outcomes[2]).len(), 1, "another caller's event is stored");
        assert_eq!(count().await - before, 2, "an array with a conflict is not stored at all");
    }
    // Two contents under one new external id: within an array, they are refused; of two callers, the first wins.
    let before = count().await;
    let (one, two) = (named_event("a", "y"), named_event("b", "y"));
    let outcomes = ingest(vec![vec![one.clone(), two.clone()], vec![event("a")]]).await;
    assert_eq!(outcomes[0], RequestOutcome::Conflict(Conflict { place: 1, first: None }));
    assert_eq!(stored(&outcomes[1]).len(), 1);
    let before = if h.engine == Engine::PostgresCut { count().await - 1 } else { before };
    let outcomes =
        ingest(vec![vec![one.clone()], vec![two.clone()], vec![two.clone(), one.clone()], vec![one]]).await;
    let y = id_of(stored(&outcomes[0])[0]);
    assert_eq!(outcomes[1], RequestOutcome::Conflict(Conflict { place: 0, first: Some(y) }));
    assert_eq!(outcomes[2], RequestOutcome::Conflict(Conflict { place: 1, first: None }));
    assert_eq!(id_of(stored(&outcomes[3])[0]), y);
    // The first caller's array is refused for another reason, so the second caller's content is stored.
    let refused = vec![named_event("a", "z"), other_payload];
    let outcomes = ingest(vec![refused, vec![named_event("b", "z")]]).await;
    assert_eq!(outcomes[0], RequestOutcome::Conflict(Conflict { place: 1, first: Some(first) }));
    assert_eq!(stored(&outcomes[1]).len(), 1);
    assert_eq!(h.direct.texts("SELECT event_type FROM events WHERE external_event_id = 'z'").await, ["b"]);
    assert_eq!(count().await - before, 3);
    assert_eq!(count().await, h.direct.number("SELECT count(*) FROM routing_queue").await);
}

/// Creates an event that the API refuses, to pass to the store directly.
fn too_large() -> NewEvent {
    NewEvent { payload: JsonText::from_store(format!("\"{}\"", "x".repeat(1_100_000))), ..event("a") }
}

fn too_long() -> NewEvent {
    let external_event_id = Some(ExternalEventId::from_store("n".repeat(201)));
    NewEvent { external_event_id, ..event("a") }
}

pub async fn a_refused_request_does_not_affect_others<S: Stores>(h: &Harness<S>) {
    for bad in [too_large(), too_long()] {
        let before = h.direct.number("SELECT count(*) FROM events").await;
        let requests =
            vec![vec![event("a")], vec![event("a"), bad, event("a")], vec![event("a"), event("a")]];
        let outcomes = h.calm.ingest().insert_events(requests, T0).await.expect("a result");
        assert_eq!(stored(&outcomes[0]).len(), 1);
        assert!(matches!(outcomes[1], RequestOutcome::Refused(_)), "{:?}", outcomes[1]);
        assert_eq!(stored(&outcomes[2]).len(), 2);
        let after = h.direct.number("SELECT count(*) FROM events").await;
        assert_eq!(after - before, 3, "a request is stored completely or not at all");
        assert_eq!(after, h.direct.number("SELECT count(*) FROM routing_queue").await);
    }
}

pub async fn payloads_are_returned_byte_for_byte<S: Stores>(h: &Harness<S>) {
    let texts = [
        "null",
        " \t\r\n{ \"b\" : 1.50, \"a\":1e400 , \"b\":2 }\n",
        r#"{"nul":"\u0000","lone":"\ud800","pair":"\ud83d\ude00","slash":"\/"}"#,
        r#""just text""#,
        "-0.0",
        "[123456789012345678901234567890, 1E+2, 0.10]",
        "{\"ü\":\"日本語 😀\u{7f}\"}",
        "[[],{},[[]]]",
        &format!("[{}1]", "1,".repeat(100_000)),
        &format!("{}{}", "[".repeat(128), "]".repeat(128)),
    ];
    let request: Vec<_> = texts.iter().map(|text| NewEvent { payload: json(text), ..event("a") }).collect();
    let outcomes = h.calm.ingest().insert_events(vec![request], T0).await.expect("events");
    let ids: Vec<_> = stored(&outcomes[0]).iter().copied().map(id_of).collect();
    let loaded = h.sure(async || h.store.worker().load_events(ids.clone()).await).await;
    for (id, text) in ids.iter().zip(texts) {
        let event = loaded.iter().find(|event| event.id == *id).expect("the event");
        assert_eq!(event.payload.as_str(), text);
        let event = h.sure(async || h.store.reader().event(*id).await).await.expect("the event");
        assert_eq!(event.payload.as_str(), text);
        assert_eq!(event.created_at, T0);
    }
}

pub async fn ids_are_returned_in_the_order_of_the_events<S: Stores>(h: &Harness<S>) {
    let numbered = |number: usize| {
        let payload = json(&number.to_string());
        if number.is_multiple_of(3) {
            NewEvent { payload, ..named_event("a", &format!("name-{}", 1_000 - number)) }
        } else {
            NewEvent { payload, ..event("a") }
        }
    };
    let requests: Vec<Vec<_>> =
        (0..20).map(|request| (0..25).map(|place| numbered(request * 25 + place)).collect()).collect();
    let outcomes = h.calm.ingest().insert_events(requests, T0).await.expect("events");
    let ids: Vec<_> = outcomes.iter().flat_map(stored).copied().map(id_of).collect();
    let loaded = h.sure(async || h.store.worker().load_events(ids.clone()).await).await;
    assert_eq!(loaded.len(), 500);
    for (number, id) in ids.iter().enumerate() {
        let event = loaded.iter().find(|event| event.id == *id).expect("the event");
        assert_eq!(event.payload.as_str(), number.to_string());
    }
}
