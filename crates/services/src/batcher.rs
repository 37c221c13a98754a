//! Turns many single calls into few large ones, for ingest, job reports and orders alike. A batch is
//! what waited while the batch before was worked on: no timer, so one call alone goes at once, and the
//! more come the larger the batches are. The queue is bounded; a caller who finds it full is told so.

use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Why a call was not answered by the work itself.
#[derive(Debug, thiserror::Error)]
pub enum BatchError<E> {
    /// Too much waits already. Nothing was done; come back.
    #[error("too much waits already: try again in a moment")]
    Full,
    /// The batcher was shut down, or the work broke off. Whether it was done is not known.
    #[error("the work broke off")]
    Gone,
    /// The batch failed, and every call in it with it.
    #[error(transparent)]
    Failed(Arc<E>),
}

type Call<In, Out, E> = (In, oneshot::Sender<Result<Out, Arc<E>>>);

/// Where calls go in. Cheap to clone.
#[derive(Debug)]
pub struct Batcher<In, Out, E> {
    queue: mpsc::Sender<Call<In, Out, E>>,
}

impl<In, Out, E> Clone for Batcher<In, Out, E> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

/// Where batches come out; [`Batches::run`] works on them until every [`Batcher`] is gone.
#[derive(Debug)]
pub struct Batches<In, Out, E> {
    queue: mpsc::Receiver<Call<In, Out, E>>,
    batch_max: usize,
}

/// A queue of at most `waiting_max` calls, worked on at most `batch_max` at a time.
pub fn batcher<In, Out, E>(
    waiting_max: usize,
    batch_max: usize,
) -> (Batcher<In, Out, E>, Batches<In, Out, E>) {
    let (sender, receiver) = mpsc::channel(waiting_max.max(1));
    (Batcher { queue: sender }, Batches { queue: receiver, batch_max: batch_max.max(1) })
}

impl<In, Out, E> Batcher<In, Out, E> {
    /// Waits for the answer of the batch that takes this call along.
    pub async fn call(&self, input: In) -> Result<Out, BatchError<E>> {
        let (answer, answered) = oneshot::channel();
        self.queue.try_send((input, answer)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => BatchError::Full,
            mpsc::error::TrySendError::Closed(_) => BatchError::Gone,
        })?;
        match answered.await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) => Err(BatchError::Failed(error)),
            Err(_) => Err(BatchError::Gone),
        }
    }
}

impl<In, Out, E> Batches<In, Out, E> {
    /// Works on batches, one after the other; `work` answers every call of a batch in order, or fails
    /// them all. Ends when nobody can call any more and what waited is done.
    pub async fn run<F>(mut self, work: impl Fn(Vec<In>) -> F)
    where
        F: Future<Output = Result<Vec<Out>, E>>,
    {
        let mut calls = Vec::new();
        while self.queue.recv_many(&mut calls, self.batch_max).await > 0 {
            let (inputs, callers): (Vec<_>, Vec<_>) = calls.drain(..).unzip();
            match work(inputs).await {
                // A caller that gave up does not stop the others' answers.
                Ok(outputs) => callers.into_iter().zip(outputs).for_each(|(caller, output)| {
                    let _ = caller.send(Ok(output));
                }),
                Err(error) => {
                    let error = Arc::new(error);
                    callers.into_iter().for_each(|caller| {
                        let _ = caller.send(Err(Arc::clone(&error)));
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn a_batch_is_what_waited_while_the_last_one_was_worked_on() {
        let (calls, batches) = batcher::<u32, u32, String>(100, 10);
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Semaphore::new(0));
        let (seen, open) = (Arc::clone(&sizes), Arc::clone(&gate));
        let worker = tokio::spawn(batches.run(move |inputs: Vec<u32>| {
            seen.lock().expect("the list").push(inputs.len());
            let open = Arc::clone(&open);
            async move {
                open.acquire().await.expect("the gate").forget();
                Ok(inputs.into_iter().map(|input| input * 2).collect())
            }
        }));
        let mut callers = tokio::task::JoinSet::new();
        let call = |input| {
            let calls = calls.clone();
            async move { (input, calls.call(input).await.expect("an answer")) }
        };
        callers.spawn(call(0));
        while sizes.lock().expect("the list").is_empty() {
            tokio::task::yield_now().await;
        }
        // The first is being worked on; these gather behind it, and the bound cuts them in two.
        for input in 1..=15 {
            callers.spawn(call(input));
        }
        while calls.queue.capacity() > 85 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(3);
        for (input, output) in callers.join_all().await {
            assert_eq!(output, input * 2, "everybody gets the answer to his own call");
        }
        assert_eq!(*sizes.lock().expect("the list"), [1, 10, 5]);
        drop(calls);
        worker.await.expect("the worker ends with its callers");
    }

    #[tokio::test]
    async fn a_full_queue_is_said_at_once() {
        let (calls, batches) = batcher::<u32, u32, String>(1, 1);
        let waiting = tokio::spawn({
            let calls = calls.clone();
            async move { calls.call(1).await }
        });
        while calls.queue.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(calls.call(2).await, Err(BatchError::Full)));
        drop(batches);
        assert!(matches!(waiting.await.expect("a task"), Err(BatchError::Gone)));
        assert!(matches!(calls.call(3).await, Err(BatchError::Gone)));
    }

    #[tokio::test]
    async fn a_failed_batch_fails_every_call_in_it_and_the_next_one_goes_on() {
        let (calls, batches) = batcher::<u32, u32, String>(10, 10);
        tokio::spawn(batches.run(|inputs: Vec<u32>| async move {
            if inputs.contains(&0) { Err("no".to_owned()) } else { Ok(inputs) }
        }));
        assert!(matches!(calls.call(0).await, Err(BatchError::Failed(error)) if *error == "no"));
        assert_eq!(calls.call(5).await.expect("an answer"), 5);
    }
}
