//! The way in with an API key, and out.

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
    around: Layout,
    next: String,
    wrong: Option<String>,
}

impl SignInPage {
    fn answer(status: StatusCode, next: String, wrong: Option<String>) -> Response {
        let page = Self { around: Layout { visitor: None, here: "" }, next, wrong };
        page::written(status, &page)
            .unwrap_or_else(|problem| page::refused(None, "", RequestKind::Read, problem))
    }
}

pub(crate) async fn show(uri: Uri) -> Response {
    let next = Query::of(&uri).ok().and_then(|mut query| query.take("next"));
    SignInPage::answer(StatusCode::OK, local(next.as_deref().unwrap_or("/")).to_owned(), None)
}

/// A place of ours, whatever the address said. Browsers take `\` for `/` and leave out tabs and ends of lines, so
/// that `/`, a tab and `/` lead to another site.
fn local(next: &str) -> &str {
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_ours = is_plain && next.starts_with('/') && !next.starts_with("//");
    if is_ours { next } else { "/" }
}

pub(crate) async fn enter<S: Stores>(State(api): Api<S>, request: Request) -> Response {
    let (headers, client) = (request.headers().clone(), auth::client(&request));
    let address = peer(request.extensions());
    let entered = async {
        from_our_pages(&headers)?;
        let (_, form) = Form::receive(&api.uploads, request).await?;
        let next = local(form.get("next")).to_owned();
        Ok::<_, Problem>((try_key(&api, form.get("key").trim(), client, &headers, address).await?, next))
    };
    match entered.await {
        Ok((Ok(cookie), next)) => ([(SET_COOKIE, cookie)], Redirect::to(&next)).into_response(),
        Ok((Err((status, wrong)), next)) => {
            audit::sign_in_failed(&api, address).await;
            SignInPage::answer(status, next, Some(wrong))
        }
        Err(problem) => page::refused(None, "", RequestKind::Change, problem),
    }
}

/// The cookie of a sign-in, or why there is none.
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
        let wrong = "this API key is not known, or was revoked".to_owned();
        return Ok(Err((StatusCode::UNAUTHORIZED, wrong)));
    };
    if !auth::may(holder.role(), KeyRole::Viewer) {
        let role = holder.role().as_str();
        let wrong = format!(
            "a key of role {role} cannot look at anything: use one of role viewer, operator or admin"
        );
        return Ok(Err((StatusCode::FORBIDDEN, wrong)));
    }
    let token = SessionToken::new(api.draw());
    api.keys.create_session(token.hash(), hash, api.clock.now()).await?;
    audit::signed_in(api, holder.actor(address)).await;
    let (value, length_s) = (token.cookie_value(), SESSION_LENGTH.as_secs());
    let cookie = format!("{}={value}; Max-Age={length_s}{}", session::NAME, bounds(headers));
    let broken = |_| Problem::new(500, "Something broke", "the cookie could not be written");
    Ok(Ok(HeaderValue::from_str(&cookie).map_err(broken)?))
}

/// No script reads the cookie, no other site sends it; behind a proxy that speaks https it travels no other way.
fn bounds(headers: &HeaderMap) -> &'static str {
    let scheme = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = scheme.split(',').next().unwrap_or_default().trim();
    if first.eq_ignore_ascii_case("https") {
        "; Path=/; HttpOnly; SameSite=Strict; Secure"
    } else {
        "; Path=/; HttpOnly; SameSite=Strict"
    }
}

/// Ends the session for every process, so that a copied cookie is no longer valid.
pub(crate) async fn leave<S: Stores>(State(api): Api<S>, headers: HeaderMap) -> Result<Response, Refusal> {
    if let Some(token) = SessionToken::of(&headers) {
        api.keys.end_session(token.hash()).await?;
    }
    let cookie = format!("{}=; Max-Age=0{}", session::NAME, bounds(&headers));
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response())
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn nobody_is_led_to_another_site() {
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
