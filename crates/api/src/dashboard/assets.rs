//! Serves the embedded stylesheet and script, unminified.

use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};

pub(crate) async fn style() -> Response {
    respond("text/css; charset=utf-8", include_str!("dashboard.css"))
}

pub(crate) async fn script() -> Response {
    respond("text/javascript; charset=utf-8", include_str!("dashboard.js"))
}

fn respond(media: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, media), (X_CONTENT_TYPE_OPTIONS, "nosniff")], text).into_response()
}
