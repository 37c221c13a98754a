//! Tests the filter forms of the list pages: an error is shown next to the field that caused it, and times are accepted
//! in the format that browsers submit for `datetime-local` inputs.

use crate::dashboard::{Visitor, has, problem_detail};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{IngestStore as _, Stores};
use posthaste_testkit::fixtures::{at, event};

/// Returns the HTML tag of the field `name`.
fn field<'a>(html: &'a str, name: &str) -> &'a str {
    let begin =
        html.find(&format!(" name=\"{name}\"")).unwrap_or_else(|| panic!("no field {name} in {html}"));
    html[begin..].split('>').next().unwrap_or_default()
}

const MARKS: &str = "aria-invalid=\"true\" aria-describedby=\"error\"";

pub(crate) async fn an_invalid_filter_is_marked_in_its_form<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for (path, title, name, detail, kept) in [
        ("/events?id=x&event_type=a", "Events", "id", "id must be a whole number", "value=\"x\""),
        ("/events?event_type=a&event_type=b", "Events", "event_type", "event_type", "value=\"a\""),
        ("/events?since=now&id=", "Events", "since", "since must be a time such as", "value=\"now\""),
        (
            "/deliveries?status=Lost",
            "Deliveries",
            "status",
            "status must be one of",
            "<option selected>Lost<",
        ),
        ("/deliveries?event_id=0", "Deliveries", "event_id", "event_id must be", "value=\"0\""),
        ("/deliveries?subscription_id=x", "Deliveries", "subscription_id", "must be", "value=\"x\""),
        ("/deliveries?error_code=%C3%A9", "Deliveries", "error_code", "", "value=\"é\""),
        ("/deliveries?until=2027-02-29T10:00", "Deliveries", "until", "must be a time", "2027-02-29T10:00"),
        ("/dead-letters?until=%3Cb%3E", "Dead letters", "until", "must be a time", "value=\"&#60;b&#62;\""),
        ("/dead-letters?subscription_id=-1", "Dead letters", "subscription_id", "must be", "value=\"-1\""),
        ("/subscriptions?state=lost", "Subscriptions", "state", "state must be", "<option selected>lost<"),
        ("/orders?status=Lost", "Orders", "status", "status must be one of", "<option selected>Lost<"),
        ("/orders?idempotency_key=%22", "Orders", "idempotency_key", "", "value=\"&#34;\""),
    ] {
        let html = visitor.page(path, 422).await;
        has(&html, &[&format!("<h1>{title}</h1>"), "role=\"search\"", kept]);
        assert!(field(&html, name).contains(MARKS), "{path}: {html}");
        assert_eq!(html.matches("aria-invalid").count(), 1, "{path}: {html}");
        // The message follows the label. Inside the label it would become part of the field's accessible name.
        let (_, message) =
            html.split_once("<p class=\"error\" id=\"error\" role=\"alert\">").expect("a message");
        let message = message.split('<').next().unwrap_or_default();
        assert!(!message.is_empty() && message.contains(detail), "{path}: {message}");
        for absent in ["id=\"list\"", "data-live", " found.", ">Requeue all matching…<", "class=\"notice bad"]
        {
            assert!(!html.contains(absent), "{path} has {absent}: {html}");
        }
        if !path.contains("?id=") && !path.contains("idempotency_key") {
            let problem = api.get(&format!("/v1{path}")).send().await;
            assert_eq!(problem.status, 422, "{path}");
            if !path.contains("since=") && !path.contains("until=") {
                assert_eq!(problem.json()["detail"], message, "{path}");
            }
        }
    }
    // The error of a parameter without a field is shown above the form.
    for (query, detail) in [
        ("limit=0", "limit must be a whole number"),
        ("cursor=x", "cursor must be the next_cursor"),
        ("x=1", "parameter"),
    ] {
        for list in ["events", "deliveries", "dead-letters", "subscriptions", "orders"] {
            let html = visitor.page(&format!("/{list}?{query}"), 422).await;
            has(&html, &[&problem_detail(api, &format!("/v1/{list}?{query}")).await]);
            has(&html, &["<p class=\"notice bad wrap\" role=\"alert\">", detail, "role=\"search\""]);
            let absent = ["aria-invalid", "id=\"error\"", "id=\"list\"", "data-live"];
            assert!(!absent.iter().any(|part| html.contains(part)), "{html}");
        }
    }
}

/// Checks times from `datetime-local` inputs, which have no zone and whole seconds. Other values are shown in a text
/// input.
pub(crate) async fn times_are_accepted_as_browsers_send_them<S: Stores>(api: &TestApi<S>) {
    for seconds in [0, 10, 20] {
        let events = vec![vec![event("a")]];
        api.h.store.ingest().insert_events(events, at(seconds)).await.expect("an event");
    }
    api.h.dead_letter("b").await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for (query, count, value) in [
        ("since=2027-01-15T08:00:20", 1, "value=\"2027-01-15T08:00:20\""),
        ("since=2027-01-15T08%3A00%3A10&event_type=a", 2, "value=\"2027-01-15T08:00:10\""),
        ("since=2027-01-15T08:00&event_type=a", 3, "value=\"2027-01-15T08:00:00\""),
        ("since=2027-01-15T08:01&event_type=a", 0, "value=\"2027-01-15T08:01:00\""),
        ("since=2027-01-15T09:00:10%2B01:00&event_type=a", 2, "value=\"2027-01-15T08:00:10\""),
        ("since=&event_type=a", 3, "value=\"\""),
    ] {
        let html = visitor.page(&format!("/events?{query}"), 200).await;
        assert_eq!(html.matches("<td><a href=\"/events/").count(), count, "{query}: {html}");
        let shown = field(&html, "since");
        assert!(shown.contains("type=\"datetime-local\"") && shown.contains(value), "{query}: {shown}");
        has(&html, &["<label>Since (UTC) <", "<label>Until (UTC) <"]);
    }
    // A time finer than the input can represent is shown as text, so that submitting the form again keeps the value.
    let fine = visitor.page("/events?since=2027-01-15T08:00:10.000001Z", 200).await;
    let shown = field(&fine, "since");
    assert!(
        !shown.contains("datetime-local") && shown.contains("value=\"2027-01-15T08:00:10.000001Z\""),
        "{shown}"
    );
    // Links contain the time with a zone.
    let older = visitor.page("/events?since=2027-01-15T08:00&limit=1", 200).await;
    has(&older, &["href=\"/events?since=2027-01-15T08%3A00%3A00Z&#38;limit=1&#38;cursor="]);
    let letters = visitor.page("/dead-letters?until=2030-01-01T00:00", 200).await;
    has(&letters, &["href=\"/dead-letters/requeue?until=2030-01-01T00%3A00%3A00Z\""]);
    visitor.page("/dead-letters/requeue?until=2030-01-01T00%3A00%3A00Z", 200).await;
    // The API requires a zone.
    assert_eq!(api.get("/v1/events?since=2027-01-15T08:00").send().await.status, 422);
}
