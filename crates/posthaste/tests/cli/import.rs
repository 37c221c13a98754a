//! Tests `posthaste import` from files and from stubs of the APIs of Svix and Convoy, against a [`Stub`].

use crate::folder;
use crate::stub::{State, Stub};
use posthaste_testkit::commands::run;
use posthaste_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};
use std::path::Path;

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

fn bundle() -> Value {
    json!([
        {"application": {"id": "app_1", "uid": "acme"}, "endpoints": [
            {"id": "ep_1", "uid": "billing", "url": "https://acme.example/", "filterTypes": ["invoice.paid"],
             "secret": SECRET, "headers": {}},
            {"id": "ep_2", "url": "https://acme.example/eu", "channels": ["eu"], "secret": SECRET, "headers": {}}
        ]},
        {"application": {"id": "app_2"}, "endpoints": [
            {"id": "ep_3", "url": "https://globex.example/", "secret": SECRET, "headers": {"X-Api-Key": "k"}}
        ]}
    ])
}

fn allowing(verification_methods: &[&'static str]) -> State {
    State { verification_methods: verification_methods.to_vec(), ..State::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_run_creates_no_duplicates_and_resets_no_secrets() {
    let (stub, folder) = (Stub::start(allowing(&["challenge", "asserted"])).await, folder());
    let file = write(folder.path(), "bundle.json", &bundle().to_string());
    let arguments = ["import", "svix", &file, "--verification", "asserted"];
    let dry = stub.run(&[&arguments[..], &["--dry-run"]].concat()).expect(0);
    assert!(
        dry.stdout.ends_with("dry run, nothing was written: 3 create, 0 change, 0 unchanged, 0 failed\n"),
        "{dry:?}"
    );
    assert!(stub.writes().is_empty());

    let report = stub.json(&arguments, 0);
    assert_eq!((&report["created"], &report["failed"]), (&3.into(), &0.into()), "{report:#}");
    let items = report["items"].as_array().expect("items");
    let tenants: Vec<&Value> = items.iter().map(|item| &item["tenant"]).collect();
    assert_eq!(tenants, ["acme", "acme", "app_2"]);
    // An endpoint that would get other requests than before is not verified.
    let verified: Vec<&Value> = items.iter().map(|item| &item["verified"]).collect();
    assert_eq!(verified, [&json!(true), &Value::Null, &json!(true)], "{report:#}");
    assert_eq!(items[1]["notes"][0], "not imported: the channels eu");
    assert!(
        items[1]["notes"][1].as_str().is_some_and(|note| note.contains("subscription verify 2")),
        "{report:#}"
    );
    assert_eq!(stub.with(|state| state.verified.clone()), [json!("asserted"), json!("asserted")]);
    let first = stub.with(|state| state.written[0].clone());
    assert_eq!(
        (&first["secret"], &first["signatures"], &first["tenant"]),
        (&SECRET.into(), &json!([{"preset": "svix"}]), &"acme".into())
    );

    let writes = stub.writes().len();
    let again = stub.json(&arguments, 0);
    assert_eq!((&again["unchanged"], stub.writes().len()), (&3.into(), writes), "{again:#}");

    let mut changed = bundle();
    changed[0]["endpoints"][0]["disabled"] = true.into();
    let file = write(folder.path(), "changed.json", &changed.to_string());
    let ran = stub.run(&["import", "svix", &file, "--app", "acme"]).expect(0);
    assert!(ran.stdout.contains("changed    acme    svix:acme:billing  1   active"), "{ran:?}");
    assert!(ran.stdout.ends_with("0 created, 1 changed, 1 unchanged, 0 failed\n"), "{ran:?}");
    assert_eq!(stub.with(|state| state.written[3].get("secret").cloned()), None, "a rotated secret is kept");

    // What the operator has added is kept.
    stub.with(|state| {
        let (second, _) = state.subscriptions.get_mut(&2).expect("a subscription");
        second["filter"] = json!({"exact": {"channel": "eu"}});
        second["headers"] = json!({"authorization": {"secret": true}});
    });
    changed[0]["endpoints"][1]["filterTypes"] = json!(["invoice.paid"]);
    let file = write(folder.path(), "changed.json", &changed.to_string());
    let report = stub.json(&["import", "svix", &file], 0);
    assert_eq!(report["items"][1]["changed"], json!(["event_types"]), "{report:#}");
    let second = stub.with(|state| state.subscriptions[&2].0.clone());
    assert_eq!(
        (&second["filter"], &second["headers"]),
        (&json!({"exact": {"channel": "eu"}}), &json!({"authorization": {"secret": true}}))
    );

    // A new URL must be verified again.
    changed[0]["endpoints"][0]["url"] = "https://new.acme.example/".into();
    let file = write(folder.path(), "changed.json", &changed.to_string());
    let report = stub.json(&["import", "svix", &file, "--verification", "challenge"], 0);
    assert_eq!(report["items"][0]["changed"], json!(["callback_url"]), "{report:#}");
    assert_eq!(report["items"][0]["verified"], true, "{report:#}");
    assert_eq!(stub.with(|state| state.verified.last().cloned()), Some(json!("challenge")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn method_that_the_server_does_not_allow_stops_the_import() {
    let (stub, folder) = (Stub::start(allowing(&["challenge", "cloudevents"])).await, folder());
    let file = write(folder.path(), "bundle.json", &bundle().to_string());
    let ran = stub.run(&["import", "svix", &file, "--verification", "asserted"]).expect(1);
    for words in
        ["nothing was imported", "asserted, only challenge, cloudevents", "POSTHASTE_VERIFICATION_METHODS"]
    {
        assert!(ran.stderr.contains(words), "{words} in {ran:?}");
    }
    assert!(stub.writes().is_empty() && ran.stdout.is_empty());
    stub.run(&["import", "svix", &file, "--verification", "hope"]).expect(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_and_unverified_endpoints_make_the_exit_code_1() {
    let (stub, folder) = (Stub::start(allowing(&["challenge"])).await, folder());
    let lines = "uid,url,event_types,tenant,signature\n\
        a,https://refused.example/,order.paid,acme,\n\
        b,https://deaf.example/,order.paid;order.*,acme,stripe\n\
        c,https://c.example/,*,,\n";
    let file = write(folder.path(), "endpoints.csv", lines);
    let ran = stub.run(&["import", "csv", &file, "--verification", "challenge"]).expect(1);
    for line in [
        "failed   acme    a    -   -",
        "created  acme    b    1   no",
        "created  -       c    2   yes",
        "a of tenant acme: Refused: callback_url must have a public address",
        "b of tenant acme: not verified: no echo",
        "2 created, 0 changed, 0 unchanged, 1 failed",
    ] {
        assert!(ran.stdout.lines().any(|found| found == line), "{line} in\n{}", ran.stdout);
    }
}

#[test]
fn wrong_files_are_refused_before_the_first_call() {
    let folder = folder();
    let nobody = [("POSTHASTE_URL", "http://127.0.0.1:1")];
    let bad = "uid,url,event_types\n,https://h.example/,*\nb,nowhere,*\n";
    for (source, text, code, message) in [
        (
            "csv",
            bad,
            2,
            "line 2, column uid: a value is required\nline 3, column url: must begin with https://",
        ),
        ("svix", "{}", 2, "the bundle must be a list"),
        ("svix", "[", 2, "it is not JSON"),
        ("convoy", "{}", 2, "endpoints must be a list\nsubscriptions must be a list"),
        ("csv", "uid,url,event_types\na,https://h.example/,*\n", 3, "127.0.0.1:1"),
    ] {
        let file = write(folder.path(), "file", text);
        let ran = run(&["import", source, &file], &nobody, "").expect(code);
        assert!(ran.stderr.contains(message) && ran.stdout.is_empty(), "{source}: {ran:?}");
    }
    for arguments in [
        &["import", "svix"][..],
        &["import", "svix", "file", "--url", "https://h.example"],
        &["import", "svix", "file", "--token", "t"],
        &["import", "convoy", "--url", "https://h.example", "--token", "t"],
        &["import", "csv", "--url", "https://h.example"],
    ] {
        run(arguments, &nobody, "").expect(2);
    }
    let ran = run(&["import", "svix", "--url", "https://h.example"], &nobody, "").expect(2);
    assert!(ran.stderr.contains("POSTHASTE_IMPORT_TOKEN"), "{ran:?}");
    run(&["import", "svix", "/missing"], &nobody, "").expect(1);
    let ran = run(&["import", "svix", "--url", "http://127.0.0.1:1", "--token", "t"], &nobody, "").expect(1);
    assert!(ran.stderr.contains("cannot reach Svix at http://127.0.0.1:1"), "{ran:?}");
}

/// Starts a server that responds to GET requests with the JSON at their path and query, or with 404. Its first response
/// asks for a pause. It accepts the token `t` only.
async fn api(pages: Value) -> Receiver {
    let is_first = std::sync::atomic::AtomicBool::new(true);
    Receiver::start(move |request| {
        let respond = |status: u16, body: &Value| Answer::With {
            status,
            headers: vec![("retry-after".to_owned(), "0".to_owned())],
            body: body.to_string().into_bytes(),
        };
        if request.header("authorization") != "Bearer t" {
            return respond(401, &json!({"code": "authentication_failed"}));
        }
        if is_first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return respond(429, &json!({"code": "rate_limited"}));
        }
        pages
            .get(&request.path)
            .map_or_else(|| respond(404, &json!({"code": "not_found"})), |page| respond(200, page))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn svix_endpoints_are_read_from_its_api() {
    let page = |data: Value, iterator: Option<&str>| json!({"data": data, "iterator": iterator, "done": iterator.is_none()});
    let endpoint = |id: &str| json!({"id": id, "url": format!("https://{}.example/", &id[3..]), "metadata": {}, "version": 1});
    let headers = json!({"headers": {"X-Region": "eu"}, "sensitive": ["authorization"]});
    let none = json!({"headers": {}, "sensitive": []});
    let svix = api(json!({
        "/api/v1/app/?limit=250": page(json!([{"id": "app_1", "uid": "acme"}]), Some("i1")),
        "/api/v1/app/?limit=250&iterator=i1": page(json!([{"id": "app_2"}]), None),
        "/api/v1/app/acme/": {"id": "app_1", "uid": "acme"},
        "/api/v1/app/app_1/endpoint/?limit=250": page(json!([endpoint("ep_a"), endpoint("ep_b")]), None),
        "/api/v1/app/app_2/endpoint/?limit=250": page(json!([endpoint("ep_c")]), None),
        "/api/v1/app/app_1/endpoint/ep_a/secret/": {"key": SECRET},
        "/api/v1/app/app_1/endpoint/ep_b/secret/": {"key": SECRET},
        "/api/v1/app/app_2/endpoint/ep_c/secret/": {"key": SECRET},
        "/api/v1/app/app_1/endpoint/ep_a/headers/": headers,
        "/api/v1/app/app_1/endpoint/ep_b/headers/": none,
        "/api/v1/app/app_2/endpoint/ep_c/headers/": none,
        "/api/v1/app/app_1/endpoint/ep_b/transformation/": {"code": "function handler() {}", "enabled": true}
    }))
    .await;
    let stub = Stub::start(State::default()).await;
    let url = svix.url("");
    let arguments = ["import", "svix", "--url", &url, "--json"];
    let ran = stub.run_with(&arguments, &[("POSTHASTE_IMPORT_TOKEN", "t")], "").expect(0);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let notes: Vec<&Value> =
        report["items"].as_array().expect("items").iter().map(|item| &item["notes"]).collect();
    assert_eq!(
        notes,
        [
            &json!(["not imported: the headers authorization, whose values Svix does not show"]),
            &json!(["not imported: the transformation"]),
            &json!([])
        ]
    );
    let written = stub.with(|state| state.written.clone());
    assert_eq!(written.len(), 3);
    assert_eq!((&written[0]["secret"], &written[0]["headers"]), (&SECRET.into(), &json!({"X-Region": "eu"})));
    assert_eq!(
        (&written[2]["tenant"], &written[2]["callback_url"]),
        (&"app_2".into(), &"https://c.example/".into())
    );
    assert!(!ran.stdout.contains(SECRET), "{ran:?}");

    let one = stub.run(&["import", "svix", "--url", &url, "--token", "t", "--app", "acme"]).expect(0);
    assert!(one.stdout.ends_with("0 created, 0 changed, 2 unchanged, 0 failed\n"), "{one:?}");
    let ran = stub.run(&["import", "svix", "--url", &url, "--token", "wrong"]).expect(1);
    assert!(ran.stderr.contains("refused GET /api/v1/app/ with 401: check the token"), "{ran:?}");
    let ran = stub.run(&["import", "svix", "--url", &url, "--token", "t", "--app", "nobody"]).expect(1);
    assert!(ran.stderr.contains("/api/v1/app/nobody/ with 404"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn convoy_subscriptions_are_read_from_its_api() {
    let page = |content: Value, next: Option<&str>| {
        let pagination =
            json!({"has_next_page": next.is_some(), "next_page_cursor": next.unwrap_or_default()});
        json!({"status": true, "message": "ok", "data": {"content": content, "pagination": pagination}})
    };
    let endpoint = |id: &str| {
        json!({"uid": id, "owner_id": "acme", "url": "https://acme.example/", "status": "active",
               "secrets": [{"value": "Vuk5LM0uujddIsqO5v_eSuz88"}]})
    };
    let subscription = |id: &str, endpoint: &str| {
        json!({"uid": id, "name": id, "type": "api", "endpoint_metadata": {"uid": endpoint},
               "filter_config": {"event_types": ["order.paid"], "filter": {"body": {}}}})
    };
    let convoy = api(json!({
        "/api/v1/projects/p/endpoints?perPage=100&direction=next": page(json!([endpoint("e1")]), Some("e1")),
        "/api/v1/projects/p/endpoints?perPage=100&direction=next&next_page_cursor=e1": page(json!([endpoint("e2")]), None),
        "/api/v1/projects/p/subscriptions?perPage=100&direction=next":
            page(json!([subscription("s1", "e1"), subscription("s2", "e2")]), None),
        "/api/v1/projects/p/subscriptions/s2/filters": {"data": [{"event_type": "order.paid", "body": {"a": 1}}]},
        "/api/v1/projects/p": {"data": {"uid": "p", "config": {"signature": {
            "header": "X-Shop-Signature", "versions": [{"hash": "SHA256", "encoding": "hex"}]
        }}}}
    }))
    .await;
    let stub = Stub::start(State::default()).await;
    let url = convoy.url("");
    let arguments = ["import", "convoy", "--url", &url, "--project", "p", "--token", "t"];
    let ran = stub.run(&arguments).expect(0);
    assert!(ran.stdout.ends_with("2 created, 0 changed, 0 unchanged, 0 failed\n"), "{ran:?}");
    assert!(
        ran.stdout.contains("convoy:p:s2 of tenant acme: not imported: the filter on body of order.paid"),
        "{ran:?}"
    );
    let written = stub.with(|state| state.written.clone());
    assert_eq!(written[0]["signatures"][0]["hmac"]["header"], "X-Shop-Signature");
    assert_eq!(written[0]["secret"], "Vuk5LM0uujddIsqO5v_eSuz88");
    let again = stub.run(&arguments).expect(0);
    assert!(again.stdout.ends_with("0 created, 0 changed, 2 unchanged, 0 failed\n"), "{again:?}");
}
