//! Tests the checker with valid evidence that is changed in one place at a time.

use super::super::evidence::Responses;
use super::*;
use crate::broker::accounts::{Books, Executed};
use std::time::Duration;

const S: i64 = 1_000_000;

fn order(key: &str, status: &str) -> OrderRow {
    OrderRow {
        key: key.to_owned(),
        status: status.to_owned(),
        retry_count: 0,
        last_error: None,
        maybe_executed: false,
        request_digest: format!("digest of {key}"),
    }
}

fn row(key: &str, from: Option<&str>, to: &str, at_us: i64) -> AuditRow {
    let (from, last_error) = (from.map(str::to_owned), None);
    AuditRow { key: key.to_owned(), from, to: to.to_owned(), retry_count: 0, last_error, at_us }
}

fn send(key: &str, at_us: i64) -> Sent {
    let name = Some(key.to_owned());
    Sent { key: name.clone(), body_key: name, body_digest: format!("digest of {key}"), at_us }
}

fn executed(key: &str, order: u64) -> Executed {
    Executed { key: key.to_owned(), order: Some(order) }
}

/// Creates valid evidence: order a is sent after a first request that was never settled, and order b is refused.
fn good() -> Evidence {
    let rewound = AuditRow { retry_count: 1, ..row("a", Some("sending"), "queued", 10 * S) };
    let again = AuditRow { retry_count: 1, ..row("a", Some("queued"), "sending", 10 * S) };
    let end = AuditRow { retry_count: 1, ..row("a", Some("sending"), "sent", 11 * S) };
    Evidence {
        responses: [
            ("a".to_owned(), Responses { new: 1, same: 3 }),
            ("b".to_owned(), Responses { new: 0, same: 1 }),
        ]
        .into(),
        orders: vec![
            OrderRow { retry_count: 1, maybe_executed: true, ..order("a", "sent") },
            order("b", "dead"),
        ],
        audit: vec![
            row("a", None, "queued", 0),
            row("b", None, "queued", 0),
            row("a", Some("queued"), "sending", S),
            row("b", Some("queued"), "sending", S),
            row("b", Some("sending"), "dead", 2 * S),
            rewound,
            again,
            end,
        ],
        books: Books {
            sent: vec![send("a", S), send("b", S), send("a", 10 * S)],
            executed: vec![executed("a", 1)],
        },
        freezes_us: Vec::new(),
        request_timeout: Duration::from_secs(1),
    }
}

fn rules(evidence: &Evidence) -> Vec<Rule> {
    check(evidence).into_iter().map(|complaint| complaint.rule).collect()
}

#[test]
fn a_good_run_has_no_violations() {
    assert_eq!(check(&good()), []);
}

#[test]
fn each_violation_is_detected_alone() {
    type Break = fn(&mut Evidence);
    let rows: &[(Rule, Break)] = &[
        (Rule::OrderMissing, |e| {
            e.responses.insert("c".to_owned(), Responses { new: 1, same: 0 });
        }),
        (Rule::AcceptedTwice, |e| {
            e.responses.insert("a".to_owned(), Responses { new: 2, same: 0 });
        }),
        (Rule::Unasked, |e| {
            e.responses.remove("b");
        }),
        (Rule::Unasked, |e| e.books.sent.push(send("c", S))),
        (Rule::Unasked, |e| e.books.executed.push(executed("c", 3))),
        (Rule::SentUnexecuted, |e| e.books.executed.clear()),
        (Rule::DeadYetExecuted, |e| e.books.executed.push(executed("b", 2))),
        (Rule::ExecutedTwice, |e| e.books.executed.push(executed("a", 2))),
        // The same order is executed under another key. `maybe_executed` avoids a second violation.
        (Rule::ExecutedTwice, |e| {
            e.books.executed.push(executed("b", 1));
            e.orders[1].maybe_executed = true;
        }),
        (Rule::BodyChanged, |e| e.books.sent[2].body_digest = "another".to_owned()),
        (Rule::BodyChanged, |e| e.books.sent[2].body_key = Some("b".to_owned())),
        (Rule::BodyChanged, |e| e.books.sent[2].body_key = None),
        (Rule::SentBeyondClaims, |e| e.books.sent.push(send("a", 10 * S))),
        (Rule::SentAfterEnd, |e| e.books.sent[2].at_us = 12 * S + 1),
        (Rule::AuditBroken, |e| {
            e.audit.remove(0);
        }),
        (Rule::AuditBroken, |e| e.audit[5].to = "failed".to_owned()),
        (Rule::AuditBroken, |e| e.orders[0].retry_count = 2),
        (Rule::AuditBroken, |e| e.orders[1].last_error = Some("BAD_REQUEST".to_owned())),
    ];
    for (number, (rule, break_it)) in rows.iter().enumerate() {
        let mut evidence = good();
        break_it(&mut evidence);
        assert_eq!(rules(&evidence), [*rule], "row {number}");
    }
}

#[test]
fn an_unfinished_order_is_reported() {
    for status in ["queued", "sending", "failed"] {
        let mut evidence = good();
        evidence.orders[1].status = status.to_owned();
        evidence.audit[4].to = status.to_owned();
        assert_eq!(rules(&evidence), [Rule::Unfinished], "{status}");
    }
}

#[test]
fn maybe_executed_permits_a_dead_order_that_was_executed() {
    let mut evidence = good();
    evidence.books.executed.push(executed("b", 2));
    evidence.orders[1].maybe_executed = true;
    assert_eq!(rules(&evidence), []);
}

#[test]
fn only_a_frozen_sender_may_send_after_the_end() {
    for (freeze, fine) in [
        ((9 * S, 19 * S + S / 2), true),
        // The sender resumed long before.
        ((9 * S, 18 * S), false),
        // The sender was stopped after the order had finished.
        ((11 * S + 1, 20 * S), false),
        ((2 * S, 9 * S), false),
    ] {
        let mut evidence = good();
        evidence.books.sent[2].at_us = 20 * S;
        evidence.freezes_us = vec![freeze];
        assert_eq!(rules(&evidence).is_empty(), fine, "{freeze:?}");
    }
}
