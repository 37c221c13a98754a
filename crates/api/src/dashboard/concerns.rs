//! What needs somebody: what is wrong, for whom, since when, and where to press. It is found in the sums of the overview
//! and in the newest dead letters, so many and no more.

use super::overview::lasted;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::stats::Stats;
use crate::time::Utc;
use posthaste_core::ports::{DeadLetterFilter, DeadLetterHead, PageRequest, ReaderStore as _, Stores};
use posthaste_core::{SubscriptionId, Timestamp};

/// Work that is due for longer than this is worth a look.
const LATE_S: f64 = 60.0;
/// Receivers that refuse more than this share of their attempts need somebody before anything is given up.
const SUCCEEDED_MIN: f64 = 0.9;
/// The newest letters that tell for whom deliveries were given up, and how many receivers are named.
const LETTERS_MAX: u32 = 50;
const NAMED_MAX: usize = 3;
/// What is shown of a URL: enough to know whose it is.
const URL_CHARS_MAX: usize = 80;

/// Something to look at, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Concern {
    pub(crate) text: String,
    pub(crate) link: String,
    pub(crate) is_bad: bool,
}

impl Concern {
    fn bad(text: String, link: impl Into<String>) -> Self {
        Self { text, link: link.into(), is_bad: true }
    }

    fn mild(text: String, link: impl Into<String>) -> Self {
        Self { is_bad: false, ..Self::bad(text, link) }
    }
}

pub(crate) async fn find<S: Stores>(api: &ApiState<S>, stats: &Stats) -> Result<Vec<Concern>, Problem> {
    let mut found = of_orders(stats);
    found.extend(of_stages(stats));
    if stats.dead_letters > 0 {
        found.extend(of_letters(api, stats).await?);
    }
    if let Some(share) = stats.attempt_success_ratio.filter(|share| *share < SUCCEEDED_MIN) {
        let text = format!("Only {:.0} % of the attempts in this window succeeded", share * 100.0);
        found.push(Concern::mild(text, "/deliveries?status=PendingRetry"));
    }
    Ok(found)
}

fn of_orders(stats: &Stats) -> Vec<Concern> {
    let mut found = Vec::new();
    if stats.outbox.paused {
        let reason = stats.outbox.reason.as_deref().unwrap_or("no reason is known");
        let since =
            stats.outbox.paused_at.map_or_else(String::new, |at| format!(" since {} UTC", at.short()));
        found.push(Concern::bad(format!("The lane to the broker is paused{since}: {reason}"), "/orders"));
    }
    let dead = stats.totals.get("orders_dead").copied().unwrap_or_default();
    if dead > 0 {
        found.push(Concern::bad(format!("Orders that died in this window: {dead}"), "/orders?status=dead"));
    }
    found
}

fn of_stages(stats: &Stats) -> Vec<Concern> {
    let Some(waiting) = &stats.waiting else { return Vec::new() };
    let late = waiting.stages.iter().filter(|stage| stage.oldest_age_s > LATE_S);
    let mut found: Vec<Concern> = late
        .map(|stage| {
            let age = lasted(stage.oldest_age_s);
            Concern::bad(format!("The stage {} is {age} behind", stage.stage), "#waiting")
        })
        .collect();
    for (number, what) in [(waiting.stuck_jobs, "job"), (waiting.stuck_orders, "order")] {
        if number > 0 {
            found.push(Concern::bad(format!("{} stuck", counted(number.into(), what)), "/system"));
        }
    }
    if waiting.held > 0 {
        let held = counted(waiting.held.into(), "delivery");
        let text = format!("{held} held: a subscription is paused, unverified or deleted");
        found.push(Concern::mild(text, "/subscriptions"));
    }
    found
}

/// Deliveries that were given up: how many, and of the newest, for whom and since when.
async fn of_letters<S: Stores>(api: &ApiState<S>, stats: &Stats) -> Result<Vec<Concern>, Problem> {
    let page = PageRequest::first(LETTERS_MAX);
    let newest = api.reader.dead_letter_heads(DeadLetterFilter::default(), page).await?;
    // Whether there may be more of the window than these.
    let is_cut = newest.next.is_some() && newest.items.iter().all(|letter| letter.failed_at >= stats.from.0);
    let within = newest.items.into_iter().filter(|letter| letter.failed_at >= stats.from.0);
    let left: Vec<DeadLetterHead> = within.filter(|letter| letter.requeued_as.is_none()).collect();
    let text = format!("Given up in this window: {}", stats.dead_letters);
    if left.is_empty() && !is_cut {
        return Ok(vec![Concern::mild(format!("{text}, and requeued since"), "/dead-letters")]);
    }
    let mut found = vec![Concern::bad(text, "/dead-letters")];
    for one in by_subscription(&left).into_iter().take(NAMED_MAX) {
        let url = api.reader.subscription(one.id).await?;
        let url =
            url.map_or_else(String::new, |found| format!(", {}", shortened(found.callback_url.as_str())));
        found.push(Concern::bad(one.told(&url, is_cut), format!("/dead-letters?subscription_id={}", one.id)));
    }
    Ok(found)
}

/// What was given up for one subscription.
#[derive(Debug, PartialEq, Eq)]
struct DeadLetterSummary {
    id: SubscriptionId,
    count: usize,
    since: Timestamp,
    code: String,
}

impl DeadLetterSummary {
    fn told(&self, url: &str, is_cut: bool) -> String {
        let (more, earlier) = if is_cut { (" or more", " or earlier") } else { ("", "") };
        let since = format!("{} UTC{earlier}", Utc(self.since).short());
        format!(
            "Subscription {}{url}: {}{more} given up since {since}, last {}",
            self.id, self.count, self.code
        )
    }
}

/// Those with most letters first; the letters come newest first.
fn by_subscription(letters: &[DeadLetterHead]) -> Vec<DeadLetterSummary> {
    let mut found: Vec<DeadLetterSummary> = Vec::new();
    for letter in letters {
        match found.iter_mut().find(|one| one.id == letter.subscription_id) {
            Some(one) => {
                one.count += 1;
                one.since = one.since.min(letter.failed_at);
            }
            None => {
                let code = letter.final_error_code.as_ref();
                found.push(DeadLetterSummary {
                    id: letter.subscription_id,
                    count: 1,
                    since: letter.failed_at,
                    code: code.map_or_else(|| "without an error".to_owned(), ToString::to_string),
                });
            }
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.count));
    found
}

fn shortened(url: &str) -> String {
    let cut: String = url.chars().take(URL_CHARS_MAX).collect();
    if cut.len() < url.len() { format!("{cut}…") } else { cut }
}

fn counted(number: i64, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what} is"),
        (_, Some(stem)) => format!("{number} {stem}ies are"),
        (_, None) => format!("{number} {what}s are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::outcome::ErrorCode;
    use posthaste_core::{DeadLetterId, EventId, SagaId};

    #[test]
    fn numbers_are_spoken() {
        assert_eq!(counted(1, "delivery"), "1 delivery is");
        assert_eq!(counted(2, "delivery"), "2 deliveries are");
        assert_eq!(counted(2, "job"), "2 jobs are");
    }

    #[test]
    fn a_long_url_is_cut() {
        assert_eq!(shortened("https://x.example/"), "https://x.example/");
        assert_eq!(shortened(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    }

    #[test]
    fn letters_are_told_by_subscription() {
        let letter = |id: i64, subscription: i64, code: &str| DeadLetterHead {
            id: DeadLetterId::from_store(id),
            saga_id: SagaId::from_store(id),
            event_id: EventId::from_store(id),
            subscription_id: SubscriptionId::from_store(subscription),
            final_error_code: Some(ErrorCode::parse(code.to_owned()).expect("a code")),
            failed_at: Timestamp::from_micros(id * 1_000_000),
            requeued_as: None,
        };
        let found =
            by_subscription(&[letter(9, 1, "TIMEOUT"), letter(8, 2, "HTTP_500"), letter(7, 2, "TIMEOUT")]);
        let told: Vec<String> = found.iter().map(|one| one.told("", false)).collect();
        assert_eq!(
            told,
            [
                "Subscription 2: 2 given up since 1970-01-01 00:00:07 UTC, last HTTP_500",
                "Subscription 1: 1 given up since 1970-01-01 00:00:09 UTC, last TIMEOUT",
            ]
        );
        assert!(
            found[0].told("", true).contains("2 or more given up since 1970-01-01 00:00:07 UTC or earlier,")
        );
    }
}
