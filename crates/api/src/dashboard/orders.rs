//! The pages for orders: the list with the state of the lane, and one order with its audit. Operators resume the lane
//! here.

use super::filter::Filter;
use super::form::Form;
use super::lists::{self, ListPage};
use super::page::{Layout, Shown, show as write, show_as};
use super::visitor::Visitor;
use crate::orders::{self, OrderView, TransitionView};
use crate::outbox::{self, LaneView};
use crate::state::{Api, ApiState};
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::Uri;
use posthaste_core::audit::Actor;
use posthaste_core::lane::LaneMode;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::Stores;

const HERE: &str = "/orders";
/// The maximum number of transitions shown on the page of an order.
const TRANSITIONS_MAX: u32 = 100;

#[derive(Debug, Template)]
#[template(path = "orders.html")]
struct OrdersPage {
    layout: Layout,
    page: ListPage<OrderView>,
    lane: LaneView,
    statuses: [&'static str; 5],
}

/// Shows the list. If the filter contains an idempotency key, shows that order instead and ignores the status.
pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let filter = Filter::of(&lists::ORDERS, &uri)?;
    let key = filter.get("idempotency_key").trim();
    let found = if key.is_empty() {
        orders::find(&api, &without_key(&uri), lists::ROWS_EXAMINED_MAX).await
    } else {
        match orders::find_one(&api, key.to_owned()).await {
            Ok(order) => return one(&api, visitor, order).await,
            Err(problem) => Err(problem),
        }
    };
    let page = ListPage::of(&api, filter, found).await?;
    let lane = outbox::read(&api).await?;
    let (layout, statuses) = (Layout::of(visitor, HERE), OrderStatus::ALL.map(OrderStatus::as_str));
    show_as(page.filter.status(), &OrdersPage { layout, page, lane, statuses })
}

/// Removes the parameter `idempotency_key`, which the form always sends and the API list does not accept.
fn without_key(uri: &Uri) -> Uri {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    text.extend_pairs(pairs.filter(|(name, _)| name != "idempotency_key"));
    format!("{HERE}?{}", text.finish()).parse().unwrap_or_default()
}

#[derive(Debug, Template)]
#[template(path = "order.html")]
struct OrderPage {
    layout: Layout,
    order: OrderView,
    result: Option<String>,
    audit: Vec<TransitionView>,
    /// Whether older transitions exist that are not shown.
    more: bool,
    /// Whether the order is waiting to be sent.
    is_pending: bool,
    is_finished: bool,
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Path(key): Path<String>,
) -> Shown {
    let order = orders::find_one(&api, key).await?;
    one(&api, visitor, order).await
}

async fn one<S: Stores>(api: &ApiState<S>, visitor: Visitor, order: OrderView) -> Shown {
    let key = order.idempotency_key.clone();
    let (audit, more) = orders::find_newest_audit(api, key, TRANSITIONS_MAX).await?;
    let result = order.result.as_ref().map(|text| text.get().to_owned());
    let is = |status: OrderStatus| order.status == status.as_str();
    let is_pending = is(OrderStatus::Queued) || is(OrderStatus::Failed);
    let is_finished = is(OrderStatus::Sent) || is(OrderStatus::Dead);
    let layout = Layout::of(visitor, HERE);
    write(&OrderPage { layout, order, result, audit, more, is_pending, is_finished })
}

/// Resumes the lane. Repeated submissions have no effect.
pub(crate) async fn resume<S: Stores>(
    State(api): Api<S>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
) -> Shown {
    outbox::go_on(&api, by).await?;
    Ok(Redirect::to(HERE).into_response())
}

impl OrderView {
    /// Returns the URL of the page of the order. Browsers resolve `.` and `..` as path segments even if they are
    /// escaped, so these keys are passed in the query string.
    fn address(&self) -> String {
        let key: String = url::form_urlencoded::byte_serialize(self.idempotency_key.as_bytes()).collect();
        match self.idempotency_key.as_str() {
            "." | ".." => format!("{HERE}?idempotency_key={key}"),
            _ => format!("{HERE}/{key}"),
        }
    }
}

/// Returns the state of the lane as text, and the CSS class for it.
pub(super) const fn lane_badge(mode: &LaneMode) -> (&'static str, &'static str) {
    match mode {
        LaneMode::Paused => ("paused", "bad"),
        LaneMode::OneAtATime => ("one at a time", "warn"),
        LaneMode::Throttled => ("throttled", "warn"),
        LaneMode::Open => ("open", "good"),
    }
}
