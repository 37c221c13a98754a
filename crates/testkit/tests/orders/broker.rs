//! What a broker answers: in words of HTTP, and byte by byte.

use posthaste_testkit::receiver::{Act, Answer, Received};

/// An acceptance as the specification shows it, of the order that was sent.
pub(crate) fn accepted(request: &Received) -> Answer {
    let key = request.header("idempotency-key");
    let body = format!(
        r#"{{"broker_order_id":"brk-{key}","accepted_at":"2027-01-15T08:00:00Z","status":"accepted","fills":[],"idempotency_key":"{key}"}}"#
    );
    Answer::With { status: 200, headers: Vec::new(), body: body.into_bytes() }
}

/// An answer of HTTP, byte by byte, after which the connection ends.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
    vec![Act::SayLong(text), Act::Close]
}
