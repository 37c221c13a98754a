//! A server with the calls for subscriptions that `posthaste subscription apply` and `posthaste import` use. It keeps
//! its subscriptions in memory, lists two per page, and checks the conditions of every write.

use http::Method;
use posthaste_testkit::commands::{Ran, run};
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const PAGE_ITEMS: usize = 2;

#[derive(Default)]
pub(crate) struct State {
    /// The subscriptions by id, as they are shown, and their revisions.
    pub(crate) subscriptions: BTreeMap<i64, (Value, u64)>,
    pub(crate) verification_methods: Vec<&'static str>,
    /// Changes a subscription whenever it was read.
    pub(crate) interferes: bool,
    /// The bodies of all PUTs that were accepted.
    pub(crate) written: Vec<Value>,
    /// The methods with which subscriptions were verified.
    pub(crate) verified: Vec<Value>,
    /// Responds to every write with this status.
    pub(crate) fails_with: Option<u16>,
}

pub(crate) struct Stub {
    pub(crate) receiver: Receiver,
    state: Arc<Mutex<State>>,
}

impl Stub {
    pub(crate) async fn start(state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let answer = move |request: &Received| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let (status, etag, body) = state.respond(request);
            let headers = etag.map(|tag| ("etag".to_owned(), tag)).into_iter().collect();
            let body = if status == 204 { Vec::new() } else { body.to_string().into_bytes() };
            Answer::With { status, headers, body }
        };
        Self { receiver: Receiver::start(answer).await, state }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[], "")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)], stdin: &str) -> Ran {
        let url = self.receiver.url("");
        let server = [("POSTHASTE_URL", url.as_str()), ("POSTHASTE_KEY", "k")];
        run(arguments, &[&server, environment].concat(), stdin)
    }

    /// Runs a command with `--json`, checks its exit code, and returns its output.
    pub(crate) fn json(&self, arguments: &[&str], code: i32) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat()).expect(code);
        serde_json::from_str(&ran.stdout).expect("JSON")
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(&mut State) -> R) -> R {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the methods of the requests other than GET.
    pub(crate) fn writes(&self) -> Vec<Method> {
        let received = self.receiver.received().into_iter();
        received.map(|request| request.method).filter(|method| *method != Method::GET).collect()
    }
}

type Reply = (u16, Option<String>, Value);

fn problem(status: u16, detail: &str) -> Reply {
    (status, None, json!({"title": "Refused", "status": status, "detail": detail}))
}

fn etag(id: i64, revision: u64) -> String {
    format!("\"{id}-{revision}\"")
}

impl State {
    /// Adds a subscription as a PUT with this body would create it, and returns its id.
    pub(crate) fn add(&mut self, uid: Option<&str>, body: &Value) -> i64 {
        let id = i64::try_from(self.subscriptions.len()).expect("a few") + 1;
        let body = body.as_object().cloned().expect("an object");
        self.subscriptions.insert(id, (shown(id, uid, &body, false), 1));
        id
    }

    fn respond(&mut self, request: &Received) -> Reply {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let is_write = request.method != Method::GET;
        match (self.fails_with.filter(|_| is_write), &parts[..]) {
            (Some(status), _) => problem(status, "as the test demands"),
            (None, ["v1", "system"]) => {
                (200, None, json!({"version": "0", "verification_methods": self.verification_methods}))
            }
            (None, ["v1", "subscriptions"]) => self.list(query),
            (None, ["v1", "subscriptions", "uid", uid]) => self.put(&uid.replace("%3A", ":"), request),
            (None, ["v1", "subscriptions", id]) => self.one(id.parse().unwrap_or_default(), request),
            (None, ["v1", "subscriptions", id, "verify"]) => {
                self.verify(id.parse().unwrap_or_default(), &request.body)
            }
            _ => problem(404, "there is no such path"),
        }
    }

    fn list(&self, query: &str) -> Reply {
        let parameter = |name: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            found.map(str::to_owned)
        };
        let start: usize = parameter("cursor").and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
        let tenant = parameter("tenant");
        let is_listed = |item: &&Value| tenant.is_none() || item["tenant"].as_str() == tenant.as_deref();
        let all: Vec<&Value> = self.subscriptions.values().map(|(item, _)| item).filter(is_listed).collect();
        let end = (start + PAGE_ITEMS).min(all.len());
        let next = (end < all.len()).then(|| end.to_string());
        (200, None, json!({"items": all[start..end], "next_cursor": next}))
    }

    fn one(&mut self, id: i64, request: &Received) -> Reply {
        let interferes = self.interferes;
        let Some((item, revision)) = self.subscriptions.get_mut(&id) else {
            return problem(404, "no such one");
        };
        let tag = etag(id, *revision);
        if request.method == Method::DELETE {
            assert_eq!(request.header("if-match"), tag);
            self.subscriptions.remove(&id);
            return (204, None, Value::Null);
        }
        *revision += u64::from(interferes);
        (200, Some(tag), item.clone())
    }

    fn put(&mut self, uid: &str, request: &Received) -> Reply {
        let body: Map<String, Value> = serde_json::from_slice(&request.body).expect("an object");
        if body["callback_url"].as_str().is_some_and(|url| url.contains("refused")) {
            return problem(422, "callback_url must have a public address");
        }
        let tenant = body.get("tenant").cloned().unwrap_or_default();
        let is_same = |item: &Value| item["uid"] == uid && item["tenant"] == tenant;
        let found = self.subscriptions.iter().find(|(_, (item, _))| is_same(item));
        // A new URL must be verified again.
        let is_verified =
            |item: &Value| item["verified"] == true && item["callback_url"] == body["callback_url"];
        let found = found.map(|(id, (item, revision))| (*id, is_verified(item), *revision));
        let (if_match, if_none_match) = (request.header("if-match"), request.header("if-none-match"));
        let (id, verified, revision) = match found {
            Some((id, _, revision)) if if_none_match == "*" || if_match != etag(id, revision) => {
                return problem(412, "the condition does not hold");
            }
            Some((id, verified, revision)) => (id, verified, revision + 1),
            None if if_none_match == "*" => {
                (self.subscriptions.keys().last().copied().unwrap_or_default() + 1, false, 1)
            }
            None => return problem(412, "the condition does not hold"),
        };
        let mut item = shown(id, Some(uid), &body, verified);
        self.written.push(body.clone().into());
        self.subscriptions.insert(id, (item.clone(), revision));
        if revision == 1 {
            item["secret"] = body.get("secret").cloned().unwrap_or_else(|| "whsec_generated".into());
        }
        (if revision == 1 { 201 } else { 200 }, Some(etag(id, revision)), item)
    }

    fn verify(&mut self, id: i64, body: &[u8]) -> Reply {
        let body: Value = serde_json::from_slice(body).expect("a body");
        let Some((item, _)) = self.subscriptions.get_mut(&id) else { return problem(404, "no such one") };
        let is_verified = !item["callback_url"].as_str().is_some_and(|url| url.contains("deaf"));
        item["verified"] = is_verified.into();
        self.verified.push(body["method"].clone());
        let reason = (!is_verified).then_some("no echo");
        (
            200,
            None,
            json!({"verified": is_verified, "reason": reason, "duration_ms": 1, "response_status": 200}),
        )
    }
}

/// Returns a subscription as the server shows it: with defaults, and without secrets.
fn shown(id: i64, uid: Option<&str>, body: &Map<String, Value>, verified: bool) -> Value {
    let mut item = json!({
        "id": id, "uid": uid, "tenant": null, "name": null, "description": null, "metadata": {}, "filter": null,
        "event_types": [], "callback_url": "", "active": true, "verified": verified, "max_retry_limit": null,
        "timeout": null, "signatures": ["standard"], "public_key": null, "headers": {}, "auth": null,
        "envelope": "raw", "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:00Z"
    });
    for (name, value) in body.iter().filter(|(name, _)| *name != "secret" && *name != "signing_key") {
        item[name] = value.clone();
    }
    for (_, value) in item["headers"].as_object_mut().expect("headers") {
        if value["secret"] == true {
            *value = json!({"secret": true});
        }
    }
    for member in item["auth"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for secret in ["password", "token", "value", "client_secret", "key"] {
            member.as_object_mut().expect("members").remove(secret);
        }
    }
    item
}
