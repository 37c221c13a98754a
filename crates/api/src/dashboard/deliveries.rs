//! Deliveries: the list with its filters, and one with its attempts, its place in the state machine and what
//! it was made from or was made from it.

use super::filter::Filter;
use super::look::{self, ListPage};
use super::page::{Layout, Shown, show as write, show_as};
use super::visitor::Visitor;
use crate::deliveries::{self, AttemptView, DeliveryView};
use crate::state::Api;
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use http::Uri;
use posthaste_core::SagaId;
use posthaste_core::ports::{Lineage, ReaderStore as _, Stores};
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::{Standing, Subscription};

const HERE: &str = "/deliveries";

#[derive(Debug, Template)]
#[template(path = "deliveries.html")]
struct DeliveriesPage {
    around: Layout,
    page: ListPage<DeliveryView>,
    statuses: [&'static str; 5],
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&look::DELIVERIES, &uri)?;
    let found = deliveries::find(&api, &filter.uri, look::LOOKED_AT_MAX).await;
    let page = ListPage::of(&api, filter, found).await?;
    let (around, statuses) = (Layout::of(visitor, HERE), SagaStatus::ALL.map(SagaStatus::as_str));
    show_as(page.filter.status(), &DeliveriesPage { around, page, statuses })
}

#[derive(Debug, Template)]
#[template(path = "delivery.html")]
struct DeliveryPage {
    around: Layout,
    delivery: DeliveryView,
    attempts: Vec<Tried>,
    lineage: Lineage,
    waits: bool,
    has_ended: bool,
    /// Why nothing happens to it, though it waits.
    held: Option<&'static str>,
    callback_url: Option<String>,
    is_deleted: bool,
}

/// An attempt, and how long after the one before it was due.
#[derive(Debug)]
struct Tried {
    number: usize,
    attempt: AttemptView,
    gap: String,
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let mut delivery = deliveries::find_one(&api, &text).await?;
    let lineage = api.reader.lineage(SagaId::from_store(delivery.saga_id)).await?;
    let subscription = posthaste_core::SubscriptionId::from_store(delivery.subscription_id);
    let subscription = api.reader.subscription(subscription).await?;
    let attempts = tried(delivery.attempts.take().unwrap_or_default());
    let waits = [SagaStatus::Pending, SagaStatus::PendingRetry].map(SagaStatus::as_str);
    let waits = waits.contains(&delivery.status);
    write(&DeliveryPage {
        around: Layout::of(visitor, HERE),
        attempts,
        lineage,
        waits,
        has_ended: SagaStatus::parse(delivery.status).is_some_and(SagaStatus::is_terminal),
        held: subscription.as_ref().filter(|_| waits).and_then(held),
        is_deleted: subscription.as_ref().is_some_and(|one| one.deleted_at.is_some()),
        callback_url: subscription.map(|found| found.callback_url.as_str().to_owned()),
        delivery,
    })
}

fn held(subscription: &Subscription) -> Option<&'static str> {
    if subscription.deleted_at.is_some() {
        return Some("held for good: its subscription was deleted");
    }
    match Standing::of(subscription.active, subscription.verified) {
        Standing::Active => None,
        Standing::Paused => Some("held: its subscription is paused"),
        Standing::Unverified => Some("held: the URL of its subscription is not verified"),
    }
}

fn tried(attempts: Vec<AttemptView>) -> Vec<Tried> {
    let mut before: Option<Utc> = None;
    let mut list = Vec::new();
    for (index, attempt) in attempts.into_iter().enumerate() {
        let gap = before.map(|before| attempt.attempt_at.0.since(before.0));
        let gap = gap.map_or_else(String::new, |gap| format!("{} s after the one before", gap.as_secs()));
        before = Some(attempt.attempt_at);
        list.push(Tried { number: index + 1, attempt, gap });
    }
    list
}

impl DeliveryPage {
    /// The states of the drawing, with their places in it.
    fn states(&self) -> [(&'static str, i64, i64, bool); 5] {
        [
            (SagaStatus::Pending, 10, 70),
            (SagaStatus::InProgress, 200, 70),
            (SagaStatus::PendingRetry, 200, 150),
            (SagaStatus::Completed, 390, 30),
            (SagaStatus::DeadLettered, 390, 110),
        ]
        .map(|(status, x, y)| (status.as_str(), x, y, status.as_str() == self.delivery.status))
    }
}
