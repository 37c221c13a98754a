//! Combines single calls into batches, for ingest, job reports and orders. A batch contains the calls that
//! arrived while the previous batch was processed. There is no timer, so a single call is executed at once,
//! and batches grow with the load. The queue is bounded; a call fails if it is full.

use crate::clock::Clock;
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use posthaste_core::Timestamp;
use posthaste_core::ports::{StoreError, StoreResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// An error returned by [`Batcher::call`].
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The queue is full. The call was not executed and may be retried.
    #[error("queue full, try again in a moment")]
    Full,
    /// The batcher was shut down, or the handler panicked. It is unknown whether the call was executed.
    #[error("the call was aborted, whether it was executed is unknown")]
    Gone,
    /// The whole batch that contained the call failed.
    #[error(transparent)]
    Failed(Arc<StoreError>),
}

/// A handler that processes the batches of a [`Batcher`].
pub trait BatchHandler: Send {
    type Input: Send;
    type Output: Send;

    /// Processes a batch. Returns one output for each input, in the same order.
    fn handle(
        &mut self,
        inputs: Vec<Self::Input>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<Self::Output>, Failed<Self::Input>>> + Send;
}

/// A failed batch.
#[derive(Debug)]
pub struct Failed<In> {
    pub error: StoreError,
    /// The inputs to retry while their callers keep waiting. If `None`, the error is returned to the callers.
    pub again: Option<Vec<In>>,
}

impl<In> Failed<In> {
    /// Creates the failure of a batch of reports, which is retried if the error may be transient. Each report
    /// contains the token of its claim, so a retry is harmless even if the first call was executed.
    pub(crate) fn repeated(error: StoreError, reports: Vec<In>) -> Self {
        let is_retryable = match error {
            StoreError::Unavailable { .. }
            | StoreError::OutcomeUnknown { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. }
            // For example a refused login, until the operator corrects the password.
            | StoreError::Unusable { .. } => true,
            StoreError::Refused { .. } | StoreError::Unreadable { .. } => false,
        };
        Self { error, again: is_retryable.then_some(reports) }
    }
}

type Caller<Out> = oneshot::Sender<Result<Out, Arc<StoreError>>>;

/// The sending half of a batcher: queues calls. Cheap to clone.
#[derive(Debug)]
pub struct Batcher<In, Out> {
    queue: mpsc::Sender<(In, Caller<Out>)>,
    wake_up: WakeUp,
}

impl<In, Out> Clone for Batcher<In, Out> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), wake_up: self.wake_up.clone() }
    }
}

/// The receiving half of a batcher. Each step processes one batch.
#[derive(Debug)]
pub struct Batches<W: BatchHandler> {
    queue: mpsc::Receiver<(W::Input, Caller<W::Output>)>,
    work: W,
    batch_max: usize,
    /// The inputs and callers of a failed batch that the next step retries.
    held: (Vec<W::Input>, Vec<Caller<W::Output>>),
    wake_up: WakeUp,
}

/// Creates a batcher whose queue holds at most `waiting_max` calls and whose batches contain at most
/// `batch_max`.
pub fn batcher<W: BatchHandler>(
    work: W,
    waiting_max: usize,
    batch_max: usize,
) -> (Batcher<W::Input, W::Output>, Batches<W>) {
    let (sender, queue) = mpsc::channel(waiting_max.max(1));
    let (wake_up, held) = (WakeUp::default(), (Vec::new(), Vec::new()));
    let batches = Batches { queue, work, batch_max: batch_max.max(1), held, wake_up: wake_up.clone() };
    (Batcher { queue: sender, wake_up }, batches)
}

impl<In, Out> Batcher<In, Out> {
    /// Queues a call and waits for its result.
    ///
    /// # Errors
    ///
    /// Returns [`BatchError::Full`] if the queue is full, [`BatchError::Failed`] if the batch failed, and
    /// [`BatchError::Gone`] if the batcher was shut down or its handler panicked.
    pub async fn call(&self, input: In) -> Result<Out, BatchError> {
        let (answer, answered) = oneshot::channel();
        self.queue.try_send((input, answer)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => BatchError::Full,
            mpsc::error::TrySendError::Closed(_) => BatchError::Gone,
        })?;
        self.wake_up.notify();
        match answered.await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) => Err(BatchError::Failed(error)),
            Err(_) => Err(BatchError::Gone),
        }
    }
}

impl<W: BatchHandler> Batches<W> {
    /// Returns the wake-up that each call notifies.
    pub fn wake_up(&self) -> WakeUp {
        self.wake_up.clone()
    }

    fn take_batch(&mut self) -> (Vec<W::Input>, Vec<Caller<W::Output>>) {
        let (mut inputs, mut callers) = std::mem::take(&mut self.held);
        while inputs.len() < self.batch_max
            && let Ok((input, caller)) = self.queue.try_recv()
        {
            inputs.push(input);
            callers.push(caller);
        }
        (inputs, callers)
    }
}

impl<W: BatchHandler> Step for Batches<W> {
    async fn step(&mut self, now: Timestamp) -> StoreResult<Progress> {
        let (inputs, callers) = self.take_batch();
        if inputs.is_empty() {
            return Ok(Progress::Unasked);
        }
        match self.work.handle(inputs, now).await {
            // Sending fails if the caller no longer waits, which is harmless.
            Ok(outputs) => callers.into_iter().zip(outputs).for_each(|(caller, output)| {
                let _ = caller.send(Ok(output));
            }),
            Err(Failed { error, again: Some(inputs) }) => {
                self.held = (inputs, callers);
                return Err(error);
            }
            Err(Failed { error, again: None }) => {
                let shared = Arc::new(error.flattened());
                for caller in callers {
                    let _ = caller.send(Err(Arc::clone(&shared)));
                }
                return Err(error);
            }
        }
        Ok(if self.queue.is_empty() { Progress::Idle } else { Progress::More })
    }

    /// Closes the queue and processes the remaining calls, for at most `patience`.
    async fn drain(&mut self, clock: &Clock, patience: Duration) {
        self.queue.close();
        let all = async {
            while !(self.queue.is_empty() && self.held.0.is_empty()) {
                if self.step(clock.now()).await.is_err() {
                    tokio::time::sleep(DRAIN_PAUSE).await;
                }
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            let calls = self.queue.len() + self.held.0.len();
            tracing::error!(
                calls,
                "store still unavailable at the end of the drain, pending calls discarded"
            );
        }
    }
}

/// The pause after a step that failed during a drain.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    const NOW: Timestamp = Timestamp::from_micros(0);

    /// A handler that doubles numbers. A batch with 0 fails; a batch with 100 fails once and is retried.
    #[derive(Default)]
    struct Doubling {
        sizes: Arc<Mutex<Vec<usize>>>,
        failed: bool,
    }

    impl BatchHandler for Doubling {
        type Input = u32;
        type Output = u32;

        async fn handle(&mut self, inputs: Vec<u32>, _now: Timestamp) -> Result<Vec<u32>, Failed<u32>> {
            self.sizes.lock().expect("the list").push(inputs.len());
            let unavailable = || StoreError::Unavailable { doing: "doubling", source: "no".into() };
            if inputs.contains(&0) {
                return Err(Failed { error: unavailable(), again: None });
            }
            if inputs.contains(&100) && !self.failed {
                self.failed = true;
                return Err(Failed { error: unavailable(), again: Some(inputs) });
            }
            Ok(inputs.into_iter().map(|input| input * 2).collect())
        }
    }

    type Calling = std::pin::Pin<Box<dyn Future<Output = Result<u32, BatchError>>>>;

    /// Queues a call and returns its future.
    fn calling(calls: &Batcher<u32, u32>, input: u32) -> Calling {
        let calls = calls.clone();
        let mut call: Calling = Box::pin(async move { calls.call(input).await });
        assert!(poll(&mut call).is_pending());
        call
    }

    fn poll(call: &mut Calling) -> Poll<Result<u32, BatchError>> {
        call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn answer(call: &mut Calling) -> Result<u32, BatchError> {
        match poll(call) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("the call is pending"),
        }
    }

    #[tokio::test]
    async fn batch_contains_all_waiting_calls_up_to_its_maximum() {
        let work = Doubling::default();
        let sizes = Arc::clone(&work.sizes);
        let (calls, mut batches) = batcher(work, 100, 10);
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::Unasked);
        let mut waiting: Vec<_> = (1..=15).map(|input| (input, calling(&calls, input))).collect();
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::More);
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::Idle);
        for (input, call) in &mut waiting {
            assert_eq!(answer(call).expect("a result"), *input * 2, "each caller gets its own result");
        }
        assert_eq!(*sizes.lock().expect("the list"), [10, 5]);
    }

    #[tokio::test]
    async fn call_fails_at_once_if_the_queue_is_full() {
        let (calls, batches) = batcher(Doubling::default(), 1, 1);
        let mut waiting = calling(&calls, 1);
        assert!(matches!(calls.call(2).await, Err(BatchError::Full)));
        drop(batches);
        assert!(matches!(answer(&mut waiting), Err(BatchError::Gone)));
        assert!(matches!(calls.call(3).await, Err(BatchError::Gone)));
    }

    #[tokio::test]
    async fn failed_batch_fails_its_calls_and_no_later_ones() {
        let (calls, mut batches) = batcher(Doubling::default(), 10, 10);
        let (mut bad, mut other) = (calling(&calls, 0), calling(&calls, 5));
        assert!(batches.step(NOW).await.is_err());
        assert!(matches!(answer(&mut bad), Err(BatchError::Failed(_))));
        assert!(matches!(answer(&mut other), Err(BatchError::Failed(_))));
        let mut next = calling(&calls, 5);
        batches.step(NOW).await.expect("a step");
        assert_eq!(answer(&mut next).expect("a result"), 10);
    }

    #[tokio::test]
    async fn failed_batch_is_retried_together_with_new_calls() {
        let work = Doubling::default();
        let sizes = Arc::clone(&work.sizes);
        let (calls, mut batches) = batcher(work, 10, 10);
        let mut first = calling(&calls, 100);
        assert!(batches.step(NOW).await.is_err());
        assert!(poll(&mut first).is_pending(), "its caller keeps waiting");
        let mut second = calling(&calls, 1);
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::Idle);
        assert_eq!((answer(&mut first).expect("200"), answer(&mut second).expect("2")), (200, 2));
        assert_eq!(*sizes.lock().expect("the list"), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn drain_processes_waiting_calls_and_refuses_new_ones() {
        let (calls, mut batches) = batcher(Doubling::default(), 10, 1);
        let mut waiting = [calling(&calls, 100), calling(&calls, 2)];
        batches.drain(&Clock::fixed(NOW), Duration::from_secs(5)).await;
        for (call, expected) in waiting.iter_mut().zip([200, 4]) {
            assert_eq!(answer(call).expect("a result"), expected);
        }
        assert!(matches!(calls.call(3).await, Err(BatchError::Gone)));
    }
}
