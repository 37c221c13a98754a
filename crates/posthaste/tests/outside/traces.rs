//! Checks that every attempt sends the `traceparent` of its event to the receiver and logs the correlation id.

use crate::served::{Engine, PATIENCE, Served};
use crate::world;
use posthaste_testkit::processes::LogLine;
use posthaste_testkit::receiver::{Received, Receiver};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// A `traceparent` that is invalid because its parent id is zero.
const INVALID_TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";

async fn check(engine: Engine) {
    let settings = [("POSTHASTE_RETRY_BASE", "1ms"), ("POSTHASTE_LOG", "debug")];
    let served = Served::start(engine, &settings).await;
    let receiver = Receiver::start(world::answer).await;
    // Two attempts each, so that a retry is also checked.
    world::subscribe(&served, "traced", &receiver.url("/refuse"), 2);
    let known = receiver.received().len();
    for (number, (sent, expected)) in [(TRACE, TRACE), (INVALID_TRACE, ""), ("", "")].into_iter().enumerate()
    {
        let call = served.call("POST", "/v1/events").json(r#"{"event_type":"traced","payload":1}"#);
        let call = call.header("x-correlation-id", &format!("correlated-{number}"));
        let call = if sent.is_empty() { call } else { call.header("traceparent", sent) };
        call.send_blocking().expect(202);
        let received = receiver.wait_for(known + 2 * number + 2).await;
        for request in &received[known + 2 * number..] {
            assert_eq!(request.header("traceparent"), expected, "{sent:?}: {request:?}");
        }
        let attempts: Vec<&str> = received[known + 2 * number..]
            .iter()
            .map(|request| request.header("posthaste-attempt"))
            .collect();
        assert_eq!(attempts, ["1", "2"]);
        let finished = |attempt: usize| {
            move |line: &LogLine| {
                line.message == "attempt finished"
                    && line.text.contains(&format!("\"correlated-{number}\""))
                    && line.text.contains(&format!("\"attempt\":{attempt}"))
            }
        };
        for attempt in [1, 2] {
            assert!(served.process.logs(finished(attempt), PATIENCE).await, "{:#?}", served.process.lines());
        }
    }
    let has_correlation_id =
        |request: &Received| request.headers.keys().any(|name| name.as_str().contains("correlation"));
    assert!(!receiver.received().iter().any(has_correlation_id), "the correlation id was sent to a receiver");
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_context_is_propagated_on_sqlite() {
    check(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_context_is_propagated_on_postgres() {
    check(Engine::Postgres).await;
}
