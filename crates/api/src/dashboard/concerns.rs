//! Finds the problems that the overview lists, each with a link to the page that shows or solves it. They are derived
//! from the figures on the overview and a limited number of the newest dead letters.

use super::overview::duration_text;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::stats::Stats;
use crate::time::Utc;
use posthaste_core::ports::{DeadLetterFilter, DeadLetterHead, PageRequest, ReaderStore as _, Stores};
use posthaste_core::{SubscriptionId, Timestamp};

/// The age of the oldest entry of a stage, in seconds, above which the stage is reported as late.
const LATE_S: f64 = 60.0;
/// The success rate of attempts below which a warning is shown, before deliveries are dead-lettered.
const SUCCESS_RATE_MIN: f64 = 0.9;
/// The maximum number of dead letters that are read to find the affected subscriptions.
const LETTERS_MAX: u32 = 50;
/// The maximum number of subscriptions that are listed individually.
const NAMED_MAX: usize = 3;
/// The maximum number of characters of a URL that are shown: enough to recognize the receiver.
const URL_CHARS_MAX: usize = 80;

/// A problem with a link to the page that shows or solves it.
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

/// Returns all problems, errors before warnings.
pub(crate) async fn find<S: Stores>(api: &ApiState<S>, stats: &Stats) -> Result<Vec<Concern>, Problem> {
    let mut found = of_orders(stats);
    found.extend(of_stages(stats));
    if stats.dead_letters > 0 {
        found.extend(of_letters(api, stats).await?);
    }
    if let Some(share) = stats.attempt_success_ratio.filter(|share| *share < SUCCESS_RATE_MIN) {
        let text = format!("Low success rate: {:.0}% of attempts in this window", share * 100.0);
        found.push(Concern::mild(text, "/deliveries?status=PendingRetry"));
    }
    found.sort_by_key(|concern| !concern.is_bad);
    Ok(found)
}

fn of_orders(stats: &Stats) -> Vec<Concern> {
    let mut found = Vec::new();
    if stats.outbox.paused {
        let reason = stats.outbox.reason.as_deref().unwrap_or("no reason recorded");
        let since =
            stats.outbox.paused_at.map_or_else(String::new, |at| format!(" since {} UTC", at.short()));
        found.push(Concern::bad(format!("Order lane paused{since}: {reason}"), "/orders"));
    }
    let dead = stats.totals.get("orders_dead").copied().unwrap_or_default();
    if dead > 0 {
        found.push(Concern::bad(format!("Dead orders in this window: {dead}"), "/orders?status=dead"));
    }
    found
}

fn of_stages(stats: &Stats) -> Vec<Concern> {
    let Some(waiting) = &stats.waiting else { return Vec::new() };
    let late = waiting.stages.iter().filter(|stage| stage.oldest_age_s > LATE_S);
    let mut found: Vec<Concern> = late
        .map(|stage| {
            let age = duration_text(stage.oldest_age_s);
            Concern::bad(format!("Stage {} is late: its oldest entry is {age} old", stage.stage), "#backlog")
        })
        .collect();
    for (number, what) in [(waiting.stuck_jobs, "attempts"), (waiting.stuck_orders, "orders")] {
        if number > 0 {
            found.push(Concern::bad(format!("Stuck {what}: {number}"), "/system"));
        }
    }
    if waiting.held > 0 {
        let text = format!("Held deliveries: {} (subscription paused, unverified or deleted)", waiting.held);
        found.push(Concern::mild(text, "/subscriptions"));
    }
    found
}

/// Reports the number of dead-lettered deliveries, and the subscriptions with the newest dead letters.
async fn of_letters<S: Stores>(api: &ApiState<S>, stats: &Stats) -> Result<Vec<Concern>, Problem> {
    let page = PageRequest::first(LETTERS_MAX);
    let newest = api.reader.dead_letter_heads(DeadLetterFilter::default(), page).await?;
    // There may be more dead letters in the window than were read.
    let is_cut = newest.next.is_some() && newest.items.iter().all(|letter| letter.failed_at >= stats.from.0);
    let within = newest.items.into_iter().filter(|letter| letter.failed_at >= stats.from.0);
    let left: Vec<DeadLetterHead> = within.filter(|letter| letter.requeued_as.is_none()).collect();
    let text = format!("Dead-lettered in this window: {}", stats.dead_letters);
    if left.is_empty() && !is_cut {
        return Ok(vec![Concern::mild(format!("{text}, all requeued since"), "/dead-letters")]);
    }
    let mut found = vec![Concern::bad(text, "/dead-letters")];
    for one in by_subscription(&left).into_iter().take(NAMED_MAX) {
        let url = api.reader.subscription(one.id).await?;
        let url =
            url.map_or_else(String::new, |found| format!(" ({})", shortened(found.callback_url.as_str())));
        found.push(Concern::bad(one.text(&url, is_cut), format!("/dead-letters?subscription_id={}", one.id)));
    }
    Ok(found)
}

/// A summary of the dead letters of one subscription.
#[derive(Debug, PartialEq, Eq)]
struct DeadLetterSummary {
    id: SubscriptionId,
    count: usize,
    since: Timestamp,
    code: String,
}

impl DeadLetterSummary {
    fn text(&self, url: &str, is_cut: bool) -> String {
        let (more, earlier) = if is_cut { (" or more", " or earlier") } else { ("", "") };
        let since = format!("{} UTC{earlier}", Utc(self.since).short());
        format!(
            "Subscription {}{url}: {}{more} dead-lettered since {since}, last error {}",
            self.id, self.count, self.code
        )
    }
}

/// Groups dead letters by subscription. `letters` is sorted newest first; the result starts with the subscription that
/// has the most dead letters.
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
                    code: code.map_or_else(|| "unknown".to_owned(), ToString::to_string),
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

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::outcome::ErrorCode;
    use posthaste_core::{DeadLetterId, EventId, SagaId};

    #[test]
    fn a_long_url_is_truncated() {
        assert_eq!(shortened("https://x.example/"), "https://x.example/");
        assert_eq!(shortened(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    }

    #[test]
    fn dead_letters_are_grouped_by_subscription() {
        let letter = |id: i64, subscription: i64, code: &str| DeadLetterHead {
            id: DeadLetterId::from_store(id),
            tenant: None,
            saga_id: SagaId::from_store(id),
            event_id: EventId::from_store(id),
            subscription_id: SubscriptionId::from_store(subscription),
            final_error_code: Some(ErrorCode::parse(code.to_owned()).expect("a code")),
            failed_at: Timestamp::from_micros(id * 1_000_000),
            requeued_as: None,
        };
        let found =
            by_subscription(&[letter(9, 1, "TIMEOUT"), letter(8, 2, "HTTP_500"), letter(7, 2, "TIMEOUT")]);
        let texts: Vec<String> = found.iter().map(|one| one.text("", false)).collect();
        assert_eq!(
            texts,
            [
                "Subscription 2: 2 dead-lettered since 1970-01-01 00:00:07 UTC, last error HTTP_500",
                "Subscription 1: 1 dead-lettered since 1970-01-01 00:00:09 UTC, last error TIMEOUT",
            ]
        );
        assert!(
            found[0]
                .text("", true)
                .contains("2 or more dead-lettered since 1970-01-01 00:00:07 UTC or earlier,")
        );
    }
}
