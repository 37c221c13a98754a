//! The fields of a submitted form. [`super::visitor`] reads the form and checks its token before a handler receives it.

use crate::body::{SMALL_BYTES_MAX, receive};
use crate::problem::Problem;
use crate::query::parameters;
use axum::extract::Request;
use http::Uri;
use http::request::Parts;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::Semaphore;

#[derive(Debug, Clone)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) async fn receive(
        uploads: &Arc<Semaphore>,
        request: Request,
    ) -> Result<(Parts, Self), Problem> {
        let (head, upload) = receive(uploads, request, SMALL_BYTES_MAX).await?;
        let pairs = parameters(upload.text()?.as_bytes())?;
        Ok((head, Self(pairs)))
    }

    /// Reads the fields from the query string, for pages that change nothing.
    pub(crate) fn of_query(uri: &Uri) -> Result<Self, Problem> {
        parameters(uri.query().unwrap_or_default().as_bytes()).map(Self)
    }

    #[cfg(test)]
    pub(crate) fn of_pairs(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// Sets the field `name` to `value` if it is missing or blank.
    pub(crate) fn or(mut self, name: &str, value: &str) -> Self {
        if self.get(name).trim().is_empty() {
            self.0.retain(|(found, _)| found != name);
            self.0.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Returns the value of a field, or an empty string if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Returns the non-blank fields as the JSON body of the corresponding API call. Fields in `numbers` become numbers;
    /// if a value is not a number, it stays text and the API rejects it.
    pub(crate) fn as_body(&self, texts: &[&str], numbers: &[&str]) -> Map<String, Value> {
        let filled = |name: &&&str| !self.get(name).trim().is_empty();
        let mut body = Map::new();
        for name in texts.iter().filter(filled) {
            body.insert((*name).to_owned(), self.get(name).trim().into());
        }
        for name in numbers.iter().filter(filled) {
            let text = self.get(name).trim();
            body.insert((*name).to_owned(), text.parse::<i64>().map_or_else(|_| text.into(), Value::from));
        }
        body
    }
}
