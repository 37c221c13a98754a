//! Limits the memory of all responses in transit. A client that reads slowly keeps its response in memory.

use crate::problem::{Problem, ProblemKind};
use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of bytes that one permit of the budget represents.
const PERMIT_BYTES: usize = 1024;
/// The maximum size of a response that is not counted, in bytes. Most responses are smaller, and error responses must
/// always be sent.
const UNCOUNTED_BYTES_MAX: usize = 4 * 1024;

/// The memory budget shared by all responses.
#[derive(Debug, Clone)]
pub(crate) struct ResponseBudget(Arc<Semaphore>);

/// A reserved part of the budget. Released on drop.
#[derive(Debug)]
pub(crate) struct Reservation(OwnedSemaphorePermit);

/// A marker for responses whose body is already counted.
#[derive(Debug, Clone, Copy)]
struct Counted;

impl ResponseBudget {
    /// Creates a budget of `kib` KiB.
    pub(crate) fn new(kib: usize) -> Self {
        Self(Arc::new(Semaphore::new(kib)))
    }

    /// Reserves `bytes` before a response of this size is read from the store.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 503 if the remaining budget is too small.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation, Problem> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok();
        let permit = permits.and_then(|permits| Arc::clone(&self.0).try_acquire_many_owned(permits).ok());
        permit.map(Reservation).ok_or_else(|| {
            let detail = "the memory for responses is in use: try again in a moment";
            Problem::try_again(ProblemKind::ServerBusy, detail)
        })
    }

    /// Counts a response until it has been sent or the client has disconnected.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 503 if the remaining budget is too small.
    pub(crate) fn count(&self, response: Response) -> Result<Response, Problem> {
        let is_counted = response.extensions().get::<Counted>().is_some();
        let bytes = body_bytes(&response);
        if is_counted || bytes <= UNCOUNTED_BYTES_MAX {
            return Ok(response);
        }
        self.reserve(bytes).map(|reservation| reservation.hold(response))
    }
}

impl Reservation {
    /// Attaches the reservation to the body of a response until it has been sent. Releases the unused part immediately.
    pub(crate) fn hold(mut self, response: Response) -> Response {
        let needed = body_bytes(&response).div_ceil(PERMIT_BYTES);
        drop(self.0.split(self.0.num_permits().saturating_sub(needed)));
        let (mut head, body) = response.into_parts();
        head.extensions.insert(Counted);
        Response::from_parts(head, Body::new(HeldBody { body, reservation: Arc::new(self) }))
    }
}

fn body_bytes(response: &Response) -> usize {
    let hint = response.body().size_hint();
    usize::try_from(hint.upper().unwrap_or(hint.lower())).unwrap_or(usize::MAX)
}

/// A body whose frames hold the reservation. The body itself cannot hold it, because the server drops the body as soon
/// as the last frame is queued.
struct HeldBody {
    body: Body,
    reservation: Arc<Reservation>,
}

struct HeldBytes {
    bytes: Bytes,
    _reservation: Arc<Reservation>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let held =
            |bytes| Bytes::from_owner(HeldBytes { bytes, _reservation: Arc::clone(&self.reservation) });
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;
    use http_body_util::BodyExt as _;

    fn response(bytes: usize) -> Response {
        vec![b'x'; bytes].into_response()
    }

    #[tokio::test]
    async fn a_response_is_counted_until_its_last_frame_is_dropped() {
        let budget = ResponseBudget::new(10);
        let status = |bytes| budget.count(response(bytes)).map_or_else(|problem| problem.status, |_| 200);
        let first = budget.count(response(8 * 1024)).expect("room");
        assert_eq!(first.body().size_hint().exact(), Some(8 * 1024), "the length is still known");
        let refused = budget.count(response(8 * 1024)).expect_err("no room");
        assert_eq!((refused.status, refused.retry_after_s), (503, Some(1)));
        assert_eq!(status(4 * 1024), 200, "a small response is never refused");
        // The frame is queued, as in the buffer of a connection whose client does not read.
        let mut body = first.into_body();
        let frame = body.frame().await.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
        drop(body);
        assert_eq!(frame.as_ref().map(Bytes::len), Some(8 * 1024));
        assert_eq!(status(8 * 1024), 503);
        drop(frame);
        assert_eq!(status(8 * 1024), 200);
    }

    #[test]
    fn an_excess_reservation_is_released() {
        let budget = ResponseBudget::new(10);
        let reserved = budget.reserve(10 * 1024).expect("all of it");
        assert_eq!(budget.reserve(1).expect_err("the budget is empty").status, 503);
        let first = reserved.hold(response(5 * 1024));
        assert_eq!(budget.0.available_permits(), 5);
        let first = budget.count(first).expect("room");
        assert_eq!(budget.0.available_permits(), 5, "it is counted once");
        drop(first);
        assert_eq!(budget.0.available_permits(), 10);
    }
}
