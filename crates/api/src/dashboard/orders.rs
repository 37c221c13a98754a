//! Orders: the list with the lane they go out on, and one order with everything that happened to it. A lane
//! that holds back is let go on from here.

use super::filter::Filter;
use super::form::Form;
use super::look::{self, List, Reach};
use super::page::{Around, Shown, show as write, show_as};
use super::visitor::Visitor;
use crate::orders::{self, OrderView, TransitionView};
use crate::outbox::{self, LaneView};
use crate::query::Listed;
use crate::state::ApiState;
use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect};
use http::Uri;
use posthaste_core::audit::Actor;
use posthaste_core::lane::LaneMode;
use posthaste_core::order::OrderStatus;
use posthaste_core::ports::Stores;
use std::sync::Arc;

const HERE: &str = "/orders";
/// The transitions that a page tells of.
const TRANSITIONS_MAX: u32 = 100;

#[derive(Debug, Template)]
#[template(path = "orders.html")]
struct OrdersPage {
    around: Around,
    list: List,
    lane: LaneView,
    found: Listed<OrderView>,
    statuses: Vec<&'static str>,
    filter: Filter,
    reach: Option<Reach>,
}

/// Whoever names a key wants that order, whatever its status.
pub(crate) async fn list<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let mut filter = Filter::of(&uri)?;
    let found = if filter.idempotency_key.is_empty() {
        orders::find(&api, &without_key(&uri), look::LOOKED_AT_MAX).await
    } else {
        match orders::find_one(&api, filter.idempotency_key.clone()).await {
            Ok(order) => return one(&api, visitor, order).await,
            Err(problem) => Err(problem),
        }
    };
    let found = filter.judge(found)?;
    let statuses = OrderStatus::ALL.into_iter().map(OrderStatus::as_str).collect();
    let reach = look::ORDERS.reach(&api, &found, &filter.limit).await?;
    let lane = outbox::read(&api).await?;
    let (around, list) = (Around::of(visitor, HERE), look::ORDERS);
    show_as(filter.status(), &OrdersPage { around, list, lane, found, statuses, filter, reach })
}

/// The form sends its field also where nobody filled it in.
fn without_key(uri: &Uri) -> Uri {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    text.extend_pairs(pairs.filter(|(name, _)| name != "idempotency_key"));
    format!("{HERE}?{}", text.finish()).parse().unwrap_or_default()
}

#[derive(Debug, Template)]
#[template(path = "order.html")]
struct OrderPage {
    around: Around,
    order: OrderView,
    result: Option<String>,
    audit: Vec<TransitionView>,
    /// There were others before these.
    more: bool,
    /// It is due at a time to come.
    waits: bool,
    has_ended: bool,
}

pub(crate) async fn show<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
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
    let waits = is(OrderStatus::Queued) || is(OrderStatus::Failed);
    let has_ended = is(OrderStatus::Sent) || is(OrderStatus::Dead);
    write(&OrderPage { around: Around::of(visitor, HERE), order, result, audit, more, waits, has_ended })
}

/// Opens the lane; pressed twice, it is open all the same.
pub(crate) async fn resume<S: Stores>(
    State(api): State<Arc<ApiState<S>>>,
    Extension(by): Extension<Actor>,
    Extension(_form): Extension<Form>,
) -> Shown {
    outbox::go_on(&api, by).await?;
    Ok(Redirect::to(HERE).into_response())
}

impl OrderView {
    /// Where a page shows it. Browsers take `.` and `..` for steps in a path, however they are spelled.
    fn address(&self) -> String {
        let key: String = url::form_urlencoded::byte_serialize(self.idempotency_key.as_bytes()).collect();
        match self.idempotency_key.as_str() {
            "." | ".." => format!("{HERE}?idempotency_key={key}"),
            _ => format!("{HERE}/{key}"),
        }
    }
}

/// The state of the lane as text, and its colour.
pub(super) const fn lane_badge(mode: &LaneMode) -> (&'static str, &'static str) {
    match mode {
        LaneMode::Paused => ("paused", "bad"),
        LaneMode::OneAtATime => ("one at a time", "warn"),
        LaneMode::Throttled => ("throttled", "warn"),
        LaneMode::Open => ("open", "good"),
    }
}
