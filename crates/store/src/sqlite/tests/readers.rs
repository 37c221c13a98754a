//! Tests that key lookups do not wait for other readers.

use std::sync::mpsc;
use std::time::Duration;

use posthaste_core::audit::Actor;
use posthaste_core::ports::{KeyHash, KeyRole, KeyStore as _, Stores as _};

use super::{Fixture, NOW};

/// Timeout for a lookup, far longer than it takes. Without its own reader, the lookup would wait until the other
/// readers are released, which happens only afterwards.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every API call starts with a key lookup, which must not wait for the lists of other callers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_lookup_does_not_wait_for_busy_readers() {
    const READERS: usize = 2;
    let fixture = Fixture::with(|options| crate::sqlite::SqliteOptions { readers: READERS, ..options });
    let (keys, hash) = (fixture.store.keys(), KeyHash([7; 32]));
    let created = keys
        .create_key("shop".to_owned(), KeyRole::Ingest, None, hash, Actor::root(None), NOW)
        .await
        .unwrap();
    let mut busy = Vec::new();
    for _ in 0..READERS {
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let store = fixture.store.clone();
        let reading = tokio::spawn(async move {
            let read = store.ask(
                |queues| &queues.readers,
                None,
                move |_| {
                    let _ = begin.send(());
                    let _ = released.recv();
                    Ok(())
                },
            );
            read.await.unwrap();
        });
        begun.await.unwrap();
        busy.push((release, reading));
    }
    let found = tokio::time::timeout(PATIENCE, keys.find_key(hash)).await;
    assert_eq!(found.expect("no wait for the readers").unwrap(), Some(created));
    for (release, reading) in busy {
        drop(release);
        reading.await.unwrap();
    }
}
