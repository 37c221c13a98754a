//! Combines single calls into batches, for ingest, job reports and orders. A batch is what arrived while the
//! previous one was processed. There is no timer, so a single call is executed at once, and batches grow with
//! the load. The queue is bounded; a call that finds it full fails.

use crate::clock::Clock;
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use posthaste_core::Timestamp;
use posthaste_core::ports::{StoreError, StoreResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Why a call got no result from its handler.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The queue is full. The call was not executed and may be repeated.
    #[error("queue full, try again in a moment")]
    Full,
    /// The batcher was shut down, or the handler panicked. Whether the call was executed is unknown.
    #[error("the call was aborted, whether it was executed is unknown")]
    Gone,
    /// The batch failed, and with it every call in it.
    #[error(transparent)]
    Failed(Arc<StoreError>),
}

/// Processes the batches of a batcher.
pub trait BatchHandler: Send {
    type Input: Send;
    type Output: Send;

    /// Returns one output for each input, in the same order.
    fn handle(
        &mut self,
        inputs: Vec<Self::Input>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<Self::Output>, Failed<Self::Input>>> + Send;
}

/// A failed batch. The inputs in `again` are retried while their callers keep waiting; with `None` the
/// callers get the error.
#[derive(Debug)]
pub struct Failed<In> {
    pub error: StoreError,
    pub again: Option<Vec<In>>,
}

impl<In> Failed<In> {
    /// Creates the failure of a batch of reports. Each report carries the token of its claim, so a repetition
    /// is harmless even if the first one was executed. The batch is retried if the error may be transient.
    pub(crate) fn repeated(error: StoreError, reports: Vec<In>) -> Self {
        let is_retryable = match error {
            StoreError::Unavailable { .. }
            | StoreError::OutcomeUnknown { .. }
            | StoreError::Busy { .. }
            | StoreError::Full { .. } => true,
            StoreError::Refused { .. } | StoreError::Unreadable { .. } | StoreError::Unusable { .. } => false,
        };
        Self { error, again: is_retryable.then_some(reports) }
    }
}

type Caller<Out> = oneshot::Sender<Result<Out, Arc<StoreError>>>;

/// The sending side: accepts calls. Cheap to clone.
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

/// The receiving side: a step that processes one batch.
#[derive(Debug)]
pub struct Batches<W: BatchHandler> {
    queue: mpsc::Receiver<(W::Input, Caller<W::Output>)>,
    work: W,
    batch_max: usize,
    /// A failed batch that is retried.
    held: (Vec<W::Input>, Vec<Caller<W::Output>>),
    wake_up: WakeUp,
}

/// Creates a batcher with a queue of at most `waiting_max` calls and batches of at most `batch_max`.
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
    /// Queues a call and waits for the result of its batch.
    ///
    /// # Errors
    ///
    /// [`BatchError::Full`] if the queue is full, [`BatchError::Failed`] if the batch failed.
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
    /// Returns the wake-up that is notified for each call.
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
            // A caller that stopped waiting is ignored.
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

    /// Closes the queue and processes the calls in it, for at most `patience`.
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

/// The pause after a failed step while draining.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    const NOW: Timestamp = Timestamp::from_micros(0);

    /// Doubles numbers. A batch with 0 fails; a batch with 100 fails once and is retried.
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

    /// Returns a call that is in the queue.
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
