//! Receives a body within bounds: its own size, the time it takes, and the memory of all bodies
//! together. Nothing is parsed here.

use crate::problem::Problem;
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

/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);
/// A body that is too large is read on for a moment, so that its sender gets to read the answer.
const IGNORED_BYTES_MAX: usize = 4 * 1024 * 1024;
const IGNORED_WITHIN: Duration = Duration::from_secs(2);
/// The largest body of every call but ingest.
pub(crate) const SMALL_BYTES_MAX: usize = 64 * 1024;
const PERMIT_BYTES: usize = 1024;

/// A whole body, with its share of the memory for bodies.
#[derive(Debug)]
pub(crate) struct Upload {
    bytes: Vec<u8>,
    share: Option<OwnedSemaphorePermit>,
}

impl Upload {
    pub(crate) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let at = error.valid_up_to();
            Problem::unreadable(format!(
                "the body is not UTF-8: the byte at offset {at} does not belong there"
            ))
        })
    }

    /// Makes room for `bytes` in total. What counts is the memory of the buffer, not what it holds: it doubles, though
    /// not beyond the announced length.
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
            return Err(Problem::try_again("Too much is being received", "try again in a moment"));
        };
        match &mut self.share {
            Some(share) => share.merge(more),
            None => self.share = Some(more),
        }
        Ok(())
    }
}

/// Reads the body of a request that may hold up to `bytes_max`.
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
    let slow = || Problem::new(408, "Too slow", "the body did not arrive in time: send it again");
    let received = timeout(ARRIVES_WITHIN, whole).await.unwrap_or_else(|_| Err(slow()));
    if let Err(problem) = received {
        drop(upload);
        if problem.status == 413 {
            ignore_rest(body).await;
        }
        return Err(problem);
    }
    Ok((head, upload))
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::too_large(format!("the body has more than {bytes_max} bytes: send less at once"))
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::unreadable("the body broke off"))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn ignore_rest(mut body: Body) {
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

/// The media type of a body in small letters, without its parameters; empty when none is named.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads the small JSON body of a call that is not ingest.
pub(crate) async fn receive_json(uploads: &Arc<Semaphore>, request: Request) -> Result<Upload, Problem> {
    let media = media_type(request.headers());
    let (_, upload) = receive(uploads, request, SMALL_BYTES_MAX).await?;
    if !upload.bytes.is_empty() && !media.is_empty() && media != "application/json" {
        return Err(Problem::unsupported("the body must be JSON: send content-type: application/json"));
    }
    Ok(upload)
}
