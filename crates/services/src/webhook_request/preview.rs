//! Shows a request as it would be sent, with a mask in place of each secret value. The API passes a subscription and an
//! event; people compare the result with what their receiver expects.

use http::HeaderMap;
use posthaste_core::Timestamp;

use super::open::{AUTHORIZATION, OpenedAuth};
use super::{InstallationNames, OpenedRequest, WebhookMessage};
use crate::egress::Destination;

/// The text that replaces a secret.
pub const SECRET_MASK: &str = "•••";

/// The visible parts of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The headers in the order in which they are sent, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Returns a request without sending it. No access token is fetched.
pub fn preview(
    opened: &OpenedRequest,
    to: &Destination,
    message: &WebhookMessage<'_>,
    names: &InstallationNames,
    now: Timestamp,
) -> Preview {
    let built = opened.build(message, None, names, now);
    let mut headers = visible(opened, &built.headers);
    if matches!(opened.auth, OpenedAuth::Token(_)) {
        headers.push((AUTHORIZATION.to_owned(), format!("Bearer {SECRET_MASK}")));
    }
    headers.push(("host".to_owned(), String::from_utf8_lossy(to.authority.as_bytes()).into_owned()));
    headers.push(("content-length".to_owned(), built.body.len().to_string()));
    Preview { headers, body: String::from_utf8_lossy(&built.body).into_owned() }
}

fn visible(opened: &OpenedRequest, headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = match mask(opened, name.as_str()) {
            Some(masked) => masked,
            None => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        (name.as_str().to_owned(), value)
    };
    headers.iter().map(shown).collect()
}

/// Returns the masked value of a header, or `None` if its value is not secret.
fn mask(opened: &OpenedRequest, name: &str) -> Option<String> {
    if let OpenedAuth::Header { name: auth, value } = &opened.auth
        && auth.eq_ignore_ascii_case(name)
    {
        let scheme = value.split_once(' ').filter(|_| name == AUTHORIZATION).map(|(scheme, _)| scheme);
        return Some(
            scheme.map_or_else(|| SECRET_MASK.to_owned(), |scheme| format!("{scheme} {SECRET_MASK}")),
        );
    }
    let is_secret =
        |header: &&super::CustomHeader| header.is_secret && header.name.eq_ignore_ascii_case(name);
    opened.headers.iter().find(is_secret).map(|_| SECRET_MASK.to_owned())
}
