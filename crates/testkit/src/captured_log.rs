//! Captures what a thread logs, so that a test can read it.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Captured text. Clones write to the same buffer.
#[derive(Debug, Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

/// Captures until dropped.
#[derive(Debug)]
pub struct Capturing {
    _guard: DefaultGuard,
    /// With a single subscriber in the process, `tracing` caches the interest that the first thread to reach
    /// a call site computes, for all threads. A second subscriber makes it consult both.
    _second: Dispatch,
}

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    Text,
    Json,
}

impl CapturedLog {
    /// Captures what this thread logs; for tests that run on one thread.
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
