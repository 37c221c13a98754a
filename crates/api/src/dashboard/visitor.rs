//! Stands before every page: finds out who looks, turns away who may not, and takes no form that one of our
//! own pages did not make. What a page refuses is written out here, in the frame of whoever asked.

use super::form::Form;
use super::page::{self, Asked};
use super::session::{self, Session};
use crate::auth::{self, Caller, Holder};
use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{HeaderMap, Method, Uri};
use posthaste_core::KeyId;
use posthaste_core::ports::{KeyRole, Stores};
use std::sync::Arc;
use subtle::ConstantTimeEq as _;

/// Who looks.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) name: String,
    pub(crate) role: KeyRole,
    /// Goes with every form.
    pub(crate) form_token: String,
    key_id: Option<KeyId>,
}

impl Visitor {
    pub(crate) const fn may(&self, needs: KeyRole) -> bool {
        auth::may(self.role, needs)
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
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD);
    let asked = if is_look { Asked::Look } else { Asked::Act };
    let visitor = match recognize(&api, request.headers()).await {
        Ok(Some(visitor)) => visitor,
        Ok(None) => return Redirect::to(&sign_in_for(request.method(), request.uri())).into_response(),
        Err(problem) => return page::refused(None, "", asked, problem),
    };
    let here = part_of(request.uri());
    if !visitor.may(needs) {
        let (role, needs) = (visitor.role.as_str(), needs.as_str());
        let detail = format!("you signed in with a key of role {role}; this needs one of role {needs}");
        return page::refused(Some(visitor), here, asked, Problem::new(403, "Not allowed", detail));
    }
    if !is_look {
        request = match with_form(&api, &visitor, request).await {
            Ok(request) => request,
            Err(problem) => return page::refused(Some(visitor), here, asked, problem),
        };
    }
    let caller = Caller(visitor.key_id);
    request.extensions_mut().insert(visitor.clone());
    let mut response = next.run(request).await;
    let shown = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => Err(problem),
        None => api.responses.count(response),
    };
    let mut response = shown.unwrap_or_else(|problem| page::refused(Some(visitor), here, asked, problem));
    response.extensions_mut().insert(caller);
    response
}

/// The part of the dashboard that an address belongs to.
fn part_of(uri: &Uri) -> &'static str {
    let inside = |part: &&str| *part != "/" && uri.path().starts_with(part);
    page::PARTS.iter().map(|(part, _)| *part).find(inside).unwrap_or("/")
}

/// Where to sign in, and to be led back from.
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

async fn recognize<S: Stores>(
    api: &Arc<ApiState<S>>,
    headers: &HeaderMap,
) -> Result<Option<Visitor>, Problem> {
    let opened =
        session::cookie(headers).and_then(|text| Session::open(&api.sessions, text, api.clock.now()));
    let Some(session) = opened else { return Ok(None) };
    let form_token = session.form_token(&api.sessions);
    let holder = auth::find(api, session.key_hash).await?;
    Ok(holder.map(|holder| {
        let (name, role, key_id) = (shown_name(&holder), holder.role(), holder.key_id());
        Visitor { name, role, form_token, key_id }
    }))
}

/// How the holder of a key is shown.
fn shown_name(holder: &Holder) -> String {
    match holder {
        Holder::Root => "root key of the settings".to_owned(),
        Holder::Key(key) => key.name.clone(),
    }
}

/// The request with its form, once that has proved where it comes from.
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

/// Every browser of today says which site a form was sent from.
pub(crate) fn from_our_pages(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("sec-fetch-site") {
        Some(site) if site != "same-origin" => Err(forged()),
        Some(_) | None => Ok(()),
    }
}

fn forged() -> Problem {
    let detail =
        "this form was not made by a page of your present sign-in: open the page again and repeat it";
    Problem::new(403, "The form is not ours", detail)
}
