//! Reads request bodies, with limits on the size, the time and the memory of all bodies together. Does not parse them.

use crate::problem::{Problem, ProblemKind};
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, request};
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The time limit for receiving a body.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);
/// The maximum number of bytes of an oversized body that are read and discarded. A client that is still sending can
/// read the response only if the connection stays open.
const IGNORED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The time limit for discarding the rest of an oversized body.
const IGNORED_WITHIN: Duration = Duration::from_secs(2);
/// The maximum size of a body, in bytes, except for events and orders.
pub(crate) const SMALL_BYTES_MAX: usize = 64 * 1024;
/// The number of bytes that one permit of the memory limit represents.
const PERMIT_BYTES: usize = 1024;

/// A complete body with its permits of the memory limit.
#[derive(Debug)]
pub(crate) struct Upload {
    bytes: Vec<u8>,
    share: Option<OwnedSemaphorePermit>,
}

impl Upload {
    /// Returns the body as text.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 400 if the body is not valid UTF-8.
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let at = error.valid_up_to();
            Problem::malformed(format!("the body is not UTF-8: the byte at offset {at} is invalid"))
        })
    }

    /// Grows the buffer to at least `bytes`, doubling its capacity up to the announced length. The capacity, not the
    /// length, counts against the memory limit.
    fn reserve(
        &mut self,
        uploads: &Arc<Semaphore>,
        bytes: usize,
        announced: Option<usize>,
    ) -> Result<(), Problem> {
        if bytes > self.bytes.capacity() {
            let doubled = self.bytes.capacity().saturating_mul(2);
            let capacity = announced.map_or(doubled, |announced| doubled.min(announced)).max(bytes);
            self.take_share(uploads, capacity)?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        Ok(())
    }

    fn take_share(&mut self, uploads: &Arc<Semaphore>, bytes: usize) -> Result<(), Problem> {
        let held = self.share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needed = bytes.div_ceil(PERMIT_BYTES).saturating_sub(held);
        if needed == 0 {
            return Ok(());
        }
        let more =
            u32::try_from(needed).ok().and_then(|n| Arc::clone(uploads).try_acquire_many_owned(n).ok());
        let Some(more) = more else {
            let detail = "the memory for request bodies is in use: try again in a moment";
            return Err(Problem::try_again(ProblemKind::ServerBusy, detail));
        };
        match &mut self.share {
            Some(share) => share.merge(more),
            None => self.share = Some(more),
        }
        Ok(())
    }
}

/// Receives the body of a request.
///
/// # Errors
///
/// Returns a problem with status 413 if the body is larger than `bytes_max`, 408 if it takes too long, 415 if it is
/// compressed, or 503 if the memory limit is reached.
pub(crate) async fn receive(
    uploads: &Arc<Semaphore>,
    request: Request,
    bytes_max: usize,
) -> Result<(request::Parts, Upload), Problem> {
    let (head, mut body) = request.into_parts();
    refuse_encoded(&head.headers)?;
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut upload = Upload { bytes: Vec::new(), share: None };
    let whole = async {
        if announced.is_some_and(|bytes: usize| bytes > bytes_max) {
            return Err(too_large(bytes_max));
        }
        while let Some(data) = next(&mut body).await? {
            let bytes = upload.bytes.len() + data.len();
            if bytes > bytes_max {
                return Err(too_large(bytes_max));
            }
            upload.reserve(uploads, bytes, announced)?;
            upload.bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    let slow = || {
        let seconds = ARRIVES_WITHIN.as_secs();
        let detail = format!("the body was not received within {seconds} s: send it again");
        Problem::of(ProblemKind::RequestTimeout, detail)
    };
    let received = timeout(ARRIVES_WITHIN, whole).await.unwrap_or_else(|_| Err(slow()));
    if let Err(problem) = received {
        drop(upload);
        if problem.status == 413 {
            discard_rest(body).await;
        }
        return Err(problem);
    }
    Ok((head, upload))
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::too_large(format!("the body is too large: send at most {bytes_max} bytes"))
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::malformed("the body is incomplete: the connection was closed before its end")
        })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn discard_rest(mut body: Body) {
    let mut bytes = 0;
    let rest = async {
        while bytes <= IGNORED_BYTES_MAX
            && let Ok(Some(data)) = next(&mut body).await
        {
            bytes += data.len();
        }
    };
    let _ = timeout(IGNORED_WITHIN, rest).await;
}

fn refuse_encoded(headers: &HeaderMap) -> Result<(), Problem> {
    let encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity");
    if encoded {
        return Err(Problem::unsupported(
            "the body must not be compressed: send it without content-encoding",
        ));
    }
    Ok(())
}

/// Returns the media type of a body in lower case without parameters, or an empty string if the header is missing.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Receives a JSON body of at most [`SMALL_BYTES_MAX`] bytes.
pub(crate) async fn receive_json(uploads: &Arc<Semaphore>, request: Request) -> Result<Upload, Problem> {
    receive_as(&["application/json"], uploads, request).await
}

/// Receives a merge patch (RFC 7396) of at most [`SMALL_BYTES_MAX`] bytes.
pub(crate) async fn receive_merge_patch(
    uploads: &Arc<Semaphore>,
    request: Request,
) -> Result<Upload, Problem> {
    receive_as(&["application/merge-patch+json", "application/json"], uploads, request).await
}

/// Receives a body with one of the `accepted` media types, or without a content type.
async fn receive_as(
    accepted: &[&str],
    uploads: &Arc<Semaphore>,
    request: Request,
) -> Result<Upload, Problem> {
    let media = media_type(request.headers());
    let (_, upload) = receive(uploads, request, SMALL_BYTES_MAX).await?;
    if !upload.bytes.is_empty() && !media.is_empty() && !accepted.contains(&media.as_str()) {
        let detail = format!("the content type is not accepted: send {}", accepted.join(" or "));
        return Err(Problem::unsupported(detail));
    }
    Ok(upload)
}
