//! Subscriptions: to find, with how their deliveries go, and one to look at. [`super::subscription_acts`] has what
//! can be pressed.

use super::deliveries::Filter;
use super::overview::lasted;
use super::page::{Around, Shown, show as write};
use super::subscription_end;
use super::visitor::Visitor;
use crate::problem::Problem;
use crate::query::Listed;
use crate::state::ApiState;
use crate::subscriptions::{self, SubscriptionView};
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use http::Uri;
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{InsightStore as _, Stores, SubscriptionHealth};
use posthaste_core::subscription::Standing;
use std::sync::Arc;

pub(crate) const HERE: &str = "/subscriptions";
/// How far the list counts what waits for each, and how far the page of one does.
const COUNTED_IN_LIST_MAX: u32 = 100;
const COUNTED_MAX: u32 = 10_000;

#[derive(Debug, Template)]
#[template(path = "subscriptions.html")]
struct SubscriptionsPage {
    around: Around,
    found: Listed<Looked>,
    filter: Filter,
    states: [&'static str; 3],
}

/// A subscription, and how its deliveries go.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) subscription: SubscriptionView,
    pub(crate) health: Health,
}

/// The health of a subscription, in words.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) state: &'static str,
    pub(crate) is_held: bool,
    pub(crate) succeeded: String,
    pub(crate) ended: u32,
    pub(crate) given_up: u32,
    pub(crate) half_within: String,
    pub(crate) most_within: String,
    pub(crate) in_flight: String,
    pub(crate) waiting: String,
    pub(crate) last_error: Option<(String, Utc)>,
}

impl Health {
    fn of(subscription: &SubscriptionView, health: SubscriptionHealth, counted_max: u32) -> Self {
        let standing = Standing::of(subscription.active, subscription.verified);
        let ended = health.completed + health.given_up;
        let share = f64::from(health.completed) / f64::from(ended.max(1)) * 100.0;
        let took = |took: Option<std::time::Duration>| {
            took.map_or_else(|| "–".to_owned(), |took| lasted(took.as_secs_f64()))
        };
        let counted = |count: u32| if count >= counted_max { format!("{count}+") } else { count.to_string() };
        Self {
            state: standing.as_str(),
            is_held: standing != Standing::Active,
            succeeded: if ended == 0 { "–".to_owned() } else { format!("{share:.2} %") },
            ended,
            given_up: health.given_up,
            half_within: took(health.half_within),
            most_within: took(health.most_within),
            in_flight: counted(health.in_flight),
            waiting: counted(health.waiting),
            last_error: health.last_error.map(|(code, at)| (code.to_string(), Utc(at))),
        }
    }
}

pub(crate) async fn list<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let Listed { items, next_cursor } = subscriptions::find(&api, &uri).await?;
    let items = look_at(&api, items, COUNTED_IN_LIST_MAX).await?;
    write(&SubscriptionsPage {
        around: Around::of(visitor, HERE),
        found: Listed { items, next_cursor },
        filter: Filter::of(&uri)?,
        states: Standing::ALL.map(Standing::as_str),
    })
}

async fn look_at<S: Stores>(
    api: &ApiState<S>,
    found: Vec<SubscriptionView>,
    counted_max: u32,
) -> Result<Vec<Looked>, Problem> {
    let ids = found.iter().map(|one| SubscriptionId::from_store(one.id)).collect();
    let health = api.insight.subscription_health(ids, counted_max).await?;
    let pairs = found.into_iter().zip(health);
    Ok(pairs
        .map(|(subscription, health)| Looked {
            health: Health::of(&subscription, health, counted_max),
            subscription,
        })
        .collect())
}

#[derive(Debug, Template)]
#[template(path = "subscription.html")]
struct SubscriptionPage {
    around: Around,
    one: Looked,
    told: Option<Told>,
}

/// What came of a press.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) is_good: bool,
    /// What the receiver wrote.
    pub(crate) body: Option<String>,
}

impl Told {
    pub(crate) fn good(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_good: true, body: None }
    }
}

pub(crate) async fn show<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
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
    write(&SubscriptionPage { around: Around::of(visitor, HERE), one, told: None })
}

/// The page of a subscription after something was pressed.
pub(crate) async fn answer<S: Stores>(
    api: &ApiState<S>,
    visitor: Visitor,
    subscription: SubscriptionView,
    told: Told,
) -> Shown {
    let one = look_at_one(api, subscription).await?;
    write(&SubscriptionPage { around: Around::of(visitor, HERE), one, told: Some(told) })
}

pub(super) async fn look_at_one<S: Stores>(
    api: &ApiState<S>,
    subscription: SubscriptionView,
) -> Result<Looked, Problem> {
    let mut looked = look_at(api, vec![subscription], COUNTED_MAX).await?;
    looked.pop().ok_or_else(|| Problem::not_found("subscription"))
}
