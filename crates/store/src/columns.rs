//! The columns of each record, listed once. The statements of both engines name a list in braces (`{subscription}`),
//! and [`sql!`] replaces it.

use std::sync::LazyLock;

/// A subscription without its secrets.
const SUBSCRIPTION: &[&str] = &[
    "id",
    "event_type",
    "callback_url",
    "active",
    "verified",
    "max_retry_limit",
    "timeout_ms",
    "description",
    "created_at",
    "updated_at",
    "deleted_at",
];
const SECRETS: &[&str] = &["secret", "previous_secret", "previous_secret_expires_at"];
/// What a worker reads of a subscription.
const TARGET: &[&str] = &["id", "callback_url", "verified", "timeout_ms"];
/// An event without its payload.
const EVENT_HEAD: &[&str] =
    &["id", "external_event_id", "event_type", "correlation_id", "traceparent", "created_at"];

const LISTS: [(&str, &[&str]); 4] = [
    ("{subscription}", SUBSCRIPTION),
    ("{secrets}", SECRETS),
    ("{target}", TARGET),
    ("{event_head}", EVENT_HEAD),
];

/// Returns the statement with the lists that it names.
pub fn expand(sql: &str) -> String {
    let replace = |text: String, (name, columns): (&str, &[&str])| text.replace(name, &columns.join(", "));
    LISTS.into_iter().fold(sql.to_owned(), replace)
}

/// A statement that names a list of columns. Expanded once, at first use.
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
        let sql = "SELECT {target}, {secrets} FROM t WHERE a = '{}' AND b = '{unknown}'";
        assert_eq!(
            expand(sql),
            "SELECT id, callback_url, verified, timeout_ms, secret, previous_secret, previous_secret_expires_at FROM t \
             WHERE a = '{}' AND b = '{unknown}'"
        );
    }
}
