//! Column lists shared by the statements of both engines. A statement names a list in braces, such as `{subscription}`,
//! and [`sql!`] replaces the name with the columns.

use std::sync::LazyLock;

/// The columns of a subscription, without its secrets.
const SUBSCRIPTION: &[&str] = &[
    "id",
    "tenant",
    "uid",
    "name",
    "metadata",
    "event_types",
    "filter",
    "callback_url",
    "active",
    "verified",
    "verification_method",
    "verified_at",
    "verified_by",
    "allowed_per_minute",
    "max_retry_limit",
    "timeout_ms",
    "description",
    "signatures",
    "public_key",
    "headers",
    "auth",
    "envelope",
    "revision",
    "created_at",
    "updated_at",
    "deleted_at",
];
const SECRETS: &[&str] = &[
    "secret_ref",
    "secret",
    "previous_secret",
    "previous_secret_expires_at",
    "older_secret",
    "older_secret_expires_at",
    "credentials",
];
/// The columns of a subscription that a worker reads.
const TARGET: &[&str] =
    &["id", "callback_url", "verified", "timeout_ms", "signatures", "headers", "auth", "envelope"];
/// The columns of an event, without its payload.
const EVENT_HEAD: &[&str] = &[
    "id",
    "external_event_id",
    "event_type",
    "correlation_id",
    "traceparent",
    "tracestate",
    "tenant",
    "attributes",
    "created_at",
];

const LISTS: [(&str, &[&str]); 4] = [
    ("{subscription}", SUBSCRIPTION),
    ("{secrets}", SECRETS),
    ("{target}", TARGET),
    ("{event_head}", EVENT_HEAD),
];

/// Returns the statement with each list name replaced by its columns.
pub fn expand(sql: &str) -> String {
    let replace = |text: String, (name, columns): (&str, &[&str])| text.replace(name, &columns.join(", "));
    LISTS.into_iter().fold(sql.to_owned(), replace)
}

/// A statement that contains names of column lists. They are replaced at first use.
pub(crate) type SqlText = LazyLock<String>;

macro_rules! sql {
    ($file:literal) => {
        std::sync::LazyLock::new(|| $crate::columns::expand(include_str!($file)))
    };
}

pub(crate) use sql;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_replaced_and_other_braces_stay() {
        let sql = "SELECT {event_head} FROM t WHERE a = '{}' AND b = '{unknown}'";
        assert_eq!(
            expand(sql),
            "SELECT id, external_event_id, event_type, correlation_id, traceparent, tracestate, tenant, attributes, \
             created_at FROM t WHERE a = '{}' AND b = '{unknown}'"
        );
    }
}
