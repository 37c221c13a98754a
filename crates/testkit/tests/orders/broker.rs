//! Responses of a broker: as HTTP, and byte by byte.

use posthaste_testkit::receiver::{Act, Answer, Received};

/// Returns the acceptance of an order, as in the specification.
pub(crate) fn accepted(request: &Received) -> Answer {
    let key = request.header("idempotency-key");
    let body = format!(
        r#"{{"broker_order_id":"brk-{key}","accepted_at":"2027-01-15T08:00:00Z","status":"accepted","fills":[],"idempotency_key":"{key}"}}"#
    );
    Answer::With { status: 200, headers: Vec::new(), body: body.into_bytes() }
}

/// Returns an HTTP response byte by byte, after which the connection is closed.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
    vec![Act::SayLong(text), Act::Close]
}
