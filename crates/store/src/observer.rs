//! Callbacks that receive measurements from the store, so that the store does not depend on the metrics.

use crate::grants::DbRole;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A callback that receives the role and the duration of each call, whether it succeeds or fails. Clones share the
/// callback.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Callback>>);

type Callback = dyn Fn(DbRole, Duration) + Send + Sync;

impl Observer {
    pub fn new(callback: impl Fn(DbRole, Duration) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    /// Awaits a call and reports its duration. A cancelled call is not reported.
    pub(crate) async fn time<T>(&self, role: DbRole, call: impl Future<Output = T>) -> T {
        let Some(callback) = &self.0 else { return call.await };
        let began = Instant::now();
        let answer = call.await;
        callback(role, began.elapsed());
        answer
    }
}

/// A callback that receives, after every commit, the size of SQLite's write-ahead log in bytes and whether an open
/// reader blocks its truncation.
#[derive(Clone, Default)]
pub struct LogObserver(Option<Arc<LogSeen>>);

type LogSeen = dyn Fn(u64, bool) + Send + Sync;

impl LogObserver {
    pub fn new(seen: impl Fn(u64, bool) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(seen)))
    }

    pub(crate) fn see(&self, bytes: u64, is_blocked: bool) {
        if let Some(seen) = &self.0 {
            seen(bytes, is_blocked);
        }
    }
}

impl fmt::Debug for LogObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogObserver").field(&self.0.is_some()).finish()
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.0.is_some()).finish()
    }
}
