//! Reads from the API of another webhook sender with the client of [`exchange`](crate::client::exchange): GET requests
//! with a bearer token. Never writes.

use crate::client::exchange::Response;
use crate::client::reach::SecretVariable;
use crate::client::{ApiClient, Call, Failure, table};
use crate::settings::Secret;
use clap::Args;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::Value;
use std::time::Duration;

/// The number of times a call is repeated that the sender refuses with 429.
const REPEATS_MAX: u32 = 5;
/// The longest pause before a call is repeated. A sender that demands more has no capacity for an import now.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The pause before the first repetition if the sender does not name one. It doubles with each repetition.
const PAUSE: Duration = Duration::from_secs(1);

/// The flags that select the API of the sender.
#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// URL of the sender's API, to read the endpoints from there
    #[arg(long = "url", value_name = "URL")]
    source_url: Option<String>,
    /// Token for the sender's API; other users can see flags, so prefer the environment [env: POSTHASTE_IMPORT_TOKEN or
    /// POSTHASTE_IMPORT_TOKEN_FILE]
    #[arg(long, value_name = "TOKEN", value_parser = parse_secret)]
    token: Option<Secret>,
}

fn parse_secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

/// A client for the API of a sender.
pub(super) struct RemoteClient {
    /// The product, for messages.
    name: &'static str,
    url: String,
    client: ApiClient,
}

impl Remote {
    /// Returns a client, or `None` if no URL is given.
    pub(super) fn client(&self, name: &'static str) -> Result<Option<RemoteClient>, Failure> {
        let url = match (&self.source_url, &self.token) {
            (Some(url), _) => url,
            (None, Some(_)) => {
                return Err(Failure::Usage("--token is for --url, which is missing".to_owned()));
            }
            (None, None) => return Ok(None),
        };
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None => SecretVariable::of("POSTHASTE_IMPORT_TOKEN").read()?,
        };
        let token = token.ok_or_else(|| {
            Failure::Usage("a token is required: pass it with POSTHASTE_IMPORT_TOKEN or --token".to_owned())
        })?;
        let client = ApiClient::new(url, Some(token.expose()))?;
        Ok(Some(RemoteClient { name, url: url.clone(), client }))
    }
}

impl RemoteClient {
    /// Returns the JSON at a path.
    pub(super) async fn get(&self, path: &str, query: &[(&str, Option<String>)]) -> Result<Value, Failure> {
        let response = self.send(path, query).await?;
        match response.status.is_success() {
            true => self.json(path, &response),
            false => Err(self.refused(path, response.status)),
        }
    }

    /// Returns the JSON at a path, or `None` if the sender does not have it or does not show it with this token.
    pub(super) async fn get_optional(&self, path: &str) -> Result<Option<Value>, Failure> {
        let response = self.send(path, &[]).await?;
        match response.status {
            status if status.is_success() => self.json(path, &response).map(Some),
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Ok(None),
            status => Err(self.refused(path, status)),
        }
    }

    /// Sends a request, and repeats it while the sender asks for a pause.
    async fn send(&self, path: &str, query: &[(&str, Option<String>)]) -> Result<Response, Failure> {
        let call = Call::get(path).query(query);
        let mut repeats = 0;
        loop {
            let response = self.client.exchange(&call).await.map_err(|failure| match failure {
                Failure::Unreachable { url, why } => {
                    Failure::Local(format!("cannot reach {} at {url}: {why}", self.name))
                }
                other @ (Failure::Local(_)
                | Failure::Usage(_)
                | Failure::Refused { .. }
                | Failure::Unreadable { .. }) => other,
            })?;
            if response.status != StatusCode::TOO_MANY_REQUESTS || repeats == REPEATS_MAX {
                return Ok(response);
            }
            let asked =
                response.header(&RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
            tokio::time::sleep(asked.unwrap_or(PAUSE * 2_u32.pow(repeats)).min(PAUSE_MAX)).await;
            repeats += 1;
        }
    }

    fn json(&self, path: &str, response: &Response) -> Result<Value, Failure> {
        serde_json::from_slice(&response.body).map_err(|_| {
            Failure::Local(format!(
                "cannot read the response of {} to GET {}{path}: it is not JSON",
                self.name, self.url
            ))
        })
    }

    fn refused(&self, path: &str, status: StatusCode) -> Failure {
        let advice = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": check the token",
            StatusCode::NOT_FOUND => ": check --url and the ids",
            StatusCode::TOO_MANY_REQUESTS => ": it limits the rate of calls, try again later",
            _ => "",
        };
        let path = table::visible(path);
        Failure::Local(format!(
            "{} at {} refused GET {path} with {}{advice}",
            self.name,
            self.url,
            status.as_u16()
        ))
    }
}
