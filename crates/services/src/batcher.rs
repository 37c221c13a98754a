//! Turns many single calls into few large ones, for ingest, job reports and orders alike. A batch is
//! what waited while the batch before was worked on: no timer, so one call alone goes at once, and the
//! more come the larger the batches are. The queue is bounded; a caller who finds it full is told so.

use crate::clock::Clock;
use crate::step::{Progress, Step};
use crate::wake::WakeUp;
use posthaste_core::Timestamp;
use posthaste_core::ports::{StoreError, StoreResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Why a call was not answered by the work itself.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Too much waits already. Nothing was done; come back.
    #[error("too much waits already: try again in a moment")]
    Full,
    /// The batcher was shut down, or the work broke off. Whether it was done is not known.
    #[error("the work broke off")]
    Gone,
    /// The batch failed, and every call in it with it.
    #[error(transparent)]
    Failed(Arc<StoreError>),
}

/// What is done with a batch.
pub trait BatchHandler: Send {
    type Input: Send;
    type Output: Send;

    /// Answers every call in order, or fails.
    fn handle(
        &mut self,
        inputs: Vec<Self::Input>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<Self::Output>, Failed<Self::Input>>> + Send;
}

/// A batch that failed. What comes back in `again` is tried again, and its callers go on waiting;
/// otherwise they are told.
#[derive(Debug)]
pub struct Failed<In> {
    pub error: StoreError,
    pub again: Option<Vec<In>>,
}

impl<In> Failed<In> {
    /// A batch of reports, each under the token of its claim: a repetition is harmless, also if the first was carried
    /// out. It is tried again, unless waiting does not help.
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

/// Where calls go in. Cheap to clone.
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

/// Where batches come out: a step that works on one of them.
#[derive(Debug)]
pub struct Batches<W: BatchHandler> {
    queue: mpsc::Receiver<(W::Input, Caller<W::Output>)>,
    work: W,
    batch_max: usize,
    /// A batch that failed and is tried again.
    held: (Vec<W::Input>, Vec<Caller<W::Output>>),
    wake_up: WakeUp,
}

/// A queue of at most `waiting_max` calls, worked on at most `batch_max` at a time.
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
    /// Waits for the answer of the batch that takes this call along.
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
    /// What rings when there is a call.
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
            // A caller that gave up does not stop the others' answers.
            Ok(outputs) => callers.into_iter().zip(outputs).for_each(|(caller, output)| {
                let _ = caller.send(Ok(output));
            }),
            Err(Failed { error, again: Some(inputs) }) => {
                self.held = (inputs, callers);
                return Err(error);
            }
            Err(Failed { error, again: None }) => {
                let told = Arc::new(error.flattened());
                for caller in callers {
                    let _ = caller.send(Err(Arc::clone(&told)));
                }
                return Err(error);
            }
        }
        Ok(if self.queue.is_empty() { Progress::Idle } else { Progress::More })
    }

    /// Takes no more calls, and works on what waits until it is done or patience ends.
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
            tracing::error!(calls, "the store stayed away to the end; what waited was given up");
        }
    }
}

/// Between two tries at the end.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    const NOW: Timestamp = Timestamp::from_micros(0);

    /// Doubles numbers; a zero fails its batch, and a hundred makes it fail once and be tried again.
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
            let away = || StoreError::Unavailable { doing: "doubling", source: "no".into() };
            if inputs.contains(&0) {
                return Err(Failed { error: away(), again: None });
            }
            if inputs.contains(&100) && !self.failed {
                self.failed = true;
                return Err(Failed { error: away(), again: Some(inputs) });
            }
            Ok(inputs.into_iter().map(|input| input * 2).collect())
        }
    }

    type Calling = std::pin::Pin<Box<dyn Future<Output = Result<u32, BatchError>>>>;

    /// A call that has been put into the queue.
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
            Poll::Pending => panic!("not answered"),
        }
    }

    #[tokio::test]
    async fn a_batch_is_what_waited_up_to_its_bound() {
        let work = Doubling::default();
        let sizes = Arc::clone(&work.sizes);
        let (calls, mut batches) = batcher(work, 100, 10);
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::Unasked);
        let mut waiting: Vec<_> = (1..=15).map(|input| (input, calling(&calls, input))).collect();
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::More);
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::Idle);
        for (input, call) in &mut waiting {
            assert_eq!(answer(call).expect("an answer"), *input * 2, "everybody gets his own answer");
        }
        assert_eq!(*sizes.lock().expect("the list"), [10, 5]);
    }

    #[tokio::test]
    async fn a_full_queue_is_said_at_once() {
        let (calls, batches) = batcher(Doubling::default(), 1, 1);
        let mut waiting = calling(&calls, 1);
        assert!(matches!(calls.call(2).await, Err(BatchError::Full)));
        drop(batches);
        assert!(matches!(answer(&mut waiting), Err(BatchError::Gone)));
        assert!(matches!(calls.call(3).await, Err(BatchError::Gone)));
    }

    #[tokio::test]
    async fn a_failed_batch_tells_its_callers_and_the_next_one_goes_on() {
        let (calls, mut batches) = batcher(Doubling::default(), 10, 10);
        let (mut bad, mut beside) = (calling(&calls, 0), calling(&calls, 5));
        assert!(batches.step(NOW).await.is_err());
        assert!(matches!(answer(&mut bad), Err(BatchError::Failed(_))));
        assert!(matches!(answer(&mut beside), Err(BatchError::Failed(_))));
        let mut next = calling(&calls, 5);
        batches.step(NOW).await.expect("a step");
        assert_eq!(answer(&mut next).expect("an answer"), 10);
    }

    #[tokio::test]
    async fn a_batch_that_comes_back_is_tried_again_with_what_came_since() {
        let work = Doubling::default();
        let sizes = Arc::clone(&work.sizes);
        let (calls, mut batches) = batcher(work, 10, 10);
        let mut first = calling(&calls, 100);
        assert!(batches.step(NOW).await.is_err());
        assert!(poll(&mut first).is_pending(), "its caller goes on waiting");
        let mut second = calling(&calls, 1);
        assert_eq!(batches.step(NOW).await.expect("a step"), Progress::Idle);
        assert_eq!((answer(&mut first).expect("200"), answer(&mut second).expect("2")), (200, 2));
        assert_eq!(*sizes.lock().expect("the list"), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn draining_ends_what_waits_and_takes_no_more() {
        let (calls, mut batches) = batcher(Doubling::default(), 10, 1);
        let mut waiting = [calling(&calls, 100), calling(&calls, 2)];
        batches.drain(&Clock::fixed(NOW), Duration::from_secs(5)).await;
        for (call, expected) in waiting.iter_mut().zip([200, 4]) {
            assert_eq!(answer(call).expect("an answer"), expected);
        }
        assert!(matches!(calls.call(3).await, Err(BatchError::Gone)));
    }
}
