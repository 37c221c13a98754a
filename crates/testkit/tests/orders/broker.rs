//! Broker responses for the tests, as [`Answer`]s and as raw bytes.

use posthaste_testkit::receiver::{Act, Answer, Received};

/// Returns the response with which a broker accepts an order, as in the specification.
pub(crate) fn accepted(request: &Received) -> Answer {
    let key = request.header("idempotency-key");
    let body = format!(
        r#"{{"broker_order_id":"brk-{key}","accepted_at":"2027-01-15T08:00:00Z","status":"accepted","fills":[],"idempotency_key":"{key}"}}"#
    );
    Answer::With { status: 200, headers: Vec::new(), body: body.into_bytes() }
}

/// Returns a script that writes an HTTP response and closes the connection.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
    vec![Act::SayLong(text), Act::Close]
}
