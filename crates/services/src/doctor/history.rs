//! Checks one page of history: the conservation of events, and whether rows are consistent with their state.

use super::{Check, Status, counted};
use posthaste_core::Timestamp;
use posthaste_core::conservation::{conserve, order_fault, saga_fault};
use posthaste_core::history::SubscriptionChange;
use posthaste_core::ids::SubscriptionId;
use posthaste_core::ports::Examined;
use std::collections::BTreeMap;

/// The maximum number of faults listed. Any others are only counted.
const NAMED_MAX: usize = 10;

const REPAIR: &str = "stop manual writes to the database, keep a backup, and report it with these ids: \
                      the program never creates such rows";

/// The findings for one page of history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFindings {
    pub checks: Vec<Check>,
    pub events: u64,
    pub deliveries: u64,
    pub orders: u64,
    /// The number of event and subscription pairs for which the recorded changes do not show whether they
    /// match.
    pub undecidable: u64,
    /// The number of faults found.
    pub faults: u64,
}

pub fn examine_page(page: &Examined, now: Timestamp) -> PageFindings {
    let (conservation, undecidable, lost) = conservation(page, now);
    let (sagas, saga_faults) = rows(
        "deliveries",
        "every delivery has exactly what its state says",
        page.sagas.iter().map(|saga| (format!("delivery {}", saga.id), saga_fault(saga))),
    );
    let (orders, order_faults) = rows(
        "orders",
        "every order agrees with its ledger and audit",
        page.orders.iter().map(|order| (format!("order {}", order.id), order_fault(order))),
    );
    PageFindings {
        checks: vec![conservation, sagas, orders],
        events: count(page.events.len()),
        deliveries: count(page.sagas.len()),
        orders: count(page.orders.len()),
        undecidable,
        faults: lost + saga_faults + order_faults,
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn conservation(page: &Examined, now: Timestamp) -> (Check, u64, u64) {
    const NAME: &str = "conservation";
    let queued = page.events.iter().filter(|event| event.is_queued).count();
    let routed = page.events.len() - queued;
    if page.more_changes {
        let found = format!(
            "{} routed; too many changes of subscriptions to check them",
            counted(count(routed), "event", "events")
        );
        let to_do = "no fault is known: subscriptions of these types changed too often for a proof";
        return (Check::warning(NAME, found, to_do), count(routed), 0);
    }
    let mut changes: BTreeMap<SubscriptionId, Vec<SubscriptionChange>> = BTreeMap::new();
    for change in &page.changes {
        changes.entry(change.subscription_id).or_default().push(change.clone());
    }
    let found = conserve(&page.events, &page.sagas, &changes, now);
    let mut text = format!(
        "no delivery is missing: {} routed, {} created",
        counted(count(routed), "event", "events"),
        counted(found.kept, "delivery", "deliveries")
    );
    if queued > 0 {
        text.push_str(&format!("; waiting for the router: {queued}"));
    }
    if found.undecidable > 0 {
        let why = "the subscription changed around the time of routing";
        text.push_str(&format!("; undecidable because {why}: {}", found.undecidable));
    }
    if found.lost.is_empty() {
        return (Check::ok(NAME, text), found.undecidable, 0);
    }
    let named: Vec<String> = found
        .lost
        .iter()
        .take(NAMED_MAX)
        .map(|(event, subscription)| format!("event {event} has no delivery for subscription {subscription}"))
        .collect();
    let lost = counted(count(found.lost.len()), "delivery is", "deliveries are");
    text = format!("{lost} missing: {}", named.join("; "));
    let to_do = "send these events again under a new external id, and report it: the program never loses one";
    (
        Check { name: NAME, status: Status::Problem, found: text, to_do },
        found.undecidable,
        count(found.lost.len()),
    )
}

fn rows(
    name: &'static str,
    sane: &str,
    rows: impl Iterator<Item = (String, Option<&'static str>)>,
) -> (Check, u64) {
    let (mut checked, mut faults, mut named) = (0_u64, 0_u64, Vec::new());
    for (which, fault) in rows {
        checked += 1;
        let Some(fault) = fault else { continue };
        faults += 1;
        if named.len() < NAMED_MAX {
            named.push(format!("{which}: {fault}"));
        }
    }
    if faults == 0 {
        return (Check::ok(name, format!("{sane} ({checked} checked)")), 0);
    }
    (Check::problem(name, format!("{faults} of {checked} wrong: {}", named.join("; ")), REPAIR), faults)
}
