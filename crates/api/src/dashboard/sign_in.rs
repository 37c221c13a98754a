//! Signs users in with an API key, which creates a session and its cookie, and signs them out.

use super::form::Form;
use super::page::{self, Layout, Refusal, RequestKind};
use super::session::{self, SessionToken};
use super::visitor::from_our_pages;
use crate::audit;
use crate::auth::{self, KEY_BYTES_MAX, Presented, key_hash, peer};
use crate::peer::PeerAddress;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::{Api, ApiState};
use askama::Template;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use posthaste_core::ports::{KeyRole, KeyStore as _, SESSION_LENGTH, Stores};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Debug, Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    layout: Layout,
    next: String,
    error: Option<String>,
}

impl SignInPage {
    fn respond(status: StatusCode, next: String, error: Option<String>) -> Response {
        let page = Self { layout: Layout { visitor: None, here: "" }, next, error };
        page::render(status, &page)
            .unwrap_or_else(|problem| page::refused(None, "", RequestKind::Read, problem))
    }
}

pub(crate) async fn show(uri: Uri) -> Response {
    let next = Query::of(&uri).ok().and_then(|mut query| query.take("next"));
    SignInPage::respond(StatusCode::OK, local(next.as_deref().unwrap_or("/")).to_owned(), None)
}

/// Returns `next` if it is a path on this site, and `/` otherwise. Browsers treat `\` as `/` and ignore tabs and line
/// breaks, so a slash, a tab and another slash would lead to another site.
fn local(next: &str) -> &str {
    let is_printable = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_ours = is_printable && next.starts_with('/') && !next.starts_with("//");
    if is_ours { next } else { "/" }
}

pub(crate) async fn enter<S: Stores>(State(api): Api<S>, request: Request) -> Response {
    let (headers, client) = (request.headers().clone(), auth::client(&request));
    let address = peer(request.extensions());
    let result = async {
        from_our_pages(&headers)?;
        let (_, form) = Form::receive(&api.uploads, request).await?;
        let next = local(form.get("next")).to_owned();
        Ok::<_, Problem>((try_key(&api, form.get("key").trim(), client, &headers, address).await?, next))
    };
    match result.await {
        Ok((Ok(cookie), next)) => ([(SET_COOKIE, cookie)], Redirect::to(&next)).into_response(),
        Ok((Err((status, error)), next)) => {
            audit::sign_in_failed(&api, address).await;
            SignInPage::respond(status, next, Some(error))
        }
        Err(problem) => page::refused(None, "", RequestKind::Change, problem),
    }
}

/// Creates a session for a key and returns its cookie, or the status and the reason if the key is rejected.
async fn try_key<S: Stores>(
    api: &Arc<ApiState<S>>,
    key: &str,
    client: PeerAddress,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Result<HeaderValue, (StatusCode, String)>, Problem> {
    let hash = key_hash(key);
    let fits = (1..=KEY_BYTES_MAX).contains(&key.len());
    let holder = if fits { auth::check_key(api, hash, client, Presented::SignIn).await? } else { None };
    let Some(holder) = holder else {
        let error = "this API key is unknown or was revoked".to_owned();
        return Ok(Err((StatusCode::UNAUTHORIZED, error)));
    };
    if !auth::may(holder.role(), KeyRole::Viewer) {
        let role = holder.role().as_str();
        let error = format!(
            "a key with the role {role} cannot use the dashboard: use one with the role viewer, operator or admin"
        );
        return Ok(Err((StatusCode::FORBIDDEN, error)));
    }
    if holder.scope().tenant().is_some() {
        let error = "a key that is bound to a tenant cannot use the dashboard, which shows all tenants: use one without a \
                     tenant, or the API";
        return Ok(Err((StatusCode::FORBIDDEN, error.to_owned())));
    }
    let token = SessionToken::new(api.draw());
    api.keys.create_session(token.hash(), hash, api.clock.now()).await?;
    audit::signed_in(api, holder.actor(address)).await;
    let (value, length_s) = (token.cookie_value(), SESSION_LENGTH.as_secs());
    let cookie = format!("{}={value}; Max-Age={length_s}{}", session::NAME, attributes(headers));
    let broken = |_| Problem::new(500, "Internal server error", "the session cookie could not be created");
    Ok(Ok(HeaderValue::from_str(&cookie).map_err(broken)?))
}

/// Returns the attributes of the session cookie: inaccessible to scripts, not sent with requests from other sites, and
/// restricted to https if a proxy received the request over https.
fn attributes(headers: &HeaderMap) -> &'static str {
    let scheme = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = scheme.split(',').next().unwrap_or_default().trim();
    if first.eq_ignore_ascii_case("https") {
        "; Path=/; HttpOnly; SameSite=Strict; Secure"
    } else {
        "; Path=/; HttpOnly; SameSite=Strict"
    }
}

/// Deletes the session from the store, so that copies of the cookie are no longer valid in any process.
pub(crate) async fn leave<S: Stores>(State(api): Api<S>, headers: HeaderMap) -> Result<Response, Refusal> {
    if let Some(token) = SessionToken::of(&headers) {
        api.keys.end_session(token.hash()).await?;
    }
    let cookie = format!("{}=; Max-Age=0{}", session::NAME, attributes(&headers));
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response())
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn redirects_stay_on_this_site() {
        let rows = [
            ("/deliveries?status=Pending", "/deliveries?status=Pending"),
            ("//evil.example/", "/"),
            ("/\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("/\n/evil.example", "/"),
            ("/\u{1}", "/"),
            ("/\u{e9}", "/"),
            ("https://evil.example", "/"),
            ("", "/"),
        ];
        for (next, expected) in rows {
            assert_eq!(local(next), expected, "{next}");
        }
    }
}
