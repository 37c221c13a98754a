//! The HTML rendering of the OpenAPI document: it is complete, and works with a strict content security policy.

use crate::roles::CALLS;
use crate::server::TestApi;
use posthaste_testkit::harness::Harness;
use std::collections::BTreeSet;

/// Returns the text between each occurrence of `before` and the next quotation mark.
fn quoted<'a>(html: &'a str, before: &str) -> BTreeSet<&'a str> {
    html.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_renders_the_whole_document() {
    let api = TestApi::start(Harness::sqlite("docs").await).await;
    let answer = api.get("/docs").no_key().send().await;
    let html = answer.text();
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html; charset=utf-8"), "{html}");
    let policy = answer.header("content-security-policy");
    for part in ["default-src 'none'", "style-src 'sha256-", "base-uri 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    // The page loads no resources; its only external link is the OpenAPI document.
    for part in ["<script", " src=", "@import", "url(", "<link", "<img", " on", " style="] {
        let tags: String = html.split('<').skip(1).filter_map(|tag| tag.split('>').next()).collect();
        let found = if part.starts_with(' ') { tags.contains(part) } else { html.contains(part) };
        assert!(!found, "the page has {part:?}");
    }
    let (links, anchors) = (quoted(&html, "href=\""), quoted(&html, " id=\""));
    for link in &links {
        let leads =
            link.strip_prefix('#').map_or(*link == "/openapi.json", |anchor| anchors.contains(anchor));
        assert!(leads, "{link} has no target");
    }
    assert!(html.contains("name=\"viewport\""));

    let document = api.get("/openapi.json").expect(200).await;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let id = operation["operationId"].as_str().expect("a name");
            let (_, section) = html.split_once(&format!("<section id=\"{id}\">")).expect("its section");
            let section = section.split("</section>").next().unwrap_or_default();
            let heading = format!("<h3><b>{}</b> <code>{path}</code></h3>", method.to_uppercase());
            assert!(section.contains(&heading), "{section}");
            for status in operation["responses"].as_object().expect("answers").keys() {
                assert!(section.contains(&format!("<code>{status}</code>")), "{id}: no {status}");
            }
            let roles =
                CALLS.iter().find(|(verb, call, _)| *verb == method.to_uppercase() && is_call(call, path));
            let needs = match roles {
                None => "Requires no API key.".to_owned(),
                Some((_, _, roles)) => {
                    format!("Requires an API key with the role <b>{}</b>.", roles.first().unwrap_or(&"root"))
                }
            };
            assert!(section.contains(&needs), "{id}: not {needs:?} in {section}");
        }
    }
    for name in document["components"]["schemas"].as_object().expect("types").keys() {
        assert!(anchors.contains(format!("type-{name}").as_str()), "{name}");
    }
    assert!(html.contains("&quot;event_type&quot;: &quot;order.paid&quot;"), "no example");
}

/// Returns whether a call from the roles table, in which digits represent an id, matches `path`.
pub(crate) fn is_call(call: &str, path: &str) -> bool {
    let (call, path) = (call.split('/'), path.split('/'));
    call.clone().count() == path.clone().count()
        && call.zip(path).all(|(call, path)| call == path || path.starts_with('{'))
}
