//! The API reference at `/docs`: one HTML page, generated from the OpenAPI document. Contains no scripts and no
//! resources from other hosts; its Content-Security-Policy forbids both.

mod html;
mod schema;

use crate::openapi;
use crate::problem::Problem;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use html::{code, escaped, tag};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue};
use schema::{as_example, as_fields, as_type};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const STYLE: &str = include_str!("docs/style.css");

struct Page {
    html: String,
    policy: String,
}

/// The page, generated once, because the document does not change while the process runs.
static PAGE: LazyLock<Result<Page, serde_json::Error>> = LazyLock::new(|| {
    let document = serde_json::from_str(&openapi::document()?)?;
    let style_hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style_hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    Ok(Page { html: page(&document), policy })
});

pub(crate) async fn show() -> Result<Response, Problem> {
    let broken = |cause: &dyn std::fmt::Display| Problem::broken("the page could not be generated", cause);
    let page = PAGE.as_ref().map_err(|error| broken(error))?;
    let policy = HeaderValue::from_str(&page.policy).map_err(|error| broken(&error))?;
    let fixed = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    let headers = [
        (CONTENT_SECURITY_POLICY, policy),
        fixed(CONTENT_TYPE, "text/html; charset=utf-8"),
        fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        fixed(REFERRER_POLICY, "no-referrer"),
    ];
    Ok((headers, page.html.as_str()).into_response())
}

/// One operation of the OpenAPI document.
struct Call<'a> {
    method: String,
    path: &'a str,
    operation: &'a Value,
}

impl Call<'_> {
    fn anchor(&self) -> &str {
        text(&self.operation["operationId"])
    }

    fn summary(&self) -> &str {
        text(&self.operation["summary"])
    }

    /// Returns the role that the operation requires, or `None` if it requires no key.
    fn role(&self) -> Option<&str> {
        self.operation["security"][0]["api_key"][0].as_str()
    }

    fn link(&self) -> String {
        let shown = format!("{} {}", tag("b", &self.method), escaped(self.path));
        format!("<li><a href=\"#{}\">{shown}</a> {}", escaped(self.anchor()), escaped(self.summary()))
    }

    fn section(&self, document: &Value) -> String {
        let role = match self.role() {
            Some(role) => format!("an API key with the role {}", tag("b", &escaped(role))),
            None => "no API key".to_owned(),
        };
        let description = tag("p", &escaped(text(&self.operation["description"])));
        format!(
            "<section id=\"{}\"><h3><b>{}</b> {}</h3><p>{}</p><p class=\"needs\">Requires {role}.</p>\
             {}{}{}{}</section>\n",
            escaped(self.anchor()),
            self.method,
            code(self.path),
            escaped(self.summary()),
            if description == "<p></p>" { "" } else { &description },
            self.parameters(),
            self.body(document),
            self.responses(),
        )
    }

    fn parameters(&self) -> String {
        let rows: String = list(&self.operation["parameters"])
            .map(|parameter| {
                let needed = if parameter["required"] == true { "required" } else { "" };
                let place = format!("{} {needed}", text(&parameter["in"]));
                let description = escaped(text(&parameter["description"]));
                row(&[code(text(&parameter["name"])), place, as_type(&parameter["schema"]), description])
            })
            .collect();
        table("Parameters", &["name", "in", "type", "description"], &rows)
    }

    fn body(&self, document: &Value) -> String {
        let kinds: String = entries(&self.operation["requestBody"]["content"])
            .map(|(media, content)| {
                let schema = &content["schema"];
                let example = as_example(schema, document).map_or_else(String::new, |text| tag("pre", &text));
                format!("<p>{} as {}</p>{example}", as_type(schema), code(media))
            })
            .collect();
        if kinds.is_empty() { kinds } else { format!("<h4>Body</h4>{kinds}") }
    }

    fn responses(&self) -> String {
        let rows: String = entries(&self.operation["responses"])
            .map(|(status, response)| {
                let kinds: Vec<String> =
                    entries(&response["content"]).map(|(_, content)| as_type(&content["schema"])).collect();
                let description = escaped(text(&response["description"]));
                let mut kinds = kinds;
                kinds.dedup();
                row(&[code(status), description, kinds.join(" or ")])
            })
            .collect();
        table("Responses", &["status", "description", "body"], &rows)
    }
}

fn page(document: &Value) -> String {
    let mut by_tag: BTreeMap<&str, Vec<Call<'_>>> = BTreeMap::new();
    for (path, methods) in entries(&document["paths"]) {
        for (method, operation) in entries(methods) {
            let call = Call { method: method.to_uppercase(), path, operation };
            by_tag.entry(text(&operation["tags"][0])).or_default().push(call);
        }
    }
    let (mut links, mut sections) = (String::new(), String::new());
    for (name, calls) in &by_tag {
        let heading = tag("h2", &escaped(name));
        links.push_str(&calls.iter().map(Call::link).collect::<String>());
        sections.push_str(&heading);
        sections.push_str(&calls.iter().map(|call| call.section(document)).collect::<String>());
    }
    let types: String = entries(&document["components"]["schemas"])
        .map(|(name, schema)| {
            let example = as_example(schema, document).map_or_else(String::new, |text| tag("pre", &text));
            let description = escaped(text(&schema["description"]));
            let fields = as_fields(schema);
            format!(
                "<section id=\"type-{0}\"><h3>{0}</h3><p>{description}</p>{fields}{example}</section>\n",
                escaped(name)
            )
        })
        .collect();
    let (title, about) =
        (escaped(text(&document["info"]["title"])), escaped(text(&document["info"]["description"])));
    let version = escaped(text(&document["info"]["version"]));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}: HTTP API</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}</style></head><body>\
         <h1>{title} {version}: HTTP API</h1><p>{about}</p>\
         <p>Send an API key in the header {}. The same reference for programs is \
         <a href=\"/openapi.json\">/openapi.json</a>.</p>\
         <nav><ul>{links}</ul></nav>{sections}<h2>Types</h2>{types}</body></html>\n",
        code("authorization: Bearer KEY"),
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn row(cells: &[String]) -> String {
    tag("tr", &cells.iter().map(|cell| tag("td", cell)).collect::<String>())
}

/// Returns an HTML table, or an empty string if there are no rows. The `div` scrolls on narrow screens.
fn table(title: &str, head: &[&str], rows: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head: String = head.iter().map(|name| tag("th", name)).collect();
    let title = if title.is_empty() { String::new() } else { tag("h4", title) };
    format!("{title}<div class=\"wide\"><table><tr>{head}</tr>{rows}</table></div>")
}
