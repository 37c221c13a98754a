//! An HTTP/1.1 connection. It is polled by the task that uses it, and by no task while it is idle. Because it
//! has no task of its own, an exchange needs no context switch between threads.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::wire::{Stream, Track};

/// The maximum size of a response head, in bytes. The parser also rejects more than 100 headers. Bodies use
/// the same buffer.
const HEAD_BYTES_MAX: usize = 16 * 1024;

type Driver = Pin<Box<http1::Connection<TokioIo<Stream>, Full<Bytes>>>>;

#[derive(Debug)]
pub(super) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    /// The connection future, or `None` after the connection has ended. Pending requests then fail.
    driver: Option<Driver>,
    track: Track,
    /// The address that was checked before the connection was opened. Behind a proxy, this is the address of
    /// the receiver.
    peer: SocketAddr,
}

/// The reason why there is no response.
#[derive(Debug)]
pub(super) struct NoAnswer {
    pub(super) error: hyper::Error,
    /// Whether hyper returned the request unsent, or no byte of it was written.
    pub(super) unsent: bool,
}

/// The result of reading a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    Complete,
    /// The body is longer than the limit.
    Cut,
    BrokenOff,
}

impl Connection {
    pub(super) async fn open(stream: Stream, track: Track, peer: SocketAddr) -> hyper::Result<Self> {
        let (requests, driver) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await?;
        Ok(Self { requests, driver: Some(Box::pin(driver)), track, peer })
    }

    pub(super) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) const fn track(&self) -> &Track {
        &self.track
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn request(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let answer = self.requests.try_send_request(request);
        match drive(&mut self.driver, answer).await {
            Ok(response) => {
                self.track.head_is_complete();
                Ok(response)
            }
            Err(mut failed) => {
                let returned = failed.take_message().is_some();
                let unsent = returned || self.track.lock().bytes_written == 0;
                Err(NoAnswer { error: failed.into_error(), unsent })
            }
        }
    }

    /// Reads a body of up to `bytes_max` bytes and appends it to `kept`, if present.
    pub(super) async fn read_body(
        &mut self,
        mut body: Incoming,
        bytes_max: usize,
        mut kept: Option<&mut Vec<u8>>,
    ) -> BodyEnd {
        let mut room = bytes_max;
        loop {
            let data = match drive(&mut self.driver, body.frame()).await {
                None => return BodyEnd::Complete,
                Some(Err(_)) => return BodyEnd::BrokenOff,
                // Trailers are ignored.
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(data.get(..room).unwrap_or(&data));
            }
            let Some(left) = room.checked_sub(data.len()) else { return BodyEnd::Cut };
            room = left;
        }
    }

    /// Returns whether the connection can accept another request, as far as is known. Also replaces the waker
    /// of the task that used the connection, so that no task is woken while it is idle.
    pub(super) async fn is_reusable(&mut self) -> bool {
        let driver = &mut self.driver;
        // The cooperative budget of the task does not apply here: a forced `Pending` would look like a
        // healthy peer.
        tokio::task::coop::unconstrained(poll_fn(|_| {
            let mut noop = Context::from_waker(Waker::noop());
            if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(&mut noop).is_ready()) {
                *driver = None;
            }
            Poll::Ready(())
        }))
        .await;
        self.driver.is_some() && self.requests.is_ready()
    }
}

/// Polls the connection until `work`, which depends on it, is ready.
async fn drive<F: Future>(driver: &mut Option<Driver>, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
            *driver = None;
        }
        work.as_mut().poll(cx)
    })
    .await
}
