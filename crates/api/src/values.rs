//! Parses the values of JSON fields and query parameters; each type has an error message and a schema. The macros
//! [`body!`] and [`parameters!`] generate both the parser of a request and its description in the OpenAPI document.

use crate::query::read_id;
use crate::time;
use posthaste_core::attributes::Attributes;
use posthaste_core::audit::AuditAction;
use posthaste_core::envelope::Envelope;
use posthaste_core::event::{
    CORRELATION_ID_CHARS_MAX, CorrelationId, EVENT_TYPE_CHARS_MAX, EXTERNAL_ID_CHARS_MAX, EventType,
    ExternalEventId,
};
use posthaste_core::filter::Filter;
use posthaste_core::identity::{IDENTITY_CHARS_MAX, SubscriptionName, Uid};
use posthaste_core::metadata::Metadata;
use posthaste_core::order::OrderStatus;
use posthaste_core::outcome::{ERROR_CODE_CHARS_MAX, ErrorCode};
use posthaste_core::pattern::{EventTypePattern, EventTypePatterns};
use posthaste_core::ports::KeyRole;
use posthaste_core::request::{AuthInput, RequestHeadersInput};
use posthaste_core::saga::SagaStatus;
use posthaste_core::signature::{Ed25519Key, Signatures, SigningSecret};
use posthaste_core::subscription::{Standing, VerificationMethod};
use posthaste_core::tenant::{TENANT_CHARS_MAX, Tenant};
use posthaste_core::{DeadLetterId, EventId, SubscriptionId, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use utoipa::openapi::path::{Parameter as Described, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, Object, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Required, Schema};

/// Defines a request body: a struct whose fields are parsed by name, and its schema. Fields of type `Option` are
/// optional; `Option<Option<_>>` distinguishes null from an absent field.
macro_rules! body {
    (
        $(#[$about:meta])*
        struct $name:ident $(<$life:lifetime>)? { $($(#[$of_field:meta])* $field:ident: $kind:ty,)* }
    ) => {
        #[derive(Debug, utoipa::ToSchema)]
        $(#[$about])*
        pub(crate) struct $name $(<$life>)? { $($(#[$of_field])* pub(crate) $field: $kind,)* }

        impl $(<$life>)? $name $(<$life>)? {
            /// Parses the body.
            ///
            /// # Errors
            ///
            /// Returns a problem that lists all invalid fields.
            pub(crate) fn read(
                fields: &mut $crate::values::fields_of!($($life)?),
            ) -> Result<Self, $crate::problem::Problem> {
                $(let $field = fields.read(stringify!($field).trim_start_matches("r#"));)*
                fields.finish()?;
                let ($(Some($field),)*) = ($($field,)*) else {
                    return Err($crate::problem::Problem::invalid_body("the body is not valid"));
                };
                Ok(Self { $($field,)* })
            }
        }
    };
}

macro_rules! fields_of {
    () => { $crate::fields::Fields<'_> };
    ($life:lifetime) => { $crate::fields::Fields<$life> };
}

/// Defines the query parameters of a list: the filter parameters with their types, and the page parameters. The doc
/// comment of a parameter is its description.
macro_rules! parameters {
    (
        struct $name:ident($list:expr) -> $filter:ident {
            $($(#[doc = $help:literal])* $field:ident $(as $parameter:literal)?: $kind:ty,)*
        }
    ) => {
        #[derive(Debug)]
        pub(crate) struct $name;

        impl $name {
            /// The names of the filter parameters.
            pub(crate) const NAMES: &[&str] = &[$($crate::values::name_of!($field $($parameter)?)),*];

            /// Parses the filter and the page request.
            ///
            /// # Errors
            ///
            /// Returns a problem that lists all invalid parameters.
            pub(crate) fn read(
                mut query: $crate::query::Query,
            ) -> Result<($filter, posthaste_core::ports::PageRequest), $crate::problem::Problem> {
                // Some filters have fields that are not parameters of this form.
                #[allow(clippy::needless_update)]
                let filter = $filter {
                    $($field: query.read::<$kind>($crate::values::name_of!($field $($parameter)?)),)*
                    ..$filter::default()
                };
                let page = query.page($list);
                query.finish()?;
                Ok((filter, page))
            }
        }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                use $crate::values::{Parameter, described, name_of};
                let filter = [$(described(
                    name_of!($field $($parameter)?), concat!($($help),*), <$kind as Parameter>::schema(),
                )),*];
                filter.into_iter().chain($crate::query::PageParameters::described()).collect()
            }
        }
    };
}

macro_rules! name_of {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $parameter:literal) => {
        $parameter
    };
}

pub(crate) use {body, fields_of, name_of, parameters};

/// A non-null value of a JSON field.
pub(crate) trait Value: Sized {
    /// Parses `json`, the value of the field `name`.
    ///
    /// # Errors
    ///
    /// Returns an error message that begins with the name of the field.
    fn read(name: &str, json: &str) -> Result<Self, String>;
}

/// A field of a body: a required value, an optional value, or JSON that keeps its text.
pub(crate) trait Field<'a>: Sized {
    /// Parses the field `name`. `raw` is `None` if the field is absent.
    fn of(name: &str, raw: Option<&'a RawValue>) -> Result<Self, String>;
}

impl<'a, T: Value> Field<'a> for T {
    fn of(name: &str, raw: Option<&'a RawValue>) -> Result<Self, String> {
        Option::of(name, raw)?.ok_or_else(|| missing(name))
    }
}

impl<'a, T: Value> Field<'a> for Option<T> {
    fn of(name: &str, raw: Option<&'a RawValue>) -> Result<Self, String> {
        Ok(Option::<Self>::of(name, raw)?.flatten())
    }
}

impl<'a, T: Value> Field<'a> for Option<Option<T>> {
    fn of(name: &str, raw: Option<&'a RawValue>) -> Result<Self, String> {
        let read = |raw: &RawValue| match raw.get() {
            "null" => Ok(None),
            json => T::read(name, json).map(Some),
        };
        raw.map(read).transpose()
    }
}

/// A merge patch field (RFC 7396) without a default: it can be changed, but not reset with null.
#[derive(Debug)]
pub(crate) struct NotNull<T>(pub(crate) Option<T>);

impl<'a, T: Value> Field<'a> for NotNull<T> {
    fn of(name: &str, raw: Option<&'a RawValue>) -> Result<Self, String> {
        match Option::<Option<T>>::of(name, raw)? {
            Some(None) => {
                Err(format!("{name} must not be null, since it has no default: leave it out to keep it"))
            }
            Some(value @ Some(_)) => Ok(Self(value)),
            None => Ok(Self(None)),
        }
    }
}

impl<'a> Field<'a> for &'a RawValue {
    fn of(name: &str, raw: Option<&'a RawValue>) -> Result<Self, String> {
        raw.ok_or_else(|| missing(name))
    }
}

impl<'a> Field<'a> for Option<&'a RawValue> {
    fn of(_: &str, raw: Option<&'a RawValue>) -> Result<Self, String> {
        Ok(raw)
    }
}

fn missing(name: &str) -> String {
    format!("{name} is required")
}

/// Deserializes JSON. `what` is the expected type, for the error message.
fn from_json<T: DeserializeOwned>(name: &str, json: &str, what: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|_| format!("{name} must be {what}"))
}

/// A value that is a string, in bodies and in parameters.
pub(crate) trait Text: Sized {
    /// The expected type, for the error message if the JSON is not a string.
    const WHAT: &str = "a string";

    /// Returns the schema of the string.
    fn text_schema() -> Object {
        string_schema().build()
    }

    /// Parses the text of the field or parameter `name`.
    fn read_text(name: &str, text: String) -> Result<Self, String>;
}

impl<T: Text> Value for T {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        T::read_text(name, from_json(name, json, T::WHAT)?)
    }
}

impl Text for String {
    fn read_text(_: &str, text: String) -> Result<Self, String> {
        Ok(text)
    }
}

impl Text for Timestamp {
    const WHAT: &str = "a time such as 2026-01-31T12:00:00Z";

    fn text_schema() -> Object {
        string_schema().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).build()
    }

    fn read_text(name: &str, text: String) -> Result<Self, String> {
        time::parse(&text).ok_or_else(|| format!("{name} must be {}", Self::WHAT))
    }
}

macro_rules! parsed {
    ($($kind:ty: $chars_max:expr, $pattern:expr;)*) => {$(
        impl Text for $kind {
            fn text_schema() -> Object {
                string_schema().max_length(Some($chars_max)).pattern($pattern).build()
            }

            fn read_text(_: &str, text: String) -> Result<Self, String> {
                Self::parse(text).map_err(|error| error.to_string())
            }
        }
    )*};
}

parsed! {
    EventType: EVENT_TYPE_CHARS_MAX, Some("^[A-Za-z0-9][A-Za-z0-9_.:/-]*$");
    ExternalEventId: EXTERNAL_ID_CHARS_MAX, None::<String>;
    CorrelationId: CORRELATION_ID_CHARS_MAX, None::<String>;
    ErrorCode: ERROR_CODE_CHARS_MAX, Some("^[A-Z0-9_]+$");
    Tenant: TENANT_CHARS_MAX, None::<String>;
    Uid: IDENTITY_CHARS_MAX, None::<String>;
    SubscriptionName: IDENTITY_CHARS_MAX, None::<String>;
}

macro_rules! one_of_words {
    ($($kind:ty),*) => {$(
        impl Text for $kind {
            fn text_schema() -> Object {
                string_schema().enum_values(Some(Self::ALL.map(Self::as_str))).build()
            }

            fn read_text(name: &str, text: String) -> Result<Self, String> {
                let known = || Self::ALL.map(Self::as_str).join(", ");
                Self::parse(&text).ok_or_else(|| format!("{name} must be one of {}", known()))
            }
        }
    )*};
}

one_of_words!(SagaStatus, OrderStatus, Standing, AuditAction, KeyRole, VerificationMethod);

impl Value for bool {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        from_json(name, json, "true or false")
    }
}

/// An integer from `MIN` to `MAX`.
#[derive(Debug)]
pub(crate) struct Number<const MIN: u32, const MAX: u32>(pub(crate) u32);

impl<const MIN: u32, const MAX: u32> Value for Number<MIN, MAX> {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        let number = serde_json::from_str(json).ok().filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| format!("{name} must be a whole number from {MIN} to {MAX}"))
    }
}

impl Value for Attributes {
    fn read(_: &str, json: &str) -> Result<Self, String> {
        Self::parse(json).map_err(|error| error.to_string())
    }
}

/// The type of an event that a caller publishes.
#[derive(Debug)]
pub(crate) struct PublishedType(pub(crate) EventType);

impl Text for PublishedType {
    fn text_schema() -> Object {
        EventType::text_schema()
    }

    fn read_text(_: &str, text: String) -> Result<Self, String> {
        EventType::parse_published(text).map(Self).map_err(|error| error.to_string())
    }
}

impl Value for SubscriptionId {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        Self::new(from_json(name, json, "a whole number")?).map_err(|error| error.to_string())
    }
}

impl Value for EventId {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        Self::new(from_json(name, json, "a whole number")?).map_err(|error| error.to_string())
    }
}

/// A value of a query parameter.
pub(crate) trait Parameter: Sized {
    /// Returns the schema for the OpenAPI document.
    fn schema() -> Object;

    /// Parses the parameter `name`.
    ///
    /// # Errors
    ///
    /// Returns an error message that states the accepted values.
    fn read(name: &str, text: String) -> Result<Self, String>;
}

impl<T: Text> Parameter for T {
    fn schema() -> Object {
        T::text_schema()
    }

    fn read(name: &str, text: String) -> Result<Self, String> {
        T::read_text(name, text)
    }
}

impl Parameter for Attributes {
    fn schema() -> Object {
        string_schema().build()
    }

    fn read(_: &str, text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|error| error.to_string())
    }
}

impl Parameter for bool {
    fn schema() -> Object {
        ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into())).build()
    }

    fn read(name: &str, text: String) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{name} must be true or false"))
    }
}

macro_rules! ids {
    ($($kind:ty),*) => {$(
        impl Parameter for $kind {
            fn schema() -> Object {
                let format = SchemaFormat::KnownFormat(KnownFormat::Int64);
                number_schema().format(Some(format)).minimum(Some(1)).build()
            }

            fn read(name: &str, text: String) -> Result<Self, String> {
                read_id(name, &text, Self::new)
            }
        }
    )*};
}

ids!(SubscriptionId, EventId, DeadLetterId);

macro_rules! parsed_json {
    ($($kind:ty),*) => {$(
        impl Value for $kind {
            fn read(_: &str, json: &str) -> Result<Self, String> {
                Self::parse(json).map_err(|error| error.to_string())
            }
        }
    )*};
}

parsed_json!(Filter, Metadata, Signatures, RequestHeadersInput);

impl Value for AuthInput {
    fn read(_: &str, json: &str) -> Result<Self, String> {
        // The address policy of the server decides whether the URL of a token server may use http.
        Self::parse(json, true).map_err(|error| error.to_string())
    }
}

impl Value for EventTypePatterns {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        Self::parse(from_json(name, json, "a list of strings")?).map_err(|error| error.to_string())
    }
}

impl Text for EventTypePattern {
    fn read_text(name: &str, text: String) -> Result<Self, String> {
        Self::parse(text).map_err(|error| format!("{name}: {error}"))
    }
}

macro_rules! parsed_text {
    ($($kind:ty),*) => {$(
        impl Text for $kind {
            fn read_text(_: &str, text: String) -> Result<Self, String> {
                Self::parse(&text).map_err(|error| error.to_string())
            }
        }
    )*};
}

parsed_text!(SigningSecret, Ed25519Key, Envelope);

/// Returns a schema builder for a string.
pub(crate) fn string_schema() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// Returns a schema builder for an integer.
pub(crate) fn number_schema() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer)
}

/// Returns the description of an optional query parameter.
pub(crate) fn described(name: &str, help: &str, schema: Object) -> Described {
    let described = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    let schema = RefOr::T(Schema::Object(schema));
    described.schema(Some(schema)).required(Required::False).description(Some(help.trim())).build()
}
