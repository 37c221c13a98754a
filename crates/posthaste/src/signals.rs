//! What asks a process to end: SIGTERM, and SIGINT from the keyboard.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// What the work comes to, unless a signal comes first.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            _ = self.next() => None,
        }
    }
}
