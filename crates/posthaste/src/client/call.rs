//! A call to the API: the request and the formatting of its response. Building a call has no side effects, so it can be
//! tested without a server.

use super::table;
use http::Method;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The path and the query of the URL.
    pub(crate) path: String,
    pub(crate) body: Option<String>,
    /// The value of the `Idempotency-Key` header, for orders.
    pub(crate) idempotency_key: Option<String>,
    /// The state of the object under which the server may carry out the call. Otherwise, it responds with 412.
    pub(crate) condition: Option<Condition>,
    /// Formats the response as text.
    pub(crate) show: fn(&Value) -> String,
    /// Returns whether a 2xx response reports success. If not, the exit code is 1.
    pub(crate) succeeded: fn(&Value) -> bool,
    /// Returns the next call for work that takes several calls, or `None` if the work is complete.
    pub(crate) next: fn(&Self, &Value) -> Option<Self>,
    /// Adds a response to the sum of the previous responses, for commands that show their progress.
    pub(crate) sum: Option<fn(&Value, &Value) -> Value>,
    /// A field that every response must contain. A response without it is an error.
    pub(crate) required: Option<&'static str>,
}

/// A condition of a call (RFC 9110, section 13.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The object has this ETag: it has not changed since it was read.
    IfMatch(String),
    /// The object does not exist.
    IfNoneMatch,
}

impl Call {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            body: None,
            idempotency_key: None,
            condition: None,
            show: table::whole,
            succeeded: |_| true,
            next: |_, _| None,
            sum: None,
            required: None,
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(crate) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Appends the parameters that have a value to the query.
    pub(crate) fn query(mut self, parameters: &[(&str, Option<String>)]) -> Self {
        let mut query = Serializer::new(String::new());
        for (name, value) in parameters {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        let query = query.finish();
        if !query.is_empty() {
            let mark = if self.path.contains('?') { '&' } else { '?' };
            self.path = format!("{}{mark}{query}", self.path);
        }
        self
    }

    /// Sets the body to a JSON object with the fields that are not null.
    pub(crate) fn fields<const N: usize>(self, fields: [(&str, Value); N]) -> Self {
        let given = fields.into_iter().filter(|(_, value)| !value.is_null());
        let object: serde_json::Map<String, Value> =
            given.map(|(name, value)| (name.to_owned(), value)).collect();
        self.body(Value::Object(object).to_string())
    }

    pub(crate) fn body(self, body: String) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(crate) fn when(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    pub(crate) fn show(self, show: fn(&Value) -> String) -> Self {
        Self { show, ..self }
    }

    /// Sets the formatter for a response that is a list, which must contain the field `items`.
    pub(crate) fn list(self, show: fn(&Value) -> String) -> Self {
        self.show(show).required("items")
    }

    pub(crate) fn required(self, field: &'static str) -> Self {
        Self { required: Some(field), ..self }
    }

    pub(crate) fn succeeded(self, succeeded: fn(&Value) -> bool) -> Self {
        Self { succeeded, ..self }
    }
}

/// Encodes a text as one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
    // In a form, a plus sign is a space; in a path, it is a plus sign.
    byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// The flags that select a page of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct Page {
    /// Maximum number of items, 1 to 200 [default: 50]
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
    /// Cursor of the next page, as printed at the end of the previous page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Call {
    pub(crate) fn page(self, Page { limit, cursor }: &Page) -> Self {
        self.query(&[("limit", limit.map(|limit| limit.to_string())), ("cursor", cursor.clone())])
    }
}

/// The flags that select a time range.
#[derive(Debug, clap::Args)]
pub(crate) struct Span {
    /// Only items created at this time or later, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only items created before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Call {
    pub(crate) fn span(self, Span { since, until }: &Span) -> Self {
        self.query(&[("since", since.clone()), ("until", until.clone())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_fields_are_encoded_and_absent_ones_are_not_sent() {
        let call = Call::get("/v1/x").query(&[("a", Some("1&2".into())), ("b", None)]);
        assert_eq!(call.path, "/v1/x?a=1%262");
        assert_eq!(Call::get("/v1/x").query(&[("b", None)]).path, "/v1/x");
        assert_eq!(call.query(&[("c", Some("3".into()))]).path, "/v1/x?a=1%262&c=3");
        assert_eq!(path_segment("svix:a b/c+d?é"), "svix%3Aa%20b%2Fc%2Bd%3F%C3%A9");
        let call = Call::post("/v1/x").fields([("a", "é\"".into()), ("b", Value::Null), ("c", false.into())]);
        assert_eq!(call.body.as_deref(), Some(r#"{"a":"é\"","c":false}"#));
    }
}
