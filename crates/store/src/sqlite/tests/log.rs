//! Tests that the write-ahead log stays bounded under writes while readers never pause.

use std::time::Duration;

use posthaste_core::ports::{IngestStore as _, Stores as _};

use super::{Fixture, NOW, event};

const LOG_BYTES_MAX: u64 = 4 << 20;
/// The maximum size of a group in this test, including its indexes, in bytes.
const GROUP_BYTES_MAX: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_stays_bounded_under_writes_and_reads() {
    let fixture =
        Fixture::with(|options| crate::sqlite::SqliteOptions { log_bytes_max: LOG_BYTES_MAX, ..options });
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Two readers, at least one of which always has an open snapshot, so that the log can never be restarted without
    // waiting.
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, stop) = (fixture.store.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let read = store.ask(
                        |queues| &queues.readers,
                        None,
                        |session| {
                            let mut count = session.try_text("SELECT count(*) FROM events")?;
                            let counted: i64 = count.query_row([], |row| row.get(0))?;
                            std::thread::sleep(Duration::from_millis(3));
                            Ok(counted)
                        },
                    );
                    read.await.unwrap();
                }
            })
        })
        .collect();
    let log = fixture.folder.path().join("posthaste.db-wal");
    let (mut longest, mut written) = (0, 0_u64);
    while written < 8 * LOG_BYTES_MAX {
        let requests = (0..4).map(|_| vec![event(None, 100_000)]).collect();
        fixture.store.ingest().insert_events(requests, NOW).await.unwrap();
        written += 400_000;
        longest = longest.max(std::fs::metadata(&log).map_or(0, |file| file.len()));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    assert!(longest > 0);
    assert!(longest <= LOG_BYTES_MAX + GROUP_BYTES_MAX, "the log grew to {longest} bytes");
}
