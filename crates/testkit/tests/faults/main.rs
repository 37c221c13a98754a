//! The whole program in processes of its own while something around it fails: processes are killed, stopped and asked to
//! end, PostgreSQL is away or does not respond, connections break, the broker refuses. Each test needs the processors
//! for itself, so that they run one at a time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chaos;
mod drain;
mod order_chaos;
mod outage;
mod revoked;
mod soak;
mod stalls;

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other test of this program runs.
async fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::const_new(());
    RUNNING.lock().await
}
