//! Tests of the order's state machine: every pair of state and signal, and random walks.

use proptest::prelude::*;

use super::*;
use crate::broker::{BrokerFault, CONFLICT_PROCESSED, PROCESSED_MARKER, classify_answer};

const POLICY: OrderRetryPolicy = OrderRetryPolicy::ORDER;

fn key() -> IdempotencyKey {
    IdempotencyKey::parse("k-1").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn state(status: OrderStatus, retry_count: u32, maybe_executed: bool) -> OrderState {
    OrderState { status, retry_count, next_attempt_at: at(50), maybe_executed, idempotency_key: key() }
}

fn answer(status: u16) -> BrokerOutcome {
    let body: &[u8] = br#"{"idempotency_key":"k-1","broker_order_id":"b-1"}"#;
    // 1409 represents a 409 response with evidence.
    let (status, body) = match status {
        1409 => (409, body),
        409 => (409, &b"{}"[..]),
        other => (other, body),
    };
    classify_answer(status, body, &key(), PROCESSED_MARKER, Some(b"600"), at(100))
}

fn settle(state: &OrderState, outcome: &BrokerOutcome, probe: bool) -> OrderUpdate {
    match step(state, &OrderSignal::Settled { outcome, probe }, &POLICY, at(100)) {
        OrderDecision::Update(update) => update,
        OrderDecision::Ignore(why) => panic!("ignored: {why:?}"),
    }
}

#[test]
fn exactly_the_specified_transitions_are_legal() {
    use OrderStatus::{Dead, Failed, Queued, Sending, Sent};
    let legal = [
        (Queued, Queued),
        (Queued, Sending),
        (Sending, Sending),
        (Sending, Sent),
        (Sending, Failed),
        (Sending, Dead),
        (Sending, Queued),
        (Failed, Failed),
        (Failed, Queued),
        (Failed, Dead),
    ];
    for from in OrderStatus::ALL {
        assert_eq!(OrderStatus::parse(from.as_str()), Some(from));
        assert_eq!(from.is_terminal(), matches!(from, Sent | Dead));
        for to in OrderStatus::ALL {
            assert_eq!(from.may_become(to), legal.contains(&(from, to)), "{from:?} to {to:?}");
        }
    }
    assert_eq!(OrderStatus::parse("Queued"), None);
}

#[test]
fn signals_for_another_state_are_ignored() {
    let outcome = answer(200);
    let signals = [
        OrderSignal::Due,
        OrderSignal::Settled { outcome: &outcome, probe: false },
        OrderSignal::Stuck,
        OrderSignal::Unsent,
        OrderSignal::Unreadable,
    ];
    for status in OrderStatus::ALL {
        for signal in &signals {
            let decision = step(&state(status, 0, false), signal, &POLICY, at(100));
            let expected = match (status, signal) {
                (OrderStatus::Sent | OrderStatus::Dead, _) => Some(OrderIgnored::Terminal),
                (OrderStatus::Failed, OrderSignal::Due)
                | (
                    OrderStatus::Sending,
                    OrderSignal::Settled { .. }
                    | OrderSignal::Stuck
                    | OrderSignal::Unsent
                    | OrderSignal::Unreadable,
                ) => None,
                (OrderStatus::Queued | OrderStatus::Failed | OrderStatus::Sending, _) => {
                    Some(OrderIgnored::WrongState)
                }
            };
            let ignored = match decision {
                OrderDecision::Ignore(why) => Some(why),
                OrderDecision::Update(_) => None,
            };
            assert_eq!(ignored, expected, "{status:?} {signal:?}");
        }
    }
}

#[test]
fn each_outcome_leads_to_its_state() {
    use OrderStatus::{Dead, Failed, Sent};
    // Columns: status, new state, counted, last_error, maybe_executed.
    let rows = [
        (200, Sent, 0, None, false),
        (204, Sent, 0, None, false),
        (1409, Sent, 0, Some("CONFLICT_PROCESSED"), false),
        (409, Failed, 1, Some("UNKNOWN"), true),
        (302, Failed, 1, Some("UNKNOWN"), true),
        (400, Dead, 0, Some("BAD_REQUEST"), false),
        (422, Dead, 0, Some("BAD_REQUEST"), false),
        (404, Dead, 0, Some("BAD_REQUEST"), false),
        (401, Dead, 0, Some("UNAUTHORIZED"), false),
        (403, Dead, 0, Some("UNAUTHORIZED"), false),
        (408, Failed, 1, Some("NETWORK_TIMEOUT"), true),
        (429, Failed, 1, Some("RATE_LIMITED"), false),
        (500, Failed, 1, Some("BROKER_5XX"), true),
        (503, Failed, 1, Some("BROKER_5XX"), true),
    ];
    for (status, becomes, counted, last_error, maybe_executed) in rows {
        for earlier in [false, true] {
            let before = state(OrderStatus::Sending, 2, earlier);
            let update = settle(&before, &answer(status), false);
            assert_eq!(update.status, becomes, "{status}");
            assert_eq!(update.retry_count, 2 + counted, "{status}");
            assert_eq!(update.last_error.as_ref().map(ErrorCode::as_str), last_error, "{status}");
            // An order that the broker accepted is known to be executed, regardless of earlier attempts.
            let in_doubt = becomes != Sent && (maybe_executed || earlier);
            assert_eq!(update.maybe_executed, in_doubt, "{status}");
            assert_eq!(update.receipt.is_some(), becomes == Sent, "{status}");
            let wait = match status {
                429 | 503 => Duration::from_secs(600),
                _ => POLICY.backoff("k-1", 3),
            };
            let next = if becomes == Failed { at(100).after(wait) } else { at(50) };
            assert_eq!(update.next_attempt_at, next, "{status}");
        }
    }
}

#[test]
fn each_fault_is_retried_and_records_whether_it_may_have_executed() {
    let rows = [
        (BrokerFault::ConnectFailed, false),
        (BrokerFault::DnsFailed, false),
        (BrokerFault::TlsFailed, false),
        (BrokerFault::TimedOut { bytes_written: true }, true),
        (BrokerFault::Reset { bytes_written: false }, false),
        (BrokerFault::Reset { bytes_written: true }, true),
        (BrokerFault::Unreadable, true),
    ];
    for (fault, maybe_executed) in rows {
        let update = settle(&state(OrderStatus::Sending, 0, false), &BrokerOutcome::NoAnswer(fault), false);
        assert_eq!((update.status, update.retry_count), (OrderStatus::Failed, 1), "{fault:?}");
        assert_eq!(update.maybe_executed, maybe_executed, "{fault:?}");
        assert_eq!(update.next_attempt_at, at(100).after(POLICY.backoff("k-1", 1)), "{fault:?}");
        assert_eq!(update.note.as_deref(), Some(fault.note()));
    }
}

#[test]
fn probe_counts_as_a_retry_only_if_the_broker_may_have_received_it() {
    let refused = answer(401);
    let unreachable = BrokerOutcome::NoAnswer(BrokerFault::ConnectFailed);
    let silent = BrokerOutcome::NoAnswer(BrokerFault::TimedOut { bytes_written: true });
    // Columns: outcome, retries before, new state, retries after.
    let rows = [
        (&refused, 0, OrderStatus::Failed, 0),
        (&refused, 8, OrderStatus::Failed, 8),
        (&unreachable, 8, OrderStatus::Failed, 8),
        (&silent, 7, OrderStatus::Failed, 8),
        (&silent, 8, OrderStatus::Dead, 9),
        (&answer(500), 8, OrderStatus::Dead, 9),
        (&answer(400), 0, OrderStatus::Dead, 0),
        (&answer(200), 0, OrderStatus::Sent, 0),
    ];
    for (outcome, before, becomes, after) in rows {
        let update = settle(&state(OrderStatus::Sending, before, false), outcome, true);
        assert_eq!((update.status, update.retry_count), (becomes, after), "{outcome:?} after {before}");
        if becomes == OrderStatus::Failed {
            assert!(update.next_attempt_at > at(100));
            assert_eq!(update.last_error, outcome.code());
        }
    }
}

#[test]
fn order_is_sent_at_most_nine_times() {
    let silent = BrokerOutcome::NoAnswer(BrokerFault::TimedOut { bytes_written: true });
    let mut now = at(100);
    let mut order = OrderState::fresh(key(), now);
    for send in 1..=9 {
        order.status = OrderStatus::Sending;
        let decision = step(&order, &OrderSignal::Settled { outcome: &silent, probe: false }, &POLICY, now);
        let previous = order.next_attempt_at;
        order = order.after(&decision);
        assert!(order.maybe_executed);
        if send == 9 {
            assert_eq!((order.status, order.retry_count), (OrderStatus::Dead, 9));
            break;
        }
        assert_eq!((order.status, order.retry_count), (OrderStatus::Failed, send));
        assert_eq!(order.next_attempt_at, now.after(POLICY.backoff("k-1", send)));
        assert!(order.next_attempt_at > previous);
        let early = step(&order, &OrderSignal::Due, &POLICY, now);
        assert_eq!(early, OrderDecision::Ignore(OrderIgnored::NotDue));
        now = order.next_attempt_at;
        order = order.clone().after(&step(&order, &OrderSignal::Due, &POLICY, now));
        assert_eq!((order.status, order.retry_count), (OrderStatus::Queued, send));
        assert_eq!(order.next_attempt_at, now, "the queue stays ordered by time");
    }
}

#[test]
fn lowered_limit_ends_a_waiting_order() {
    let lowered = OrderRetryPolicy { retries_max: 3, ..POLICY };
    for (retry_count, becomes) in [(3, OrderStatus::Queued), (4, OrderStatus::Dead)] {
        let decision =
            step(&state(OrderStatus::Failed, retry_count, true), &OrderSignal::Due, &lowered, at(100));
        let OrderDecision::Update(update) = decision else { panic!("ignored") };
        assert_eq!((update.status, update.retry_count), (becomes, retry_count));
        assert_eq!((update.last_error, update.maybe_executed), (None, true));
    }
}

#[test]
fn stuck_order_is_requeued_or_ends_and_may_have_been_executed() {
    for (before, becomes, next) in [(0, OrderStatus::Queued, 100), (8, OrderStatus::Dead, 50)] {
        let decision =
            step(&state(OrderStatus::Sending, before, false), &OrderSignal::Stuck, &POLICY, at(100));
        let OrderDecision::Update(update) = decision else { panic!("ignored") };
        assert_eq!((update.status, update.retry_count), (becomes, before + 1));
        assert_eq!(update.next_attempt_at, at(next));
        assert_eq!((update.last_error, update.maybe_executed), (Some(UNKNOWN), true));
    }
}

#[test]
fn released_order_counts_no_retry_and_changed_order_is_never_sent() {
    for maybe_executed in [false, true] {
        let rows = [
            (OrderSignal::Unsent, OrderStatus::Queued, None, 1),
            (OrderSignal::Unreadable, OrderStatus::Dead, Some(UNKNOWN), 0),
        ];
        for (signal, becomes, last_error, later_us) in rows {
            let before = state(OrderStatus::Sending, 3, maybe_executed);
            let OrderDecision::Update(update) = step(&before, &signal, &POLICY, at(100)) else {
                panic!("ignored")
            };
            assert_eq!((update.status, update.retry_count, &update.last_error), (becomes, 3, &last_error));
            assert_eq!(update.maybe_executed, maybe_executed);
            assert_eq!(update.next_attempt_at, at(50).after(Duration::from_micros(later_us)));
            assert!(update.note.is_some());
        }
    }
}

#[test]
fn conflict_with_evidence_has_a_receipt() {
    let update = settle(&state(OrderStatus::Sending, 1, true), &answer(1409), false);
    assert_eq!(update.last_error, Some(CONFLICT_PROCESSED));
    let id = update.receipt.and_then(|receipt| receipt.broker_order_id);
    assert_eq!(id.as_deref(), Some("b-1"));
}

fn outcome() -> impl Strategy<Value = BrokerOutcome> {
    let statuses = vec![200, 302, 400, 401, 403, 408, 409, 1409, 429, 500, 503];
    prop_oneof![
        3 => prop::sample::select(statuses).prop_map(answer),
        1 => any::<bool>().prop_map(|bytes_written| BrokerOutcome::NoAnswer(BrokerFault::Reset { bytes_written })),
        1 => Just(BrokerOutcome::NoAnswer(BrokerFault::ConnectFailed)),
    ]
}

proptest! {
    #[test]
    fn invariants_hold_on_random_walks(
        walk in prop::collection::vec((0_u8..6, outcome(), any::<bool>(), 0_i64..400), 0..60),
        retries_max in 0_u32..12,
    ) {
        let policy = OrderRetryPolicy { retries_max, ..POLICY };
        let mut now = at(100);
        let mut order = OrderState::fresh(key(), now);
        let mut ambiguous = false;
        for (signal, outcome, probe, passed) in walk {
            now = now.after(Duration::from_secs(passed.unsigned_abs()));
            if signal == 3 {
                if order.status == OrderStatus::Queued && order.next_attempt_at <= now {
                    order.status = OrderStatus::Sending;
                }
                continue;
            }
            let signal = match signal {
                0 => OrderSignal::Due,
                1 => OrderSignal::Settled { outcome: &outcome, probe },
                2 => OrderSignal::Stuck,
                4 => OrderSignal::Unsent,
                _ => OrderSignal::Unreadable,
            };
            let before = order.clone();
            let decision = step(&before, &signal, &policy, now);
            order = order.after(&decision);
            let OrderDecision::Update(update) = decision else {
                prop_assert_eq!(&before, &order);
                continue;
            };
            prop_assert!(before.status.may_become(order.status), "{:?} to {:?}", before.status, order.status);
            prop_assert!(order.retry_count >= before.retry_count);
            prop_assert!(order.retry_count <= retries_max + 1);
            prop_assert!(order.next_attempt_at >= before.next_attempt_at);
            prop_assert_eq!(update.receipt.is_some(), order.status == OrderStatus::Sent);
            if before.status == OrderStatus::Sending {
                ambiguous |= match &signal {
                    OrderSignal::Settled { outcome, .. } => outcome.may_have_executed(),
                    OrderSignal::Stuck => true,
                    OrderSignal::Due
                    | OrderSignal::ClockStep { .. }
                    | OrderSignal::Unsent
                    | OrderSignal::Unreadable => false,
                };
                if matches!(order.status, OrderStatus::Failed | OrderStatus::Queued) {
                    prop_assert!(order.next_attempt_at > before.next_attempt_at);
                }
            }
            prop_assert_eq!(order.maybe_executed, ambiguous && order.status != OrderStatus::Sent);
        }
    }
}
