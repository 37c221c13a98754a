//! The values of requests: how each type is read from a field of a JSON body and from a query parameter, and what the
//! message says when it is wrong. A request is described once on top of them: [`body!`] and [`parameters!`] make what
//! reads it and what the OpenAPI document says about it.

use crate::query::read_id;
use crate::time;
use posthaste_core::audit::AuditAction;
use posthaste_core::event::{CorrelationId, EventType, ExternalEventId};
use posthaste_core::order::OrderStatus;
use posthaste_core::outcome::ErrorCode;
use posthaste_core::ports::KeyRole;
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::Standing;
use posthaste_core::{DeadLetterId, EventId, SubscriptionId, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use utoipa::PartialSchema;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter as Described, ParameterBuilder, ParameterIn};

/// Defines a body: a struct whose fields are read by name, and its schema. A field of type `Option` may be left out;
/// `Option<Option<_>>` distinguishes null from a field that is left out.
macro_rules! body {
    (
        $(#[$about:meta])*
        struct $name:ident $(<$life:lifetime>)? { $($(#[$of_field:meta])* $field:ident: $kind:ty,)* }
    ) => {
        #[derive(Debug, utoipa::ToSchema)]
        $(#[$about])*
        pub(crate) struct $name $(<$life>)? { $($(#[$of_field])* pub(crate) $field: $kind,)* }

        impl $(<$life>)? $name $(<$life>)? {
            /// Takes the fields of this body. [`Fields::finish`](crate::fields::Fields::finish) refuses the others.
            pub(crate) fn read(
                fields: &mut $crate::values::fields_of!($($life)?),
            ) -> Result<Self, $crate::problem::Problem> {
                Ok(Self { $($field: fields.take(stringify!($field).trim_start_matches("r#"))?,)* })
            }
        }
    };
}

macro_rules! fields_of {
    () => { $crate::fields::Fields<'_> };
    ($life:lifetime) => { $crate::fields::Fields<$life> };
}

/// Defines the parameters of a list: its filter, each field with the type it is read as, and the page. A doc comment
/// becomes the description of the parameter.
macro_rules! parameters {
    (
        struct $name:ident($list:expr) -> $filter:ident {
            $($(#[doc = $help:literal])* $field:ident $(as $parameter:literal)?: $kind:ty,)*
        }
    ) => {
        #[derive(Debug)]
        pub(crate) struct $name;

        impl $name {
            /// The names of the parameters of the filter.
            pub(crate) const NAMES: &[&str] = &[$($crate::values::name_of!($field $($parameter)?)),*];

            pub(crate) fn read(
                mut query: $crate::query::Query,
            ) -> Result<($filter, posthaste_core::ports::PageRequest), $crate::problem::Problem> {
                let filter = $filter {
                    $($field: query.get::<$kind>($crate::values::name_of!($field $($parameter)?))?,)*
                };
                let page = query.page($list)?;
                query.finish()?;
                Ok((filter, page))
            }
        }

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                use $crate::values::{Parameter, described, name_of};
                let filter = [$(described::<<$kind as Parameter>::Shown>(
                    name_of!($field $($parameter)?), concat!($($help),*),
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

/// A value of a body that is not null.
pub(crate) trait Value: Sized {
    /// Reads JSON. The error says what is wrong with the field `name`.
    fn read(name: &str, json: &str) -> Result<Self, String>;
}

/// A field of a body: a value that is required, one that may be left out, or JSON that is kept as it came.
pub(crate) trait Field<'a>: Sized {
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
    format!("{name} is missing")
}

/// Reads JSON of a type that needs no further check.
fn from_json<T: DeserializeOwned>(name: &str, json: &str, what: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|_| format!("{name} must be {what}"))
}

/// A value that is written as text, in bodies and in parameters.
pub(crate) trait Text: Sized {
    /// What other JSON must be.
    const WHAT: &str = "text";

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

    fn read_text(name: &str, text: String) -> Result<Self, String> {
        time::parse(&text).ok_or_else(|| format!("{name} must be {}", Self::WHAT))
    }
}

macro_rules! parsed {
    ($($kind:ty),*) => {$(
        impl Text for $kind {
            fn read_text(_: &str, text: String) -> Result<Self, String> {
                Self::parse(text).map_err(|error| error.to_string())
            }
        }
    )*};
}

parsed!(EventType, ExternalEventId, CorrelationId, ErrorCode);

macro_rules! one_of_words {
    ($($kind:ty),*) => {$(
        impl Text for $kind {
            fn read_text(name: &str, text: String) -> Result<Self, String> {
                let known = || Self::ALL.map(Self::as_str).join(", ");
                Self::parse(&text).ok_or_else(|| format!("{name} must be one of {}", known()))
            }
        }
    )*};
}

one_of_words!(SagaStatus, OrderStatus, Standing, AuditAction, KeyRole);

impl Value for bool {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        from_json(name, json, "true or false")
    }
}

/// A whole number within bounds.
#[derive(Debug)]
pub(crate) struct Number<const MIN: u32, const MAX: u32>(pub(crate) u32);

impl<const MIN: u32, const MAX: u32> Value for Number<MIN, MAX> {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        let number = serde_json::from_str(json).ok().filter(|number| (MIN..=MAX).contains(number));
        number.map(Self).ok_or_else(|| format!("{name} must be a whole number from {MIN} to {MAX}"))
    }
}

impl Value for SubscriptionId {
    fn read(name: &str, json: &str) -> Result<Self, String> {
        Self::new(from_json(name, json, "a whole number")?).map_err(|error| error.to_string())
    }
}

/// A value of a query parameter.
pub(crate) trait Parameter: Sized {
    /// The type that the OpenAPI document shows.
    type Shown: PartialSchema;

    fn read(name: &str, text: String) -> Result<Self, String>;
}

impl<T: Text> Parameter for T {
    type Shown = String;

    fn read(name: &str, text: String) -> Result<Self, String> {
        T::read_text(name, text)
    }
}

macro_rules! ids {
    ($($kind:ty),*) => {$(
        impl Parameter for $kind {
            type Shown = i64;

            fn read(name: &str, text: String) -> Result<Self, String> {
                read_id(name, &text, Self::new)
            }
        }
    )*};
}

ids!(SubscriptionId, EventId, DeadLetterId);

/// Describes a query parameter that may be left out. An empty `help` is no description.
pub(crate) fn described<T: PartialSchema>(name: &str, help: &str) -> Described {
    let described =
        ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).schema(Some(T::schema()));
    let help = Some(help.trim()).filter(|help| !help.is_empty());
    described.required(Required::False).description(help).build()
}
