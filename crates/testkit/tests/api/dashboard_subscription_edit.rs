//! Editing and deleting subscriptions, and sending test events.

use crate::dashboard::{Visitor, dead_letter, has, hidden, problem_detail};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{KeyRole, Stores};
use posthaste_testkit::fixtures::at;
use posthaste_testkit::receiver::{Answer, Received, Receiver};

const SCRIPT: &str = "<script>alert(1)</script>";

/// Returns the body that the form of a subscription sends, with the given changes.
pub(crate) fn fields(html: &str, changes: &[(&str, &str)]) -> String {
    let (_, form) = html.split_once(" data-matches=").expect("the form");
    let form = form.split("</form>").next().unwrap_or_default();
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut is_first_option = false;
    for tag in form.split('<').skip(1) {
        let (inside, text) = tag.split_once('>').expect("the end of a tag");
        let name = || attribute(inside, "name").expect("a name");
        match inside.split_whitespace().next().unwrap_or_default() {
            "input" => pairs.push((name(), attribute(inside, "value").unwrap_or_default())),
            "textarea" => pairs.push((name(), decoded(text.strip_prefix('\n').expect("a line break")))),
            "select" => {
                pairs.push((name(), String::new()));
                is_first_option = true;
            }
            "option" => {
                let (_, chosen) = pairs.last_mut().expect("a select");
                if is_first_option || inside.ends_with(" selected") {
                    *chosen = attribute(inside, "value").expect("a value");
                }
                is_first_option = false;
            }
            _ => {}
        }
    }
    for (name, value) in changes {
        let (_, current) = pairs.iter_mut().find(|(known, _)| known == name).expect("the field");
        *current = (*value).to_owned();
    }
    pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    Some(decoded(rest.split('"').next()?))
}

fn decoded(html: &str) -> String {
    let entities = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    entities.iter().fold(html.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

pub(crate) async fn a_subscription_is_edited<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, &api.key(KeyRole::Admin).await).await;
    let id = api.h.subscribe("a").await;
    let (page, form, call) = (
        format!("/subscriptions/{id}"),
        format!("/subscriptions/{id}/edit"),
        format!("/v1/subscriptions/{id}"),
    );
    let before = api.get(&call).expect(200).await;
    has(&visitor.page(&page, 200).await, &[&format!("href=\"{form}\"")]);

    let html = visitor.page(&form, 200).await;
    let changes =
        [("description", " the shop "), ("max_retry_limit", "7"), ("timeout", "20s"), ("event_types", "b")];
    api.clock.set(at(1));
    let changed = visitor.press(&form, &fields(&html, &changes)).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    has(&changed.text(), &["Saved.", "the shop", ">active<", &format!("data-address=\"{page}\"")]);
    let after = api.get(&call).expect(200).await;
    assert_eq!(
        (&after["event_type"], &after["description"], &after["max_retry_limit"]),
        (&"b".into(), &"the shop".into(), &7.into())
    );
    assert_eq!((&after["callback_url"], &after["verified"]), (&before["callback_url"], &true.into()));

    // A form that was opened before the change would undo it.
    let late = visitor.press(&form, &fields(&html, &[("event_types", "c")])).await;
    assert_eq!(late.status, 409, "{}", late.text());
    has(&late.text(), &["was changed after this form was opened"]);
    assert_eq!(api.get(&call).expect(200).await, after);

    // Empty optional fields are reset, and a new URL must be verified.
    let html = visitor.page(&form, 200).await;
    let changes = [
        ("description", ""),
        ("max_retry_limit", ""),
        ("timeout", ""),
        ("callback_url", "https://new.example/hook"),
    ];
    api.clock.set(at(2));
    let changed = visitor.press(&form, &fields(&html, &changes)).await.text();
    has(&changed, &["Verify the new URL", ">unverified<", "https://new.example/hook", "<dd>default</dd>"]);
    let after = api.get(&call).expect(200).await;
    assert!(after["description"].is_null() && after["max_retry_limit"].is_null(), "{after}");

    // A stored timeout that is longer than the lease allows now does not prevent other changes.
    api.h.direct.force("UPDATE subscriptions SET timeout_ms = 90000").await;
    let html = visitor.page(&form, 200).await;
    has(&html, &["value=\"90s\""]);
    let changed = visitor.press(&form, &fields(&html, &[("description", "the other shop")])).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let after = api.get(&call).expect(200).await;

    let html = visitor.page(&form, 200).await;
    for (field, value, detail) in [
        ("event_types", "a b", "event_types"),
        ("event_types", "a.*.b", "must be the last segment"),
        ("event_types", "", "event_types"),
        ("filter", "{", "filter at #"),
        ("filter", r#"{"like": {}}"#, "got &#34;like&#34;"),
        ("metadata", "team", "line 1 must be key=value"),
        ("headers", "Host: x", "must not contain Host"),
        ("headers", "X-Token (secret):", "no secret value is stored"),
        ("auth", "bearer", "auth.bearer.token is required"),
        ("name", "\u{1}", "name"),
        ("callback_url", "ftp://x.example/", "must use https"),
        ("callback_url", "", "callback_url"),
        ("max_retry_limit", "0", "1 to 100"),
        ("max_retry_limit", "many", "1 to 100"),
        ("timeout", "1 minute", "1s to 55s"),
        ("description", &"x".repeat(1_001), "description"),
        ("callback_url", SCRIPT, "callback_url"),
    ] {
        let answer = visitor.press(&form, &fields(&html, &[(field, value)])).await;
        let refused = answer.text();
        assert_eq!(answer.status, 422, "{field} {value}: {refused}");
        has(&refused, &["role=\"alert\"", "Not saved", detail]);
        let (_, input) = refused.split_once(&format!("id=\"{field}\"")).expect("the field");
        assert!(input.split('>').next().is_some_and(|input| input.contains("aria-invalid")), "{refused}");
        assert!(!refused.contains(SCRIPT), "{refused}");
        assert_eq!(
            hidden(&refused, "seen"),
            hidden(&html, "seen"),
            "the form can be corrected and submitted again"
        );
    }
    assert_eq!(api.get(&call).expect(200).await, after, "nothing was changed");
    visitor.page("/subscriptions/99/edit", 404).await;
    visitor.page("/subscriptions/x/edit", 422).await;
}

pub(crate) async fn a_subscription_is_deleted_after_confirmation<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let letter = dead_letter(api, "a").await;
    api.h.publish("a", 2).await;
    api.h.route_all(at(500)).await;
    let (page, confirmation) = ("/subscriptions/1", "/subscriptions/1/delete");
    has(&visitor.page(page, 200).await, &[&format!("href=\"{confirmation}\"")]);
    let asked = visitor.page(confirmation, 200).await;
    has(
        &asked,
        &["Delete permanently", "held permanently", "id=\"backlog\">2<", "cannot be undone", "Pause instead"],
    );
    assert_eq!(
        api.get("/v1/subscriptions/1").expect(200).await["id"],
        1,
        "the confirmation page changes nothing"
    );

    let deleted = visitor.press(confirmation, "").await;
    assert_eq!((deleted.status, deleted.header("location")), (303, page), "{}", deleted.text());
    api.get("/v1/subscriptions/1").refused(404, "").await;
    // The deliveries still link to the page, which reports the deletion.
    let html = visitor.page(page, 404).await;
    has(&html, &["Subscription 1 was deleted", "held permanently", "href=\"/deliveries?subscription_id=1\""]);
    assert!(!html.contains("href=\"/subscriptions/1/"), "no actions remain: {html}");
    assert!(!visitor.page("/subscriptions", 200).await.contains("href=\"/subscriptions/1\""));
    let again = visitor.press(confirmation, "").await;
    assert_eq!((again.status, again.header("location")), (303, page), "a second submission");
    visitor.page(confirmation, 404).await;
    let unknown = problem_detail(api, "/v1/subscriptions/99").await;
    has(&visitor.page("/subscriptions/99", 404).await, &[&unknown]);
    assert_eq!(visitor.press(&format!("/dead-letters/{letter}/requeue"), "").await.status, 409);
}

pub(crate) async fn only_an_admin_edits_and_deletes_subscriptions<S: Stores>(api: &TestApi<S>) {
    let id = api.h.subscribe("a").await;
    for role in [KeyRole::Viewer, KeyRole::Operator] {
        let visitor = Visitor::sign_in(api, &api.key(role).await).await;
        let html = visitor.page(&format!("/subscriptions/{id}"), 200).await;
        for verb in ["edit", "delete"] {
            let path = format!("/subscriptions/{id}/{verb}");
            assert!(!html.contains(&path), "{role:?} {verb}");
            visitor.page(&path, 403).await;
            assert_eq!(visitor.press(&path, "").await.status, 403, "{role:?} {verb}");
        }
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for verb in ["edit", "delete"] {
        let forged = visitor.call("POST", &format!("/subscriptions/{id}/{verb}")).body("token=x");
        assert_eq!(forged.send().await.status, 403, "{verb}");
    }
    assert_eq!(api.count("subscription_changes").await, 2, "creation and verification only");
}

fn behave(received: &Received) -> Answer {
    let with = |status, body: Vec<u8>| Answer::With { status, headers: Vec::new(), body };
    match (received.header("posthaste-event-type"), received.path.as_str()) {
        ("posthaste.verification", _) => Answer::to_challenge(received),
        (_, "/words") => with(500, SCRIPT.into()),
        (_, "/flood") => with(200, vec![b'x'; 100_000]),
        (_, "/bytes") => with(200, vec![b'a', 0xff, b'b']),
        (_, _) => Answer::Status(204),
    }
}

pub(crate) async fn a_test_event_shows_the_response<S: Stores>(api: &TestApi<S>) {
    let receiver = Receiver::start(behave).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for (path, is_delivered, body) in [
        ("/words", false, Some(SCRIPT.to_owned())),
        ("/flood", true, Some("x".repeat(1_024))),
        ("/bytes", true, Some("a\u{fffd}b".to_owned())),
        ("/silent", true, None),
    ] {
        let new = serde_json::json!({"event_type": "a", "callback_url": receiver.url(path)}).to_string();
        let made = api.post("/v1/subscriptions").json(new).expect(201).await;
        let call = format!("/v1/subscriptions/{}", made["id"]);
        assert_eq!(api.post(&format!("{call}/verify")).expect(200).await["verified"], true);
        let outcome = api.post(&format!("{call}/test")).expect(200).await;
        assert_eq!(
            (&outcome["delivered"], outcome["response_body"].as_str()),
            (&is_delivered.into(), body.as_deref()),
            "{path}"
        );
        let html = visitor.press(&format!("/subscriptions/{}/test", made["id"]), "").await.text();
        assert!(!html.contains(SCRIPT), "{html}");
        let shown = html
            .split_once("id=\"response\"")
            .and_then(|(_, rest)| rest.split_once('>'))
            .map(|(_, rest)| rest);
        let shown = shown.and_then(|rest| rest.split("</pre>").next());
        let escaped = body.map(|body| body.replace('<', "&#60;").replace('>', "&#62;"));
        assert_eq!(shown, escaped.as_deref(), "{path}");
    }
}
