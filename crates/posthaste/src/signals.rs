//! Handles the signals that shut down a process: SIGTERM and SIGINT.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the signal handlers.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("installing signal handlers");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Runs `work` to completion and returns its output. If a signal arrives first, drops `work` and returns `None`.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            _ = self.next() => None,
        }
    }
}
