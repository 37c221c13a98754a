//! The pages for subscriptions: the list, and one subscription, both with delivery health.
//! [`super::subscription_actions`], [`super::subscription_edit`] and [`super::subscription_deletion`] handle the forms
//! on these pages.

use super::filter::Filter;
use super::form::Form;
use super::lists::{self, ListPage};
use super::overview::duration_text;
use super::page::{Layout, Shown, show as write, show_as};
use super::subscription_deletion;
use super::subscription_details::Details;
use super::subscription_preview::PreviewPanel;
use super::visitor::Visitor;
use crate::auth::Scope;
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
use posthaste_core::subscription::{Standing, VerificationMethod};
use posthaste_core::{SubscriptionId, Timestamp};
use std::time::Duration;

pub(crate) const HERE: &str = "/subscriptions";
/// The maximum number of in-flight and waiting deliveries counted per row of the list.
const COUNTED_IN_LIST_MAX: u32 = 100;
/// The maximum number of in-flight and waiting deliveries counted on the page of a subscription.
const COUNTED_MAX: u32 = 10_000;
/// The window in which attempts are counted for the list.
const HOUR: Duration = Duration::from_secs(3_600);
/// The window in which attempts are counted for the page of a subscription.
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, Template)]
#[template(path = "subscriptions.html")]
struct SubscriptionsPage {
    layout: Layout,
    page: ListPage<SubscriptionRow>,
    states: [&'static str; 3],
    /// The start of the window in which attempts are counted.
    since: Utc,
}

/// A subscription with its delivery health.
#[derive(Debug)]
pub(crate) struct SubscriptionRow {
    pub(crate) subscription: SubscriptionView,
    pub(crate) details: Details,
    pub(crate) health: HealthText,
}

/// The delivery health of a subscription, formatted for display.
#[derive(Debug)]
pub(crate) struct HealthText {
    pub(crate) state: &'static str,
    pub(crate) is_held: bool,
    pub(crate) success_rate: String,
    pub(crate) attempts: u64,
    pub(crate) failed: u64,
    pub(crate) p50: String,
    pub(crate) p90: String,
    pub(crate) p99: String,
    pub(crate) in_flight: String,
    pub(crate) backlog: String,
    pub(crate) last_error: Option<(String, Utc)>,
}

impl SubscriptionRow {
    /// Returns the callback URL without `https://`. Other schemes are kept.
    fn url_text(&self) -> &str {
        let url = self.subscription.callback_url.as_str();
        url.strip_prefix("https://").unwrap_or(url)
    }
}

impl HealthText {
    fn of(subscription: &SubscriptionView, health: SubscriptionHealth, counted_max: u32) -> Self {
        let standing = Standing::of(subscription.active, subscription.verified);
        let SubscriptionHealth { attempts, .. } = health;
        let counted = |count: u32| if count >= counted_max { format!("{count}+") } else { count.to_string() };
        Self {
            state: standing.as_str(),
            is_held: standing != Standing::Active,
            success_rate: success_rate(&attempts),
            attempts: attempts.made(),
            failed: attempts.failed,
            p50: percentile(&attempts, 50),
            p90: percentile(&attempts, 90),
            p99: percentile(&attempts, 99),
            in_flight: counted(health.in_flight),
            backlog: counted(health.waiting),
            last_error: attempts.last_error.map(|(code, at)| (code.to_string(), Utc(at))),
        }
    }
}

/// Returns the percentage of successful attempts, as text.
fn success_rate(attempts: &Attempts) -> String {
    if attempts.made() == 0 {
        return "no attempts".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "a count that large is exact enough")]
    let rate = attempts.succeeded() as f64 / attempts.made() as f64 * 100.0;
    format!("{rate:.2}%")
}

fn percentile(attempts: &Attempts, percent: u64) -> String {
    match attempts.within(percent) {
        None => "–".to_owned(),
        Some(Within::AtMost(took)) => duration_text(took.as_secs_f64()),
        Some(Within::Beyond(took)) => format!("> {}", duration_text(took.as_secs_f64())),
    }
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&lists::SUBSCRIPTIONS, &uri)?;
    let found = subscriptions::find(&api, &Scope::default(), &filter.uri, lists::ROWS_EXAMINED_MAX).await;
    let ListPage { filter, found, scan } = ListPage::of(&api, filter, found).await?;
    let since = window_start(&api, HOUR);
    let Listed { items, next_cursor } = found;
    let items = load_rows(&api, items, COUNTED_IN_LIST_MAX, since).await?;
    let page = ListPage { filter, found: Listed { items, next_cursor }, scan };
    let (layout, states) = (Layout::of(visitor, HERE), Standing::ALL.map(Standing::as_str));
    show_as(page.filter.status(), &SubscriptionsPage { layout, page, since: Utc(since), states })
}

/// Returns the start of a window that ends now, aligned to the intervals in which attempts are counted.
fn window_start<S: Stores>(api: &ApiState<S>, window: Duration) -> Timestamp {
    health::interval_start(api.clock.now()).before(window)
}

/// Loads the delivery health of the given subscriptions.
async fn load_rows<S: Stores>(
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
            details: Details::of(&subscription),
            subscription,
        })
        .collect())
}

#[derive(Debug, Template)]
#[template(path = "subscription.html")]
struct SubscriptionPage {
    layout: Layout,
    one: SubscriptionRow,
    /// The methods by which the URL can be verified, the default first.
    methods: Vec<VerificationMethod>,
    preview: Option<PreviewPanel>,
    result: Option<ActionResult>,
}

/// Returns the methods of verification that can be used, the default first.
fn usable_methods<S: Stores>(api: &ApiState<S>) -> Vec<VerificationMethod> {
    let default = api.verification.methods.default_method();
    let mut methods: Vec<VerificationMethod> = api.verification.usable().collect();
    methods.sort_by_key(|method| *method != default);
    methods
}

/// The result of a submitted form.
#[derive(Debug)]
pub(crate) struct ActionResult {
    pub(crate) text: String,
    pub(crate) is_good: bool,
    /// The body of the receiver's response.
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
    uri: Uri,
) -> Shown {
    let subscription = match subscriptions::find_one(&api, &Scope::default(), &text).await {
        Err(problem) if problem.status == 404 => {
            return subscription_deletion::show_deleted(&api, visitor, &text, problem).await;
        }
        found => found?,
    };
    show_page(&api, visitor, subscription, Form::of_query(&uri)?.get("event_id"), None).await
}

/// Shows the page of a subscription with the result of a submitted form.
pub(crate) async fn show_result<S: Stores>(
    api: &ApiState<S>,
    visitor: Visitor,
    subscription: SubscriptionView,
    result: ActionResult,
) -> Shown {
    show_page(api, visitor, subscription, "", Some(result)).await
}

/// Shows the page of a subscription with the request for an event, or for a sample if `event_id` is empty.
async fn show_page<S: Stores>(
    api: &ApiState<S>,
    visitor: Visitor,
    subscription: SubscriptionView,
    event_id: &str,
    result: Option<ActionResult>,
) -> Shown {
    let id = SubscriptionId::from_store(subscription.id);
    let preview = PreviewPanel::of(api, &visitor, id, event_id).await;
    let one = load_row(api, subscription).await?;
    let methods = usable_methods(api);
    write(&SubscriptionPage { layout: Layout::of(visitor, HERE), one, methods, preview, result })
}

/// Loads the delivery health of one subscription for the last day.
pub(super) async fn load_row<S: Stores>(
    api: &ApiState<S>,
    subscription: SubscriptionView,
) -> Result<SubscriptionRow, Problem> {
    let since = window_start(api, DAY);
    let mut rows = load_rows(api, vec![subscription], COUNTED_MAX, since).await?;
    rows.pop().ok_or_else(|| Problem::not_found("subscription"))
}
