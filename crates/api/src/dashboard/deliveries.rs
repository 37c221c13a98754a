//! The pages for deliveries: the list, and one delivery with its attempts, its state, and related dead letters and
//! deliveries.

use super::filter::Filter;
use super::lists::{self, ListPage};
use super::page::{Layout, Shown, show as write, show_as};
use super::visitor::Visitor;
use crate::auth::Scope;
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
    layout: Layout,
    page: ListPage<DeliveryView>,
    statuses: [&'static str; 5],
}

pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&lists::DELIVERIES, &uri)?;
    let found = deliveries::find(&api, &Scope::default(), &filter.uri, lists::ROWS_EXAMINED_MAX).await;
    let page = ListPage::of(&api, filter, found).await?;
    let (layout, statuses) = (Layout::of(visitor, HERE), SagaStatus::ALL.map(SagaStatus::as_str));
    show_as(page.filter.status(), &DeliveriesPage { layout, page, statuses })
}

#[derive(Debug, Template)]
#[template(path = "delivery.html")]
struct DeliveryPage {
    layout: Layout,
    delivery: DeliveryView,
    attempts: Vec<AttemptRow>,
    lineage: Lineage,
    /// Whether the delivery is waiting for its next attempt.
    is_pending: bool,
    is_finished: bool,
    /// The reason why the delivery is held; `None` if it is not.
    held: Option<&'static str>,
    callback_url: Option<String>,
    is_deleted: bool,
}

/// A row in the table of attempts, with the time between the due times of the previous attempt and this one.
#[derive(Debug)]
struct AttemptRow {
    number: usize,
    attempt: AttemptView,
    gap: String,
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
) -> Shown {
    let mut delivery = deliveries::find_one(&api, &Scope::default(), &text).await?;
    let lineage = api.reader.lineage(SagaId::from_store(delivery.saga_id)).await?;
    let subscription = posthaste_core::SubscriptionId::from_store(delivery.subscription_id);
    let subscription = api.reader.subscription(subscription).await?;
    let attempts = attempt_rows(delivery.attempts.take().unwrap_or_default());
    let pending = [SagaStatus::Pending, SagaStatus::PendingRetry].map(SagaStatus::as_str);
    let is_pending = pending.contains(&delivery.status);
    write(&DeliveryPage {
        layout: Layout::of(visitor, HERE),
        attempts,
        lineage,
        is_pending,
        is_finished: SagaStatus::parse(delivery.status).is_some_and(SagaStatus::is_terminal),
        held: subscription.as_ref().filter(|_| is_pending).and_then(held),
        is_deleted: subscription.as_ref().is_some_and(|one| one.deleted_at.is_some()),
        callback_url: subscription.map(|found| found.callback_url.as_str().to_owned()),
        delivery,
    })
}

fn held(subscription: &Subscription) -> Option<&'static str> {
    if subscription.deleted_at.is_some() {
        return Some("held permanently: the subscription was deleted");
    }
    match Standing::of(subscription.active, subscription.verified) {
        Standing::Active => None,
        Standing::Paused => Some("held: the subscription is paused"),
        Standing::Unverified => Some("held: the callback URL is not verified"),
    }
}

fn attempt_rows(attempts: Vec<AttemptView>) -> Vec<AttemptRow> {
    let mut previous: Option<Utc> = None;
    let mut list = Vec::new();
    for (index, attempt) in attempts.into_iter().enumerate() {
        let gap = previous.map(|previous| attempt.attempt_at.0.since(previous.0));
        let gap =
            gap.map_or_else(String::new, |gap| format!("{} s after the previous attempt", gap.as_secs()));
        previous = Some(attempt.attempt_at);
        list.push(AttemptRow { number: index + 1, attempt, gap });
    }
    list
}

impl DeliveryPage {
    /// Returns the states in the diagram: name, position, and whether it is the current state.
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
