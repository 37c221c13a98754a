//! The method `challenge`: sends a random text in a signed request to the callback URL, and checks that the receiver
//! returns it.

use super::Finding;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::subscriptions::challenge::{self, Message};
use posthaste_core::ports::Stores;
use posthaste_core::subscription::{Secrets, Subscription};
use posthaste_services::sender::{Exchange, ReadUpTo};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use subtle::ConstantTimeEq as _;

const VERIFICATION: &str = "posthaste.verification";
/// The maximum size of a response to a challenge, in bytes. Longer responses cannot be an echo.
const ECHO_BYTES_MAX: usize = 4_096;

#[derive(Debug, Serialize)]
struct Challenge<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    challenge: &'a str,
}

/// A receiver's response to a [`Challenge`].
#[derive(Debug, Deserialize)]
struct Echo {
    challenge: String,
    /// Whether the response has a field `type`. Such a receiver echoes every request, which does not prove consent.
    #[serde(rename = "type", default, deserialize_with = "is_there")]
    has_type: bool,
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|IgnoredAny| true)
}

/// Sends a challenge and checks the response.
pub(super) async fn send<S: Stores>(
    api: &ApiState<S>,
    subscription: &Subscription,
    secrets: &Secrets,
) -> Result<Finding, Problem> {
    let text = format!("{:032x}", u128::from_be_bytes(api.draw()));
    let body = challenge::written(&Challenge { kind: VERIFICATION, challenge: &text })?;
    let message = Message {
        kind: VERIFICATION,
        body,
        answer: ReadUpTo::Body { bytes_max: ECHO_BYTES_MAX },
        in_envelope: false,
    };
    let exchange = challenge::send(api, subscription, secrets, message).await?;
    let allowed_per_minute = why_not(&exchange, &text).map_or(Ok(None), Err);
    Ok(Finding { exchange: Some(exchange), status_counts: true, allowed_per_minute })
}

/// Returns the reason why a response does not verify the URL, or `None` if it does.
fn why_not(exchange: &Exchange, text: &str) -> Option<String> {
    if let Some(failure) = challenge::failure(exchange) {
        return Some(failure);
    }
    if !exchange.body_complete {
        return Some(format!("the response was incomplete, or longer than {ECHO_BYTES_MAX} bytes"));
    }
    let body = exchange.body.trim_ascii();
    let same = |given: &[u8]| bool::from(given.ct_eq(text.as_bytes()));
    let echo = echo_of(body).filter(|echo| same(echo.challenge.as_bytes()));
    if same(body) || echo.as_ref().is_some_and(|echo| !echo.has_type) {
        return None;
    }
    if echo.is_some() {
        return Some(
            "the response repeats the whole request: return {\"challenge\":\"…\"} without type, or the challenge as \
             plain text"
                .to_owned(),
        );
    }
    Some(
        "the response does not contain the challenge: return it as {\"challenge\":\"…\"} or as plain text"
            .to_owned(),
    )
}

/// Parses a response that is a JSON object. Serde would also accept an array with the values of the fields.
fn echo_of(body: &[u8]) -> Option<Echo> {
    body.starts_with(b"{").then(|| serde_json::from_slice(body).ok()).flatten()
}
