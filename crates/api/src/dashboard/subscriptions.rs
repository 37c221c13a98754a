//! Subscriptions: to find, with how their deliveries go, and one to look at. [`super::subscription_acts`] has what
//! can be pressed.

use super::filter::Filter;
use super::look::{self, ListPage};
use super::overview::lasted;
use super::page::{Layout, Shown, show as write, show_as};
use super::subscription_end;
use super::visitor::Visitor;
use crate::problem::Problem;
use crate::query::Listed;
use crate::state::{Api, ApiState};
use crate::subscriptions::{self, SubscriptionView};
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use http::Uri;
use posthaste_core::health::{self, Attempts, Within};
use posthaste_core::ports::{InsightStore as _, Stores, SubscriptionHealth};
use posthaste_core::subscription::Standing;
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

pub(crate) const HERE: &str = "/subscriptions";
/// How far the list counts what waits for each, and how far the page of one does.
const COUNTED_IN_LIST_MAX: u32 = 100;
const COUNTED_MAX: u32 = 10_000;
/// How far back the list counts attempts, and how far the page of one does.
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Template)]
#[template(path = "subscriptions.html")]
struct SubscriptionsPage {
    around: Layout,
    page: ListPage<SubscriptionRow>,
    states: [&'static str; 3],
    /// Since when attempts are counted.
    since: Utc,
}

/// A subscription, and how its deliveries go.
#[derive(Debug)]
pub(crate) struct SubscriptionRow {
    pub(crate) subscription: SubscriptionView,
    pub(crate) health: HealthText,
}

/// The health of a subscription, in words.
#[derive(Debug)]
pub(crate) struct HealthText {
    pub(crate) state: &'static str,
    pub(crate) is_held: bool,
    pub(crate) succeeded: String,
    pub(crate) attempts: u64,
    pub(crate) failed: u64,
    pub(crate) half_within: String,
    pub(crate) most_within: String,
    pub(crate) in_flight: String,
    pub(crate) waiting: String,
    pub(crate) last_error: Option<(String, Utc)>,
}

impl HealthText {
    fn of(subscription: &SubscriptionView, health: SubscriptionHealth, counted_max: u32) -> Self {
        let standing = Standing::of(subscription.active, subscription.verified);
        let SubscriptionHealth { attempts, .. } = health;
        let counted = |count: u32| if count >= counted_max { format!("{count}+") } else { count.to_string() };
        Self {
            state: standing.as_str(),
            is_held: standing != Standing::Active,
            succeeded: share(&attempts),
            attempts: attempts.made(),
            failed: attempts.failed,
            half_within: within(&attempts, 50),
            most_within: within(&attempts, 99),
            in_flight: counted(health.in_flight),
            waiting: counted(health.waiting),
            last_error: attempts.last_error.map(|(code, at)| (code.to_string(), Utc(at))),
        }
    }
}

/// How many of a hundred attempts succeeded.
fn share(attempts: &Attempts) -> String {
    if attempts.made() == 0 {
        return "no attempts".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "a count that large is exact enough")]
    let share = attempts.succeeded() as f64 / attempts.made() as f64 * 100.0;
    format!("{share:.2} %")
}

fn within(attempts: &Attempts, of_hundred: u64) -> String {
    match attempts.within(of_hundred) {
        None => "–".to_owned(),
        Some(Within::AtMost(took)) => lasted(took.as_secs_f64()),
        Some(Within::Beyond(took)) => format!("more than {}", lasted(took.as_secs_f64())),
    }
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&look::SUBSCRIPTIONS, &uri)?;
    let found = subscriptions::find(&api, &filter.uri, look::LOOKED_AT_MAX).await;
    let ListPage { filter, found, reach } = ListPage::of(&api, filter, found).await?;
    let since = counted_since(&api, HOUR);
    let Listed { items, next_cursor } = found;
    let items = look_at(&api, items, COUNTED_IN_LIST_MAX, since).await?;
    let page = ListPage { filter, found: Listed { items, next_cursor }, reach };
    let (around, states) = (Layout::of(visitor, HERE), Standing::ALL.map(Standing::as_str));
    show_as(page.filter.status(), &SubscriptionsPage { around, page, since: Utc(since), states })
}

/// The beginning of the interval that lies so far back.
fn counted_since<S: Stores>(api: &ApiState<S>, window: Duration) -> Timestamp {
    health::interval_start(api.clock.now()).before(window)
}

async fn look_at<S: Stores>(
    api: &ApiState<S>,
    found: Vec<SubscriptionView>,
    counted_max: u32,
    since: Timestamp,
) -> Result<Vec<SubscriptionRow>, Problem> {
    let ids = found.iter().map(|one| SubscriptionId::from_store(one.id)).collect();
    let health = api.insight.subscription_health(ids, counted_max, since).await?;
    let pairs = found.into_iter().zip(health);
    Ok(pairs
        .map(|(subscription, health)| SubscriptionRow {
            health: HealthText::of(&subscription, health, counted_max),
            subscription,
        })
        .collect())
}

#[derive(Debug, Template)]
#[template(path = "subscription.html")]
struct SubscriptionPage {
    around: Layout,
    one: SubscriptionRow,
    told: Option<ActionResult>,
}

/// What came of a press.
#[derive(Debug)]
pub(crate) struct ActionResult {
    pub(crate) text: String,
    pub(crate) is_good: bool,
    /// What the receiver wrote.
    pub(crate) body: Option<String>,
}

impl ActionResult {
    pub(crate) fn good(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_good: true, body: None }
    }
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let subscription = match subscriptions::find_one(&api, &text).await {
        Err(problem) if problem.status == 404 => {
            return subscription_end::tell(&api, visitor, &text, problem).await;
        }
        found => found?,
    };
    let one = look_at_one(&api, subscription).await?;
    write(&SubscriptionPage { around: Layout::of(visitor, HERE), one, told: None })
}

/// The page of a subscription after something was pressed.
pub(crate) async fn answer<S: Stores>(
    api: &ApiState<S>,
    visitor: Visitor,
    subscription: SubscriptionView,
    told: ActionResult,
) -> Shown {
    let one = look_at_one(api, subscription).await?;
    write(&SubscriptionPage { around: Layout::of(visitor, HERE), one, told: Some(told) })
}

pub(super) async fn look_at_one<S: Stores>(
    api: &ApiState<S>,
    subscription: SubscriptionView,
) -> Result<SubscriptionRow, Problem> {
    let since = counted_since(api, DAY);
    let mut looked = look_at(api, vec![subscription], COUNTED_MAX, since).await?;
    looked.pop().ok_or_else(|| Problem::not_found("subscription"))
}
