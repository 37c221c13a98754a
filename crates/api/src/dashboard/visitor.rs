//! Middleware for every page: authenticates the session, checks the role, and rejects forms submitted from other sites
//! (CSRF). Also renders the error pages of the handlers.

use super::form::Form;
use super::page::{self, RequestKind};
use super::session::SessionToken;
use crate::auth::{self, Caller, Holder, Presented, peer};
use crate::peer::PeerAddress;
use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method, Uri};
use posthaste_core::KeyId;
use posthaste_core::audit::Actor;
use posthaste_core::ports::{KeyRole, KeyStore as _, Stores};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use subtle::ConstantTimeEq as _;

/// The signed-in user of a request.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) name: String,
    pub(crate) role: KeyRole,
    /// The CSRF token that every form contains.
    pub(crate) form_token: String,
    key_id: Option<KeyId>,
}

impl Visitor {
    pub(crate) const fn may(&self, needs: KeyRole) -> bool {
        auth::may(self.role, needs)
    }

    /// Returns the actor to record in the audit.
    fn actor(&self, address: Option<IpAddr>) -> Actor {
        self.key_id.map_or_else(|| Actor::root(address), |id| Actor::key(id, self.name.clone(), address))
    }

    /// Returns the path and the label of each navigation entry that is visible to this role.
    pub(crate) fn navigation(&self) -> Vec<(&'static str, &'static str)> {
        let visible = page::NAVIGATION.iter().filter(|(_, _, needs)| self.may(*needs));
        visible.map(|(address, name, _)| (*address, *name)).collect()
    }

    pub(crate) const fn is_operator(&self) -> bool {
        self.may(KeyRole::Operator)
    }

    pub(crate) const fn is_admin(&self) -> bool {
        self.may(KeyRole::Admin)
    }
}

pub(crate) async fn admit<S: Stores>(
    api: Arc<ApiState<S>>,
    needs: KeyRole,
    mut request: Request,
    next: Next,
) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let kind = if is_read { RequestKind::Read } else { RequestKind::Change };
    let visitor = match authenticate(&api, auth::client(&request), request.headers()).await {
        Ok(Some(visitor)) => visitor,
        Ok(None) => return Redirect::to(&sign_in_for(request.method(), request.uri())).into_response(),
        Err(problem) => return page::refused(None, "", kind, problem),
    };
    let here = navigation_entry(request.uri());
    if !visitor.may(needs) {
        let (role, needs) = (visitor.role.as_str(), needs.as_str());
        let detail = format!("your key has the role {role}; this page requires the role {needs}");
        return page::refused(Some(visitor), here, kind, Problem::new(403, "Forbidden", detail));
    }
    if !is_read {
        request = match with_form(&api, &visitor, request).await {
            Ok(request) => request,
            Err(problem) => return page::refused(Some(visitor), here, kind, problem),
        };
    }
    let caller = Caller(visitor.key_id);
    let by = visitor.actor(peer(request.extensions()));
    request.extensions_mut().insert(by);
    request.extensions_mut().insert(visitor.clone());
    let mut response = next.run(request).await;
    let shown = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => Err(problem),
        None => api.responses.count(response),
    };
    let mut response = shown.unwrap_or_else(|problem| page::refused(Some(visitor), here, kind, problem));
    response.extensions_mut().insert(caller);
    response
}

/// Returns the path of the navigation entry that `uri` belongs to.
fn navigation_entry(uri: &Uri) -> &'static str {
    let inside = |part: &&str| *part != "/" && uri.path().starts_with(part);
    page::NAVIGATION.iter().map(|(part, _, _)| *part).find(inside).unwrap_or("/")
}

/// Returns the URL of the sign-in page. Its parameter `next` is the requested page if the request can be repeated.
fn sign_in_for(method: &Method, uri: &Uri) -> String {
    let back = uri.path_and_query().map(http::uri::PathAndQuery::as_str).filter(|path| *path != "/");
    match back {
        Some(back) if *method == Method::GET => {
            let next: String = url::form_urlencoded::byte_serialize(back.as_bytes()).collect();
            format!("/sign-in?next={next}")
        }
        Some(_) | None => "/sign-in".to_owned(),
    }
}

async fn authenticate<S: Stores>(
    api: &Arc<ApiState<S>>,
    client: PeerAddress,
    headers: &HeaderMap,
) -> Result<Option<Visitor>, Problem> {
    let Some(token) = SessionToken::of(headers) else { return Ok(None) };
    if let Err(exhausted) = api.session_attempts.check(client, Instant::now()) {
        api.metrics.auth_failures.get_or_create(&Presented::Session.rate_limited()).inc();
        return Err(auth::too_many(exhausted));
    }
    let Some(key_hash) = api.keys.find_session(token.hash(), api.clock.now()).await? else {
        api.session_attempts.record_failure(client, Instant::now());
        api.metrics.auth_failures.get_or_create(&Presented::Session.unknown()).inc();
        return Ok(None);
    };
    let form_token = token.form_token();
    // Pages show the objects of all tenants, so a key that is bound to a tenant has no session.
    let holder = auth::find(api, key_hash).await?.filter(|holder| holder.scope().tenant().is_none());
    Ok(holder.map(|holder| {
        let (name, role, key_id) = (shown_name(&holder), holder.role(), holder.key_id());
        Visitor { name, role, form_token, key_id }
    }))
}

/// Returns the display name of the holder of a key.
fn shown_name(holder: &Holder) -> String {
    match holder {
        Holder::Root => "root key (from the settings)".to_owned(),
        Holder::Key(key) => key.name.clone(),
    }
}

/// Reads the form, checks its origin and token, and adds it to the request as an extension.
async fn with_form<S: Stores>(
    api: &ApiState<S>,
    visitor: &Visitor,
    request: Request,
) -> Result<Request, Problem> {
    from_our_pages(request.headers())?;
    let (head, form) = Form::receive(&api.uploads, request).await?;
    if !bool::from(form.get("token").as_bytes().ct_eq(visitor.form_token.as_bytes())) {
        return Err(forged());
    }
    let mut bare = Request::from_parts(head, axum::body::Body::empty());
    bare.extensions_mut().insert(form);
    Ok(bare)
}

/// Returns an error if the headers show that a form was submitted from another site. Current browsers send both
/// headers, older browsers only `origin`, and API clients neither.
pub(crate) fn from_our_pages(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin") {
        return Err(forged());
    }
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if origin.to_str().is_ok_and(|origin| is_same_origin(origin, host)) {
        Ok(())
    } else {
        Err(foreign_origin())
    }
}

/// Returns whether `origin` refers to the host of the request. Either may omit the default port of the scheme. The
/// scheme is not compared, because a process behind a proxy that terminates TLS does not know it.
fn is_same_origin(origin: &str, host: &str) -> bool {
    let (port, authority) = match origin.split_once("://") {
        Some(("https", authority)) => (":443", authority),
        Some(("http", authority)) => (":80", authority),
        // Includes `null`, which browsers send for opaque origins.
        Some(_) | None => return false,
    };
    let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    !host.is_empty() && bare(authority) == bare(host)
}

fn foreign_origin() -> Problem {
    let detail = "the Origin header does not match the Host header: reload the page and submit the form again; a proxy \
                  must pass the Host header on unchanged";
    Problem::new(403, "Form rejected", detail)
}

fn forged() -> Problem {
    let detail = "this form does not belong to your current session: reload the page and submit it again";
    Problem::new(403, "Form rejected", detail)
}

#[cfg(test)]
mod tests {
    use super::is_same_origin;

    #[test]
    fn origin_must_match_the_host() {
        for (origin, host, expected) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", true),
            ("https://hooks.example", "hooks.example", true),
            ("https://hooks.example", "Hooks.Example:443", true),
            ("http://hooks.example:80", "hooks.example", true),
            ("https://hooks.example:8443", "hooks.example:8443", true),
            ("http://[::1]:8080", "[::1]:8080", true),
            ("https://hooks.example", "hooks.example:80", false),
            ("https://hooks.example:8443", "hooks.example", false),
            ("https://evil.example", "hooks.example", false),
            ("https://hooks.example.evil.example", "hooks.example", false),
            ("null", "null", false),
            ("", "", false),
            ("http://", "", false),
            ("file://hooks.example", "hooks.example", false),
        ] {
            assert_eq!(is_same_origin(origin, host), expected, "{origin} {host}");
        }
    }
}
