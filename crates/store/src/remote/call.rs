//! A call to the store, and its retries after faults.

use super::Fault;
use posthaste_core::ports::StoreResult;
use std::future::Future;
use std::time::Duration;

/// Maximum number of tries of a call, including the first.
const TRIES_MAX: u32 = 3;
/// Pause before the second try. Each further pause is four times as long.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// A description for error messages, such as "claiming jobs".
    doing: &'static str,
    idempotent: bool,
}

impl Call {
    /// Creates an idempotent call, which has the same effect when it is repeated.
    pub(crate) const fn repeatable(doing: &'static str) -> Self {
        Self { doing, idempotent: true }
    }

    /// Creates a call that must not be repeated unless it had no effect.
    pub(crate) const fn once(doing: &'static str) -> Self {
        Self { doing, idempotent: false }
    }

    /// Runs the call, and repeats it if the fault allows that. Each try gets its own connection.
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

    /// Converts a fault to the error that the port returns.
    pub(crate) fn conclude<T>(self, result: Result<T, Fault>) -> StoreResult<T> {
        result.map_err(|fault| fault.into_error(self.doing, self.idempotent))
    }
}
