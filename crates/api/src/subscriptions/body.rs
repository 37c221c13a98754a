//! The bodies of requests that create, replace and change a subscription. Values are parsed by the types of `core`;
//! [`edit`](super::edit) applies them.

use crate::problem::Problem;
use crate::values::{NotNull, Number, Text, body};
use posthaste_core::envelope::Envelope;
use posthaste_core::filter::Filter;
use posthaste_core::identity::{SubscriptionName, Uid};
use posthaste_core::metadata::Metadata;
use posthaste_core::pattern::{EventTypePattern, EventTypePatterns};
use posthaste_core::request::{AuthInput, RequestHeadersInput};
use posthaste_core::signature::{Ed25519Key, Signatures, SigningSecret};
use posthaste_core::subscription::check_description;
use posthaste_core::tenant::Tenant;

/// The maximum `max_retry_limit` of a subscription.
const RETRY_LIMIT_MAX: u32 = 100;

body! {
    /// A new subscription, or the complete state of an existing one. Absent fields get their defaults.
    #[schema(
        as = NewSubscription,
        example = json!({
            "event_types": ["order.paid", "invoice.*"], "filter": {"exact": {"region": "eu"}},
            "callback_url": "https://example.com/hook"
        })
    )]
    struct NewSubscriptionBody {
        /// The types of the events to deliver, 1 to 100: a type such as `order.paid`, a prefix such as `order.*`, or
        /// `*`. Either this field or `event_type` is required.
        #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 100)]
        event_types: Option<EventTypePatterns>,
        /// The only entry of `event_types`.
        #[schema(value_type = Option<String>, max_length = 200)]
        event_type: Option<EventTypePattern>,
        /// The URL to which events are sent. It must use `https` and a host with a public address.
        #[schema(max_length = 2000)]
        callback_url: String,
        /// The tenant whose events are delivered. The default is the tenant of the API key, or none. It cannot be
        /// changed later.
        #[schema(value_type = Option<String>, max_length = 200)]
        tenant: Option<Tenant>,
        /// The caller's own id, unique within the tenant. In a replacement, it must be that of the path.
        #[schema(value_type = Option<String>, max_length = 200)]
        uid: Option<Uid>,
        /// A name for display.
        #[schema(value_type = Option<String>, max_length = 200)]
        name: Option<SubscriptionName>,
        /// A description for display.
        #[schema(value_type = Option<String>, max_length = 1000)]
        description: Option<Description>,
        /// Up to 20 pairs of a name and a text that belong to the caller.
        #[schema(value_type = Option<BTreeMap<String, String>>)]
        metadata: Option<Metadata>,
        /// A filter on the attributes of events, in the dialect of CloudEvents Subscriptions: an object, or an array of
        /// objects that must all hold. The default is all events.
        #[schema(value_type = Option<Value>)]
        filter: Option<Filter>,
        /// Whether events are routed and delivered. The default is true.
        active: Option<bool>,
        /// The number of attempts after which a delivery is dead-lettered. The default is set by the server.
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
        max_retry_limit: Option<Number<1, RETRY_LIMIT_MAX>>,
        /// The request timeout, from 1s to 5s less than the lease. The default is set by the server
        /// (`POSTHASTE_REQUEST_TIMEOUT`).
        #[schema(example = "30s")]
        timeout: Option<String>,
        /// The signature formats of requests, 1 to 3: `"standard"`, `"standard_ed25519"`, `{"preset": "svix"}` (also
        /// `github`, `stripe`, `shopify` and `slack`) or `{"hmac": {…}}`. The default is `["standard"]`.
        #[schema(value_type = Option<Vec<Value>>, min_items = 1, max_items = 3)]
        signatures: Option<Signatures>,
        /// The signing secret. The default is a new random one. In a replacement, another secret than the current one
        /// is rotated in.
        #[schema(value_type = Option<String>, min_length = 8, max_length = 256)]
        secret: Option<SigningSecret>,
        /// The private key (`whsk_…`) of the signature format `standard_ed25519`. The default is a new random one.
        #[schema(value_type = Option<String>, max_length = 200)]
        signing_key: Option<Ed25519Key>,
        /// Up to 20 headers of requests: a text, or `{"value": "…", "secret": true}`. In a replacement,
        /// `{"secret": true}` keeps the stored value.
        #[schema(value_type = Option<BTreeMap<String, Value>>)]
        headers: Option<RequestHeadersInput>,
        /// The authentication of requests: an object with one of `basic`, `bearer`, `api_key`,
        /// `oauth2_client_credentials` and `mtls`. In a replacement, an absent secret keeps the stored one.
        #[schema(value_type = Option<BTreeMap<String, Value>>)]
        auth: Option<AuthInput>,
        /// The envelope in which events are sent: `raw`, `standard`, `cloudevents-binary` or
        /// `cloudevents-structured`. The default is `raw`.
        #[schema(value_type = Option<String>)]
        envelope: Option<Envelope>,
    }
}

body! {
    /// A merge patch (RFC 7396). Null resets a field to its default; absent fields are unchanged.
    #[schema(example = json!({"active": false}))]
    struct SubscriptionChange {
        /// The types and patterns of the events to deliver. There is no default, so null is rejected.
        #[schema(value_type = Vec<String>, required = false, min_items = 1, max_items = 100)]
        event_types: NotNull<EventTypePatterns>,
        /// The only entry of `event_types`. There is no default, so null is rejected.
        #[schema(value_type = String, required = false, max_length = 200)]
        event_type: NotNull<EventTypePattern>,
        /// The URL to which events are sent. A new URL must be verified. There is no default, so null is rejected.
        #[schema(value_type = String, required = false, max_length = 2000)]
        callback_url: NotNull<String>,
        /// The caller's own id, unique within the tenant. The default is none.
        #[schema(value_type = Option<String>, max_length = 200)]
        uid: Option<Option<Uid>>,
        /// A name for display. The default is none.
        #[schema(value_type = Option<String>, max_length = 200)]
        name: Option<Option<SubscriptionName>>,
        /// A description for display. The default is no description.
        #[schema(value_type = Option<String>, max_length = 1000)]
        description: Option<Option<Description>>,
        /// Up to 20 pairs of a name and a text, which replace all current ones.
        #[schema(value_type = Option<BTreeMap<String, String>>)]
        metadata: Option<Option<Metadata>>,
        /// A filter on the attributes of events. The default is all events.
        #[schema(value_type = Option<Value>)]
        filter: Option<Option<Filter>>,
        /// Whether events are routed and delivered. If false, existing deliveries are held. The default is true.
        #[schema(value_type = Option<bool>)]
        active: Option<Option<bool>>,
        /// The number of attempts after which a delivery is dead-lettered. The default is set by the server.
        #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
        max_retry_limit: Option<Option<Number<1, RETRY_LIMIT_MAX>>>,
        /// The request timeout, from 1s to 5s less than the lease. The default is set by the server.
        #[schema(value_type = Option<String>, example = "30s")]
        timeout: Option<Option<String>>,
        /// The signature formats of requests. The default is `["standard"]`.
        #[schema(value_type = Option<Vec<Value>>, min_items = 1, max_items = 3)]
        signatures: Option<Option<Signatures>>,
        /// The headers of requests, which replace all current ones. `{"secret": true}` keeps the stored value.
        #[schema(value_type = Option<BTreeMap<String, Value>>)]
        headers: Option<Option<RequestHeadersInput>>,
        /// The authentication of requests. An absent secret keeps the stored one. The default is none.
        #[schema(value_type = Option<BTreeMap<String, Value>>)]
        auth: Option<Option<AuthInput>>,
        /// The envelope in which events are sent. The default is `raw`.
        #[schema(value_type = Option<String>)]
        envelope: Option<Option<Envelope>>,
    }
}

/// Returns the patterns of a subscription from the two fields that can contain them, or `None` if both are absent.
///
/// # Errors
///
/// Returns a problem with status 422 if both are present.
pub(super) fn event_types(
    several: Option<EventTypePatterns>,
    one: Option<EventTypePattern>,
) -> Result<Option<EventTypePatterns>, Problem> {
    match (several, one) {
        (Some(_), Some(_)) => Err(Problem::invalid(
            "event_type",
            "event_type must not be sent together with event_types: send one of them",
        )),
        (several, None) => Ok(several),
        (None, one) => Ok(one.map(EventTypePatterns::from)),
    }
}

#[derive(Debug)]
pub(crate) struct Description(pub(super) String);

impl Text for Description {
    fn read_text(_: &str, text: String) -> Result<Self, String> {
        check_description(&text).map_err(|error| error.to_string())?;
        Ok(Self(text))
    }
}
