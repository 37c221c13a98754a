//! The style and the script of the pages, embedded. Both are small enough to be read as they are.

use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};

pub(crate) async fn style() -> Response {
    answer("text/css; charset=utf-8", include_str!("dashboard.css"))
}

pub(crate) async fn script() -> Response {
    answer("text/javascript; charset=utf-8", include_str!("dashboard.js"))
}

fn answer(media: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, media), (X_CONTENT_TYPE_OPTIONS, "nosniff")], text).into_response()
}
