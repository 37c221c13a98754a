//! What a form of a page sent. It comes from [`super::visitor`] only, which has checked its token.

use crate::body::{SMALL_BYTES_MAX, receive};
use crate::problem::Problem;
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
        let pairs = url::form_urlencoded::parse(upload.text()?.as_bytes()).into_owned();
        Ok((head, Self(pairs.collect())))
    }

    /// The parameters of an address, for a page that only looks.
    pub(crate) fn of_query(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// With this value for a field that is not filled in.
    pub(crate) fn or(mut self, name: &str, value: &str) -> Self {
        if self.get(name).trim().is_empty() {
            self.0.retain(|(found, _)| found != name);
            self.0.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Empty when it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// The fields that are filled in, as the body that the API's own call would get: text as text, and those
    /// named in `numbers` as numbers where they are some.
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
