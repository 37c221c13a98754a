//! Tests of group commit: results and stored rows when a task in a group fails.

use std::sync::mpsc;

use posthaste_core::event::{EventType, NewEvent};
use posthaste_core::ports::{IngestStore, Ingested, RequestOutcome, StoreError, Stores as _};

use super::{Fixture, NOW, event};
use crate::grants::DbRole;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::error::Fault;

/// A task that blocks the writer, so that the tasks queued meanwhile form one group.
struct Held {
    store: SqliteStore,
    go: mpsc::Sender<()>,
    holder: tokio::task::JoinHandle<()>,
}

impl Held {
    async fn new(store: &SqliteStore) -> Self {
        let (go, wait) = mpsc::channel();
        let (begun, waiting) = tokio::sync::oneshot::channel();
        let queue = store.clone();
        let holder = tokio::spawn(async move {
            let held = queue.ask(
                |queues| &queues.writer,
                None,
                move |_| {
                    let _ = begun.send(());
                    let _ = wait.recv();
                    Ok(())
                },
            );
            held.await.unwrap();
        });
        waiting.await.unwrap();
        Self { store: store.clone(), go, holder }
    }

    async fn release_when_queued(self, tasks: usize) {
        let writer = &self.store.threads.queues.as_ref().unwrap().writer;
        while writer.max_capacity() - writer.capacity() < tasks {
            tokio::task::yield_now().await;
        }
        self.go.send(()).unwrap();
        self.holder.await.unwrap();
    }
}

fn insert(
    store: &SqliteStore,
    event: NewEvent,
) -> tokio::task::JoinHandle<Result<Vec<RequestOutcome>, StoreError>> {
    let ingest = store.ingest();
    tokio::spawn(async move { ingest.insert_events(vec![vec![event]], NOW).await })
}

async fn limit_to_present_size(fixture: &Fixture, more: u32) {
    let pages = fixture.store.ask(
        |queues| &queues.writer,
        None,
        |session| Ok(session.try_text("PRAGMA page_count")?.query_row([], |row| row.get::<_, u32>(0))?),
    );
    let pages = pages.await.unwrap();
    fixture.store.limit_pages(pages + more).await.unwrap();
}

#[tokio::test]
async fn full_disk_fails_the_whole_group() {
    let fixture = Fixture::new();
    // Space for four of ten events.
    limit_to_present_size(&fixture, 110).await;
    let held = Held::new(&fixture.store).await;
    let tasks: Vec<_> = (0..10).map(|_| insert(&fixture.store, event(None, 100_000))).collect();
    held.release_when_queued(10).await;
    for task in tasks {
        let result = task.await.unwrap();
        assert!(matches!(result, Err(StoreError::Full { .. })), "{result:?}");
    }
    assert_eq!((fixture.count("events").await, fixture.count("routing_queue").await), (0, 0));

    // A smaller task succeeds, and with more space all tasks do.
    insert(&fixture.store, event(None, 100)).await.unwrap().unwrap();
    fixture.store.limit_pages(1_000_000).await.unwrap();
    let held = Held::new(&fixture.store).await;
    let tasks: Vec<_> = (0..10).map(|_| insert(&fixture.store, event(None, 100_000))).collect();
    held.release_when_queued(10).await;
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!((fixture.count("events").await, fixture.count("routing_queue").await), (11, 11));
}

#[tokio::test]
async fn failing_or_panicking_task_does_not_affect_others() {
    let fixture = Fixture::new();
    let held = Held::new(&fixture.store).await;
    let before = insert(&fixture.store, event(None, 10));
    let store = fixture.store.clone();
    let failing = tokio::spawn(async move {
        store
            .write(DbRole::EventIngestWriter, "failing", |session| {
                let sql = "-- role: event_ingest_writer\n\
                    INSERT INTO events (event_type, payload, created_at) VALUES ('a', '1', 0)";
                session.run(sql, [])?;
                Err::<(), _>(Fault::Unreadable("on purpose".to_owned()))
            })
            .await
    });
    let store = fixture.store.clone();
    let panicking = tokio::spawn(async move {
        store
            .write(DbRole::EventIngestWriter, "panicking", |session| {
                let sql = "-- role: event_ingest_writer\n\
                    INSERT INTO events (event_type, payload, created_at) VALUES ('b', '1', 0)";
                session.run(sql, [])?;
                if session.last_id() > 0 {
                    panic!("on purpose");
                }
                Ok(())
            })
            .await
    });
    let after = insert(&fixture.store, event(None, 10));
    held.release_when_queued(4).await;
    before.await.unwrap().unwrap();
    after.await.unwrap().unwrap();
    assert!(matches!(failing.await.unwrap(), Err(StoreError::Unreadable { .. })));
    assert!(matches!(panicking.await.unwrap(), Err(StoreError::Refused { .. })));
    assert_eq!(fixture.count("events").await, 2);

    // A task that is alone in its group has no savepoint, but is rolled back too.
    let alone = fixture.store.write(DbRole::EventIngestWriter, "panicking", |session| {
        let sql = "-- role: event_ingest_writer\n\
            INSERT INTO events (event_type, payload, created_at) VALUES ('c', '1', 0)";
        session.run(sql, [])?;
        if session.last_id() > 0 {
            panic!("on purpose");
        }
        Ok(())
    });
    assert!(matches!(alone.await, Err(StoreError::Refused { .. })));
    assert_eq!(fixture.count("events").await, 2);
    insert(&fixture.store, event(None, 10)).await.unwrap().unwrap();
}

/// Returns an event that the core types would refuse, to test the schema.
fn malformed() -> NewEvent {
    NewEvent { event_type: EventType::from_store("not a type".to_owned()), ..event(None, 10) }
}

#[tokio::test]
async fn refused_request_is_atomic_and_does_not_affect_others() {
    let fixture = Fixture::new();
    let ingest = fixture.store.ingest();
    let mut requests = vec![vec![event(Some("a"), 10), event(None, 10)]; 1];
    requests.push(vec![event(Some("b"), 10), malformed()]);
    requests.extend((0..40).map(|_| vec![event(None, 10)]));
    requests.push(vec![malformed()]);
    requests.push(vec![event(Some("a"), 10), event(Some("b"), 10)]);
    let outcomes = ingest.insert_events(requests, NOW).await.unwrap();
    assert_eq!(fixture.count("events").await, 43);
    assert!(matches!(outcomes[0], RequestOutcome::Stored(_)));
    assert!(matches!(&outcomes[1], RequestOutcome::Refused(why) if why.contains("event_type_form")));
    assert!(matches!(outcomes[42], RequestOutcome::Refused(_)));
    let [RequestOutcome::Stored(first), .., RequestOutcome::Stored(last)] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    let Ingested::New(a) = first[0] else { panic!("{first:?}") };
    assert!(matches!(last[..], [Ingested::Duplicate(id), Ingested::New(_)] if id == a), "{last:?}");
}

#[tokio::test]
async fn ids_match_their_events_for_every_batch_size() {
    let fixture = Fixture::new();
    let ingest = fixture.store.ingest();
    let mut known = std::collections::HashMap::new();
    for (round, size) in [1_usize, 7, 8, 9, 31, 32, 33, 40, 77, 500].into_iter().enumerate() {
        // Some ids repeat within a batch, some are already stored, and some events have no id.
        let name = |at: usize| match at % 5 {
            0 | 3 => None,
            1 => Some(format!("{round}-{}", at / 10)),
            2 => Some(format!("{}-{}", round.saturating_sub(1), at / 10)),
            _ => Some(format!("{round}-{at}")),
        };
        let requests = (0..size).map(|at| vec![event(name(at).as_deref(), 10)]).collect();
        let outcomes = ingest.insert_events(requests, NOW).await.unwrap();
        for (at, outcome) in outcomes.into_iter().enumerate() {
            let RequestOutcome::Stored(stored) = outcome else { panic!("{outcome:?}") };
            match (name(at), stored[0]) {
                (None, Ingested::New(_)) => {}
                (Some(name), Ingested::New(id)) => assert_eq!(known.insert(name, id), None),
                (Some(name), Ingested::Duplicate(id)) => assert_eq!(known.get(&name), Some(&id)),
                (None, Ingested::Duplicate(id)) => panic!("event {id} has no external id"),
            }
        }
    }
    for (name, id) in known {
        let stored = fixture.store.ask(
            |queues| &queues.readers,
            None,
            move |session| {
                let mut find = session.try_text("SELECT external_event_id FROM events WHERE id = ?1")?;
                Ok(find.query_row([id.get()], |row| row.get::<_, String>(0))?)
            },
        );
        assert_eq!(stored.await.unwrap(), name);
    }
}

#[tokio::test]
async fn queued_work_is_finished_before_shutdown() {
    let fixture = Fixture::new();
    let held = Held::new(&fixture.store).await;
    let tasks: Vec<_> = (0..10).map(|_| insert(&fixture.store, event(None, 10))).collect();
    held.release_when_queued(10).await;
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let Fixture { store, folder } = fixture;
    drop(store);
    let log = folder.path().join("posthaste.db-wal");
    assert!(!log.exists(), "the log is truncated at the end");
    let options = crate::sqlite::SqliteOptions::new(folder.path().join("posthaste.db"));
    let again = Fixture { store: SqliteStore::open(&options).unwrap(), folder };
    assert_eq!(again.count("events").await, 10);
}
