//! One call of a store, and its repetition after a fault.

use super::Fault;
use posthaste_core::ports::StoreResult;
use std::future::Future;
use std::time::Duration;

/// How often a call is tried in all.
const TRIES_MAX: u32 = 3;
/// The pause before the second try. It grows fourfold.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// For messages: "claiming jobs".
    doing: &'static str,
    idempotent: bool,
}

impl Call {
    /// A call that has the same effect when it is made twice.
    pub(crate) const fn repeatable(doing: &'static str) -> Self {
        Self { doing, idempotent: true }
    }

    /// A call that must not be made again unless nothing was done.
    pub(crate) const fn once(doing: &'static str) -> Self {
        Self { doing, idempotent: false }
    }

    /// Runs the call, and repeats it where its fault allows that. Each run gets its own connection.
    pub(crate) async fn run<T, F>(self, run: impl Fn() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut pause = RETRY_PAUSE;
        for _ in 1..TRIES_MAX {
            match run().await {
                Err(fault) if fault.may_repeat(self.idempotent) => tokio::time::sleep(pause).await,
                result => return result,
            }
            pause *= 4;
        }
        run().await
    }

    /// Turns the result into that of a port.
    pub(crate) fn conclude<T>(self, result: Result<T, Fault>) -> StoreResult<T> {
        result.map_err(|fault| fault.into_error(self.doing, self.idempotent))
    }
}
