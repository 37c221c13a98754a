//! Checks whether the egress rules refuse the callback URLs of subscriptions, as far as that is known without DNS
//! lookups, and whether recent deliveries were refused. The API reads the subscriptions and deliveries.

use super::{Check, counted};
use crate::egress::Blocked;
use crate::sender::Sender;
use posthaste_core::SubscriptionId;
use posthaste_core::subscription::Subscription;
use std::collections::BTreeSet;

/// The maximum number of subscriptions that a finding lists.
const LISTED_MAX: usize = 20;

/// The subscriptions that the egress rules of this process concern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressFacts {
    /// The number of active subscriptions whose URL was checked.
    checked: u64,
    /// Whether there are more subscriptions than were read.
    pub has_more: bool,
    /// The number of subscriptions with a refused URL.
    refused_count: u64,
    /// The first of these, each with the reason.
    refused: Vec<(SubscriptionId, Blocked)>,
    /// The subscriptions whose recent deliveries failed with `BLOCKED_ADDRESS`.
    pub failing: BTreeSet<SubscriptionId>,
}

impl EgressFacts {
    /// Checks the URL of a subscription. One that is not active sends no requests and is skipped.
    pub fn check(&mut self, subscription: &Subscription, sender: &Sender) {
        if !subscription.active {
            return;
        }
        self.checked += 1;
        if let Err(blocked) = sender.check_url(subscription.callback_url.as_str()) {
            self.refuse(subscription.id, blocked);
        }
    }

    fn refuse(&mut self, id: SubscriptionId, blocked: Blocked) {
        self.refused_count += 1;
        if self.refused.len() < LISTED_MAX {
            self.refused.push((id, blocked));
        }
    }
}

pub(super) fn egress(facts: &EgressFacts) -> Check {
    let scope = if facts.has_more { "the newest " } else { "" };
    let checked = counted(facts.checked, "active subscription", "active subscriptions");
    let mut lines = Vec::new();
    if facts.refused_count > 0 {
        lines.push(format!("the rules refuse the URLs of {} of {scope}{checked}:", facts.refused_count));
    }
    lines.extend(facts.refused.iter().map(|(id, blocked)| format!("subscription {}: {blocked}", id.get())));
    let listed = u64::try_from(facts.refused.len()).unwrap_or(u64::MAX);
    if facts.refused_count > listed {
        lines.push(format!("and {} more", facts.refused_count - listed));
    }
    lines.extend(failing(facts));
    if lines.is_empty() {
        return Check::ok("egress", format!("the rules allow the URLs of {scope}{checked}"));
    }
    let to_do = "change the callback URLs or DNS records, or POSTHASTE_DENY_CIDRS, POSTHASTE_ALLOW_CIDRS and \
                 POSTHASTE_ALLOW_PORTS in all api and worker processes";
    Check::warning("egress", lines.join("\n"), to_do)
}

/// Returns a line about recent failures of subscriptions that are not listed with a reason.
fn failing(facts: &EgressFacts) -> Option<String> {
    let has_reason = |id: SubscriptionId| facts.refused.iter().any(|(listed, _)| *listed == id);
    let failing: Vec<SubscriptionId> = facts.failing.iter().copied().filter(|id| !has_reason(*id)).collect();
    let ids: Vec<String> = failing.iter().take(LISTED_MAX).map(|id| id.get().to_string()).collect();
    let rest = if failing.len() > LISTED_MAX { ", …" } else { "" };
    let line = format!(
        "recent deliveries failed with BLOCKED_ADDRESS, of the subscriptions: {}{rest}",
        ids.join(", ")
    );
    (!failing.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use crate::egress::AllowedPorts;

    fn id(id: i64) -> SubscriptionId {
        SubscriptionId::new(id).expect("an id")
    }

    fn port(port: u16) -> Blocked {
        Blocked::PortRefused { port, allowed: AllowedPorts::Only([443].into()) }
    }

    #[test]
    fn refused_urls_are_listed_with_their_rule() {
        let mut facts = EgressFacts { checked: 9, ..EgressFacts::default() };
        let check = egress(&facts);
        assert_eq!(
            (check.status, check.found.as_str()),
            (Status::Ok, "the rules allow the URLs of 9 active subscriptions")
        );
        facts.refuse(id(3), port(9000));
        facts.refuse(id(4), Blocked::Scheme("http".to_owned()));
        facts.failing = [id(3), id(7), id(8)].into();
        facts.has_more = true;
        let check = egress(&facts);
        assert_eq!(check.status, Status::Warning);
        assert!(check.to_do.contains("POSTHASTE_ALLOW_PORTS"));
        assert_eq!(
            check.found,
            "the rules refuse the URLs of 2 of the newest 9 active subscriptions:\n\
             subscription 3: port 9000 is refused: POSTHASTE_ALLOW_PORTS allows 443, other ports need an address in \
             POSTHASTE_ALLOW_CIDRS\n\
             subscription 4: the URL must use https (http needs POSTHASTE_ALLOW_HTTP=true), not http\n\
             recent deliveries failed with BLOCKED_ADDRESS, of the subscriptions: 7, 8"
        );
    }

    #[test]
    fn finding_is_bounded() {
        let mut facts = EgressFacts { checked: 1_000, ..EgressFacts::default() };
        for n in 1..=1_000 {
            facts.refuse(id(n), port(9000));
            facts.failing.insert(id(n + 1_000));
        }
        let found = egress(&facts).found;
        assert_eq!(found.lines().count(), 1 + LISTED_MAX + 2, "{found}");
        assert!(found.contains("and 980 more\n") && found.ends_with(", 1020, …"), "{found}");
    }
}
