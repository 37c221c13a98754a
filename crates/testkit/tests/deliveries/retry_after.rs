//! Tests how the `Retry-After` header in a response delays the next attempt.

use posthaste_core::ports::Stores;
use posthaste_core::saga::SagaStatus;
use posthaste_testkit::fixtures::{T0, at};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Receiver};

/// The status, the value of the header, and the expected delay of the next attempt in seconds. The test starts on
/// Friday, 15 January 2027, at 08:00:00 UTC.
const ROWS: &[(u16, &str, u64)] = &[
    // Delays in seconds.
    (429, "45", 45),
    (503, "300", 300),
    (503, " 300\t", 300),
    (429, "007200", 3600),
    (503, "3601", 3600),
    (503, "99999999999999999999999", 3600),
    // Delays below the backoff.
    (429, "0", 30),
    (503, "29", 30),
    // Dates.
    (503, "Fri, 15 Jan 2027 08:10:00 GMT", 600),
    (429, "Friday, 15-Jan-27 08:10:00 GMT", 600),
    (503, "Fri Jan 15 08:10:00 2027", 600),
    (429, "Sat, 16 Jan 2027 08:00:00 GMT", 3600),
    (503, "Fri, 15 Jan 2027 08:00:05 GMT", 30),
    (429, "Thu, 01 Jan 1970 00:00:00 GMT", 30),
    // Other statuses, for which the header is ignored.
    (500, "300", 30),
    (408, "300", 30),
    (301, "300", 30),
    (502, "Fri, 15 Jan 2027 08:10:00 GMT", 30),
    // Malformed values.
    (503, "", 30),
    (429, "soon", 30),
    (503, "-300", 30),
    (429, "+300", 30),
    (503, "300.5", 30),
    (429, "3e2", 30),
    (503, "0x12c", 30),
    (429, "300s", 30),
    (503, "300, 400", 30),
    (429, "3 00", 30),
    (503, "\"300\"", 30),
    (429, "2027-01-15T08:10:00Z", 30),
    (503, "Fri, 32 Jan 2027 08:10:00 GMT", 30),
    (429, "Fri, 15 Jan 2027 08:10:00", 30),
    (503, "Fri, 15 Jan 2027 25:10:00 GMT", 30),
    (429, "PT5M", 30),
];

pub(crate) async fn retry_after_delays_the_next_attempt<S: Stores>(h: Harness<S>) {
    assert_eq!(T0.micros(), 1_800_000_000_000_000, "the dates are relative to this time");
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|request| {
        let row: usize = request.path[1..].parse().expect("a row");
        let (status, header, _) = ROWS[row];
        let headers = vec![("retry-after".to_owned(), header.to_owned())];
        Answer::With { status, headers, body: Vec::new() }
    })
    .await;
    let mut events = Vec::new();
    for row in 0..ROWS.len() {
        let kind = format!("row-{row}");
        rig.subscribe(&kind, &receiver.url(&format!("/{row}"))).await;
        events.push(rig.publish(&kind).await);
    }
    rig.until_quiet().await;
    for ((status, header, seconds), event) in ROWS.iter().zip(events) {
        let what = format!("{status}, {header:?}");
        assert_eq!(
            rig.fate_of(event).await,
            (SagaStatus::PendingRetry, 1, format!("HTTP_{status}")),
            "{what}"
        );
        assert_eq!(rig.saga_of(event).await.state.next_attempt_at, at(*seconds), "{what}");
    }
    assert_eq!(receiver.received().len(), ROWS.len());
}
