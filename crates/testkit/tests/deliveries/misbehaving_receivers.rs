//! Tests misbehaving receivers together with a healthy one: every attempt ends with the right code, and the
//! healthy receiver gets all its deliveries.

use posthaste_core::ports::Stores;
use posthaste_core::saga::SagaStatus;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::Act::{self, Endlessly, Hold, Reset, Say, SayLong, Trickle};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::time::Duration;

/// Returns the script of each receiver and the expected error code, which is empty if the delivery succeeds.
fn rows() -> Vec<(Vec<Act>, &'static str)> {
    let many: String = (0..10_000).map(|number| format!("x-{number}: y\r\n")).collect();
    vec![
        (vec![Say(b"HTTP/1.1 200 OK\r\nx: "), Trickle(&[b'y'; 200])], "TIMEOUT"),
        (vec![Hold], "TIMEOUT"),
        (
            vec![Say(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n"), Endlessly(&[b'x'; 65_536])],
            "",
        ),
        (vec![Say(b"HTTP/1.1 200 OK\r\n"), Reset], ""),
        (vec![Reset], "CONNECT_FAILED"),
        (vec![Endlessly(b"HTTP/1.1 100 Continue\r\n\r\n")], "RESPONSE_INVALID"),
        (vec![SayLong(format!("HTTP/1.1 200 OK\r\n{many}\r\n"))], "RESPONSE_INVALID"),
        (vec![Say(b"220 mail.example ESMTP\r\n")], "RESPONSE_INVALID"),
    ]
}

pub(crate) async fn misbehaving_receivers_do_not_affect_a_healthy_one<S: Stores>(h: Harness<S>) {
    const EVENTS: usize = 10;
    let mut rig = Rig::with(h, Setup { deadline: Duration::from_secs(3), ..Setup::default() });
    let healthy = Receiver::start(|_| Answer::Status(200)).await;
    rig.subscribe("healthy", &healthy.url("/")).await;
    let mut odd = Vec::new();
    let mut receivers = Vec::new();
    for (number, (acts, code)) in rows().into_iter().enumerate() {
        let (kind, receiver) = (format!("odd-{number}"), Receiver::scripted(acts).await);
        rig.subscribe(&kind, &receiver.url("/hook")).await;
        receivers.push(receiver);
        odd.extend(rig.publish_many(&kind, EVENTS).await.into_iter().map(|event| (number, code, event)));
    }
    let good = rig.publish_many("healthy", 5 * EVENTS).await;
    rig.until_quiet().await;
    for (number, code, event) in odd {
        let status = if code.is_empty() { SagaStatus::Completed } else { SagaStatus::PendingRetry };
        assert_eq!(rig.fate_of(event).await, (status, 1, code.to_owned()), "row {number}");
    }
    for event in good {
        assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
    }
    assert_eq!(healthy.received().len(), 5 * EVENTS);
    rig.h.check_invariants().await;
}
