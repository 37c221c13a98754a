//! What a form of a page sent. It comes from [`super::visitor`] only, which has checked its token.

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

    /// The parameters of an address, for a page that only looks.
    pub(crate) fn of_query(uri: &Uri) -> Result<Self, Problem> {
        parameters(uri.query().unwrap_or_default().as_bytes()).map(Self)
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
