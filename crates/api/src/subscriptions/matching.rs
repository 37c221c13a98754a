//! Shows which subscriptions match an event that need not exist, and what decides. Uses the rule of the router in
//! `core`.

use crate::auth::Scope;
use crate::problem::Problem;
use crate::query::{Listed, Query, ok};
use crate::state::{Api, ApiResult};
use crate::values::{Parameter as _, Text as _, described, string_schema};
use axum::Extension;
use axum::extract::State;
use http::Uri;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::EventType;
use posthaste_core::identity::Uid;
use posthaste_core::pattern::EventTypePattern;
use posthaste_core::ports::{Page, ReaderStore as _, Stores, SubscriptionFilter};
use posthaste_core::route::{EventFacts, Routable, RouteDecision, decide};
use posthaste_core::subscription::Subscription;
use posthaste_core::tenant::Tenant;
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

/// The list name in the cursors of this operation.
const LIST: &str = "match";

/// Whether a subscription matches an event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SubscriptionMatch, example = json!({
    "subscription_id": 3, "uid": "shop-1", "matched": false, "pattern": "order.*",
    "clause": "#/all/1 {\"exact\":{\"region\":\"eu\"}}", "reason": "filtered"
}))]
pub(crate) struct MatchView {
    /// The id of the subscription.
    subscription_id: i64,
    /// The caller's own id of the subscription.
    uid: Option<String>,
    /// Whether the event would be delivered to the subscription.
    matched: bool,
    /// The most specific pattern of the subscription that matches the event type; null if there is none.
    pattern: Option<String>,
    /// The JSON pointer and the text of the filter clause that decides; null without a filter or a pattern.
    clause: Option<String>,
    /// The reason why the subscription does not match: `paused`, `unverified`, `other_type` or `filtered`; null if it
    /// matches.
    reason: Option<&'static str>,
}

impl MatchView {
    fn of(event: EventFacts<'_>, subscription: Subscription) -> Self {
        let routable = Routable {
            tenant: subscription.tenant.as_ref(),
            event_types: &subscription.event_types,
            filter: subscription.filter.as_ref(),
            active: subscription.active,
            verified: subscription.verified,
            deleted: subscription.deleted_at.is_some(),
        };
        let decision = decide(event, routable);
        let pattern = subscription.event_types.find(event.event_type).map(EventTypePattern::as_str);
        let filter = subscription.filter.as_ref().filter(|_| pattern.is_some());
        let reason = match &decision {
            RouteDecision::Matched { .. } => None,
            RouteDecision::Deleted => Some("deleted"),
            RouteDecision::Inactive => Some("paused"),
            RouteDecision::Unverified => Some("unverified"),
            RouteDecision::OtherTenant => Some("other_tenant"),
            RouteDecision::NoPattern => Some("other_type"),
            RouteDecision::Filtered { .. } => Some("filtered"),
        };
        Self {
            subscription_id: subscription.id.get(),
            matched: decision.is_matched(),
            pattern: pattern.map(str::to_owned),
            clause: filter.map(|filter| filter.decide(event.event_type, event.attributes).clause),
            reason,
            uid: subscription.uid.map(Uid::into_string),
        }
    }
}

/// The query parameters of [`list`].
#[derive(Debug)]
pub(crate) struct Parameters;

impl IntoParams for Parameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let own = [
            described("event_type", "The type of the event. Required.", EventType::text_schema()),
            described(
                "attributes",
                "The attributes of the event, as a JSON object. The default is none.",
                string_schema().build(),
            ),
            described(
                "tenant",
                "The tenant of the event. The default is that of the API key, or none.",
                Tenant::text_schema(),
            ),
            described(
                "all",
                "Whether to return also the subscriptions of the tenant without a matching pattern.",
                bool::schema(),
            ),
        ];
        own.into_iter().chain(crate::query::PageParameters::described()).collect()
    }
}

#[utoipa::path(
    get,
    path = "/v1/subscriptions/match",
    tag = "subscriptions",
    operation_id = "list_subscription_matches",
    summary = "List the subscriptions that match an event",
    description = "Returns whether the subscriptions of a tenant match an event with a type and attributes, newest \
                   first, and what decides. The event need not exist, and nothing is sent.",
    security(("api_key" = ["viewer"])),
    params(Parameters),
    responses((status = 200, description = "A page of subscriptions", body = Listed<MatchView>)),
)]
pub(crate) async fn list<S: Stores>(
    State(api): Api<S>,
    Extension(scope): Extension<Scope>,
    uri: Uri,
) -> ApiResult {
    let mut query = Query::of(&uri)?;
    let event_type = query.read::<EventType>("event_type");
    let attributes = query.read::<Attributes>("attributes").unwrap_or_default();
    let (tenant, all) = (query.read::<Tenant>("tenant"), query.flag("all"));
    let page = query.page(LIST);
    query.finish()?;
    let event_type =
        event_type.ok_or_else(|| Problem::invalid_parameter("event_type", "event_type is required"))?;
    let Some(tenant) = scope.restrict(tenant) else {
        return ok(&Listed::<MatchView> { items: Vec::new(), next_cursor: None });
    };
    let filter = SubscriptionFilter {
        tenant: tenant.clone(),
        event_type: Some(event_type.clone()).filter(|_| !all),
        ..SubscriptionFilter::default()
    };
    let Page { mut items, next } = api.reader.subscriptions(filter, page).await?;
    // Without a tenant, the filter selects the subscriptions of all tenants.
    items.retain(|one| one.tenant == tenant);
    let event = EventFacts { event_type: &event_type, tenant: tenant.as_ref(), attributes: &attributes };
    ok(&Listed::of(LIST, Page { items, next }, |one| MatchView::of(event, one)))
}
