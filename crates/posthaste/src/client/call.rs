//! One call of the API: what is asked, and how the answer reads. Pure, so that each verb can be checked
//! without a server.

use super::table;
use http::Method;
use serde_json::Value;
use url::form_urlencoded::Serializer;

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    pub(crate) body: Option<String>,
    /// The header `Idempotency-Key`, of orders.
    pub(crate) idempotency_key: Option<String>,
    /// The answer, for people.
    pub(crate) show: fn(&Value) -> String,
    /// Whether an answer that was no refusal is what was hoped for.
    pub(crate) succeeded: fn(&Value) -> bool,
    /// The call that goes on where this one stopped, for work that takes several.
    pub(crate) next: fn(&Self, &Value) -> Option<Self>,
    /// Adds an answer to the sum of those before, for work that is worth watching.
    pub(crate) sum: Option<fn(&Value, &Value) -> Value>,
    /// A field that every answer to this call has. Without it the answer is a failure.
    pub(crate) required: Option<&'static str>,
}

impl Call {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            body: None,
            idempotency_key: None,
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

    pub(crate) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Only what was said goes into the query.
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

    /// An object; what is null was not said.
    pub(crate) fn fields<const N: usize>(self, fields: [(&str, Value); N]) -> Self {
        let said = fields.into_iter().filter(|(_, value)| !value.is_null());
        let object: serde_json::Map<String, Value> =
            said.map(|(name, value)| (name.to_owned(), value)).collect();
        self.body(Value::Object(object).to_string())
    }

    pub(crate) fn body(self, body: String) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(crate) fn show(self, show: fn(&Value) -> String) -> Self {
        Self { show, ..self }
    }

    /// A call whose answer is a list.
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

/// The page of a list that is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Page {
    /// How many at most, 1 to 200
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Where to go on: what the page before said at its end
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Call {
    pub(crate) fn page(self, Page { limit, cursor }: &Page) -> Self {
        self.query(&[("limit", limit.map(|limit| limit.to_string())), ("cursor", cursor.clone())])
    }
}

/// The stretch of time that a list is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Span {
    /// Only those of this time or later, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only those of before this time
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
    fn only_what_was_said_is_sent() {
        let call = Call::get("/v1/x").query(&[("a", Some("1&2".into())), ("b", None)]);
        assert_eq!(call.path, "/v1/x?a=1%262");
        assert_eq!(Call::get("/v1/x").query(&[("b", None)]).path, "/v1/x");
        assert_eq!(call.query(&[("c", Some("3".into()))]).path, "/v1/x?a=1%262&c=3");
        let call = Call::post("/v1/x").fields([("a", "é\"".into()), ("b", Value::Null), ("c", false.into())]);
        assert_eq!(call.body.as_deref(), Some(r#"{"a":"é\"","c":false}"#));
    }
}
