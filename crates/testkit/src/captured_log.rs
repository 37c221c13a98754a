//! Captures the log output of a thread for tests.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Captured log output. Clones share one buffer.
#[derive(Debug, Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

/// A guard that captures log output until it is dropped.
#[derive(Debug)]
pub struct Capturing {
    _guard: DefaultGuard,
    /// A second subscriber. With only one in the process, `tracing` caches the interest computed by the first
    /// thread that reaches a call site and uses it for all threads; with two, it evaluates the interest of both.
    _second: Dispatch,
}

/// The format of captured lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    Text,
    Json,
}

impl CapturedLog {
    /// Captures the log output of the current thread. The test must run on a single thread.
    pub fn of_this_thread(lines: Lines, level: LevelFilter) -> (Self, Capturing) {
        let (log, second) = (Self::default(), Dispatch::new(NoSubscriber::default()));
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone());
        let guard = match lines {
            Lines::Text => subscriber.finish().set_default(),
            Lines::Json => subscriber.json().finish().set_default(),
        };
        (log, Capturing { _guard: guard, _second: second })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("the log")).into_owned()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().expect("the log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
