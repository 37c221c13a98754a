//! Tests the whole program, in several processes, under faults: processes are killed, suspended or terminated,
//! PostgreSQL is down or does not respond, connections break, and the broker refuses requests. Tests under full
//! load run alone, all others at most two at a time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chaos;
mod drain;
mod failover;
mod order_chaos;
mod outage;
mod passwords;
mod revoked;
mod soak;
mod stalls;
mod upgrade;

use tokio::sync::{Semaphore, SemaphorePermit};

const TOGETHER_MAX: u32 = 2;
static ROOM: Semaphore = Semaphore::const_new(TOGETHER_MAX as usize);

/// Waits until no other test of this program is running.
async fn alone() -> SemaphorePermit<'static> {
    ROOM.acquire_many(TOGETHER_MAX).await.expect("a semaphore that is never closed")
}

/// Waits until at most one other test of this program is running.
async fn in_pairs() -> SemaphorePermit<'static> {
    ROOM.acquire().await.expect("a semaphore that is never closed")
}
