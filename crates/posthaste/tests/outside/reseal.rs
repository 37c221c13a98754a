//! Rotates the key that encrypts signing secrets, as the guide describes it: the new key is put in front of the old
//! one, `posthaste reseal` encrypts all secrets again during deliveries and rotations, and the old key is removed. The
//! command is killed half-way and started again. `make reseal` runs it with 100,000 subscriptions.

use crate::served::{Engine, PATIENCE, ROOT_KEY, Served};
use posthaste_core::SecretRef;
use posthaste_core::signature::{SigningSecret, verify};
use posthaste_core::subscription::{SecretColumn, SecretPlace};
use posthaste_core::time::Timestamp;
use posthaste_services::seal::{PlainSecrets, SealingKeys, SecretSealer};
use posthaste_testkit::client::Call;
use posthaste_testkit::commands::{MIGRATE, Ran, Running, run};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::postgres::empty_database;
use posthaste_testkit::processes::Program;
use posthaste_testkit::receiver::{Answer, Received, Receiver};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::sync::watch;

/// The number of subscriptions in `make test`.
const SUBSCRIPTIONS: usize = 2_100;
const COUNT_VARIABLE: &str = "POSTHASTE_RESEALED_SUBSCRIPTIONS";
/// The number of subscriptions that receive events during the reseal.
const USED: usize = 9;
/// The number of events that may be on their way to the used subscriptions.
const EVENTS_OPEN_MAX: usize = 20;
/// The secret of a used subscription is rotated after this number of events.
const ROTATE_EVERY: usize = 5;
/// The number of subscriptions in a batch of the server.
const BATCH: usize = 500;
const TOLERANCE: Duration = Duration::from_secs(3_600);

/// The old key, and the secret `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw` in the first encrypted form under it.
const OLD_KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const OLD_ID: &str = "72cd6e84";
const FIRST_FORM: &str = concat!(
    "v1:72cd6e84:BwcHBwcHBwcHBwcH+puZwWzx/MdSyz1Cnocsk9bb1a4OPl8d",
    "M2t/7bxdPZ8ASI7jkqrk5VO8rW/VILAQgx772hJ9"
);
const FIRST_FORM_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW_KEY: &str = "0202020202020202020202020202020202020202020202020202020202020202";
const BOTH_KEYS: &str = concat!(
    "0202020202020202020202020202020202020202020202020202020202020202,",
    "0101010101010101010101010101010101010101010101010101010101010101"
);

fn secret(number: usize) -> SigningSecret {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
    SigningSecret::from_random(bytes)
}

/// Returns the secret of a subscription and its stored form: plain text, the first encrypted form, or the newest one
/// under the old key, in turn.
fn stored(sealer: &SecretSealer, number: usize) -> (SigningSecret, String) {
    let place =
        SecretPlace { secret_ref: SecretRef::from_bits(number as u128), column: SecretColumn::Current };
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let secret = secret(number);
    match number % 3 {
        0 => (secret.clone(), secret.reveal()),
        1 => (SigningSecret::parse(FIRST_FORM_SECRET).expect("a secret"), FIRST_FORM.to_owned()),
        _ => (secret.clone(), sealer.seal(&secret, place, nonce).expose().to_owned()),
    }
}

/// A database, and the processes that use it one after the other.
struct Installation {
    database: String,
    folder: TempDir,
}

impl Installation {
    async fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let database = match engine {
            Engine::Sqlite => format!("sqlite://{}", folder.path().join("posthaste.db").display()),
            Engine::Postgres => empty_database("reseal").await,
        };
        run(MIGRATE, &[("POSTHASTE_DATABASE_URL", &database)], "").expect(0);
        Self { database, folder }
    }

    async fn direct(&self) -> Direct {
        match self.database.strip_prefix("sqlite://") {
            Some(path) => Direct::sqlite(Path::new(path)),
            None => Direct::postgres(&self.database).await,
        }
    }

    /// Adds `count` subscriptions; the first [`USED`] have the event type `used` and a path of the receiver as URL.
    /// Each used subscription also has a previous secret. Returns the secrets of the used subscriptions.
    async fn fill(&self, count: usize, receiver: &Receiver) -> Vec<SigningSecret> {
        let keys = SealingKeys::parse(OLD_KEY).expect("a key");
        let sealer = SecretSealer::new(Some(keys), PlainSecrets::Accepted);
        let direct = self.direct().await;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
        let is_sqlite = self.folder.path().join("posthaste.db").exists();
        let time = |seconds: u64| {
            if is_sqlite { format!("{seconds}000000") } else { format!("to_timestamp({seconds})") }
        };
        let (now, tomorrow) = (time(seconds), time(seconds + 86_400));
        let mut used = Vec::new();
        for first in (1..=count).step_by(BATCH) {
            let rows: Vec<String> = (first..(first + BATCH).min(count + 1))
                .map(|number| {
                    let (secret, text) = stored(&sealer, number);
                    let reference =
                        if is_sqlite { format!("x'{number:032x}'") } else { format!("'{number:032x}'") };
                    let is_used = number <= USED;
                    let (kind, verified) = if is_used { ("used", "1 = 1") } else { ("idle", "1 = 0") };
                    let previous = if is_used {
                        used.push(secret);
                        format!("'{FIRST_FORM}', {tomorrow}")
                    } else {
                        "NULL, NULL".to_owned()
                    };
                    let url = receiver.url(&format!("/{number}"));
                    format!(
                        "('{kind}', '{url}', {verified}, {reference}, '{text}', {previous}, {now}, {now})"
                    )
                })
                .collect();
            let columns = "event_type, callback_url, verified, secret_ref, secret, previous_secret, \
                           previous_secret_expires_at, created_at, updated_at";
            direct.run(&format!("INSERT INTO subscriptions ({columns}) VALUES {}", rows.join(", "))).await;
        }
        used
    }

    async fn serve(&self, more: &[(&str, &str)]) -> Served {
        let own = [
            ("POSTHASTE_DATABASE_URL", self.database.as_str()),
            ("POSTHASTE_LISTEN", "127.0.0.1:0"),
            ("POSTHASTE_ROOT_KEY", ROOT_KEY),
            // A retry would hide an attempt that failed because of a secret.
            ("POSTHASTE_RETRY_BASE", "1h"),
        ];
        let unused = tempfile::tempdir().expect("a folder");
        Served::over(unused, &self.database, &[&own, more].concat()).await
    }
}

async fn stop(mut served: Served) {
    served.process.terminate();
    served.process.end(PATIENCE).await.expect("the exit status");
}

fn reseal(url: &str, arguments: &[&str]) -> Ran {
    let arguments = [&["reseal"], arguments].concat();
    run(&arguments, &[("POSTHASTE_URL", url), ("POSTHASTE_KEY", ROOT_KEY)], "")
}

/// The records of the receiver behind the used subscriptions.
struct Deliveries {
    /// The secrets that each used subscription has or had.
    secrets: Mutex<Vec<Vec<SigningSecret>>>,
    /// The distinct pairs of event and subscription that arrived with a valid signature.
    seen: Mutex<HashSet<String>>,
    count: watch::Sender<usize>,
    refused: Mutex<Vec<String>>,
}

impl Deliveries {
    fn new() -> Self {
        Self {
            secrets: Mutex::default(),
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            refused: Mutex::default(),
        }
    }

    fn receive(&self, received: &Received) -> Answer {
        let number: usize =
            received.path.trim_start_matches('/').parse().expect("the number of a subscription");
        let secrets = self.secrets.lock().expect("the secrets")[number - 1].clone();
        let signers: Vec<&SigningSecret> = secrets.iter().collect();
        let timestamp_s: i64 = received.header("webhook-timestamp").parse().expect("seconds");
        let now = Timestamp::from_micros(timestamp_s * 1_000_000);
        let (id, signature) = (received.webhook_id(), received.header("webhook-signature"));
        if verify(&signers, id, timestamp_s, &received.body, signature, TOLERANCE, now).is_err() {
            self.refused.lock().expect("the list").push(id.to_owned());
            return Answer::Status(401);
        }
        let mut seen = self.seen.lock().expect("the set");
        seen.insert(id.to_owned());
        self.count.send_replace(seen.len());
        Answer::Status(200)
    }

    async fn wait_for(&self, count: usize) {
        let mut seen = self.count.subscribe();
        let waited = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| *seen >= count)).await.is_ok();
        assert!(waited, "{} of {count} deliveries, refused: {:?}", *self.count.borrow(), self.refused);
    }

    /// Publishes an event and waits until only a few are on their way.
    async fn publish(&self, address: SocketAddr, events: &mut usize) {
        let body = json!({"event_type": "used", "payload": *events}).to_string();
        Call::new(address, "POST", "/v1/events", ROOT_KEY).json(body).send().await.expect(202);
        *events += 1;
        self.wait_for(events.saturating_sub(EVENTS_OPEN_MAX) * USED).await;
    }

    /// Publishes events until `done`, and rotates the secrets of the used subscriptions in turn. Returns the number of
    /// rotations.
    async fn load(&self, address: SocketAddr, events: &mut usize, done: &AtomicBool) -> usize {
        let mut rotations = 0;
        while !done.load(Ordering::Relaxed) {
            self.publish(address, events).await;
            if events.is_multiple_of(ROTATE_EVERY) {
                let number = 1 + rotations % USED;
                let path = format!("/v1/subscriptions/{number}/rotate-secret");
                let rotated = Call::new(address, "POST", &path, ROOT_KEY).send().await.expect(200).json();
                let new =
                    SigningSecret::parse(rotated["secret"].as_str().expect("a secret")).expect("a secret");
                self.secrets.lock().expect("the secrets")[number - 1].push(new);
                rotations += 1;
            }
        }
        rotations
    }
}

/// Starts `posthaste reseal` with a server that forwards the first `batches` calls to `address` and does not respond to
/// the next one. Kills the command there.
async fn reseal_and_kill(address: SocketAddr, batches: usize) {
    let calls = AtomicUsize::new(0);
    let gateway = Receiver::start(move |received| {
        if calls.fetch_add(1, Ordering::SeqCst) == batches {
            return Answer::Hang;
        }
        let call = Call::new(address, "POST", &received.path, ROOT_KEY).json(received.body.to_vec());
        let answer = tokio::task::block_in_place(|| call.send_blocking());
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Answer::With { status: answer.status, headers, body: answer.text().into_bytes() }
    })
    .await;
    let mut command = Program::find().command();
    command.arg("reseal").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    command.env("POSTHASTE_URL", gateway.url("")).env("POSTHASTE_KEY", ROOT_KEY);
    let running = Running::of(&mut command);
    gateway.wait_for(batches + 1).await;
    drop(running);
}

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:#?}"))
}

async fn check_rotation(engine: Engine) {
    let subscriptions =
        std::env::var(COUNT_VARIABLE).map_or(SUBSCRIPTIONS, |text| text.parse().expect("a number"));
    let deliveries = Arc::new(Deliveries::new());
    let records = Arc::clone(&deliveries);
    let receiver = Receiver::start_unlogged(move |received| records.receive(received)).await;
    let installation = Installation::new(engine).await;
    let secrets = installation.fill(subscriptions, &receiver).await;
    *deliveries.secrets.lock().expect("the secrets") = secrets.into_iter().map(|one| vec![one]).collect();

    let served = installation.serve(&[("POSTHASTE_SECRET_KEY", BOTH_KEYS)]).await;
    let (address, url, done, mut events) = (served.address, served.url(), AtomicBool::new(false), 0);
    let checked = parsed(&reseal(&url, &["--check", "--json"]).expect(1));
    assert_eq!((&checked["examined"], &checked["outdated"]), (&json!(subscriptions), &json!(subscriptions)));
    let halfway = subscriptions / BATCH / 2;
    let resealing = async {
        reseal_and_kill(address, halfway).await;
        let left =
            parsed(&reseal(&url, &["--check", "--json"]).expect(1))["outdated"].as_u64().expect("a count");
        let url = url.clone();
        let began = Instant::now();
        let continued = tokio::task::spawn_blocking(move || reseal(&url, &["--json"])).await.expect("an end");
        let took = began.elapsed();
        done.store(true, Ordering::Relaxed);
        (parsed(&continued.expect(0)), left as usize, took)
    };
    let (rotations, (continued, left, took)) =
        tokio::join!(deliveries.load(address, &mut events, &done), resealing);
    deliveries.wait_for(events * USED).await;
    assert!(left > 0 && left < subscriptions, "{left} left after the kill");
    let resealed = continued["resealed"].as_u64().expect("a count") as usize;
    println!(
        "{engine:?}: {resealed} of {subscriptions} subscriptions resealed in {took:?} after the kill ({:.0} per \
         second), with {events} events to {USED} subscriptions and {rotations} rotations",
        resealed as f64 / took.as_secs_f64()
    );
    assert_eq!(continued["examined"], subscriptions);
    // A rotation encrypts with the new key, so a rotated subscription may have been up to date already.
    assert!(resealed <= left && resealed + USED >= left, "{continued}");
    assert!(events > 0 && rotations > 0 && deliveries.refused.lock().expect("the list").is_empty());
    let logged = served.process.lines();
    let complaint = logged.iter().find(|line| line.text.contains("cannot be decrypted"));
    assert_eq!(complaint, None);
    let checked = reseal(&url, &["--check"]).expect(0);
    assert!(checked.stdout.contains(": 0 outdated, 0 unreadable"), "{checked:#?}");
    let changes = served.get("/v1/audit?action=secrets_resealed&limit=1").json();
    assert_eq!(changes["items"][0]["object"], "subscriptions", "{changes}");
    stop(served).await;

    // Without the old key, all secrets are still readable.
    let settings = [("POSTHASTE_SECRET_KEY", NEW_KEY), ("POSTHASTE_SECRETS", "sealed")];
    let served = installation.serve(&settings).await;
    let checked = reseal(&served.url(), &["--check"]).expect(0);
    assert!(checked.stdout.contains(&format!("{subscriptions} subscriptions examined")), "{checked:#?}");
    deliveries.publish(served.address, &mut events).await;
    deliveries.wait_for(events * USED).await;
    assert!(deliveries.refused.lock().expect("the list").is_empty());
    stop(served).await;
    let history = "SELECT count(*) FROM subscription_changes";
    let recorded = installation.direct().await.number(history).await;
    assert_eq!(recorded, i64::try_from(subscriptions + rotations).expect("a count"), "a reseal is no change");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_resealed_during_deliveries_on_sqlite() {
    check_rotation(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_resealed_during_deliveries_on_postgres() {
    check_rotation(Engine::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reseal_reports_what_it_cannot_do() {
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    let installation = Installation::new(Engine::Sqlite).await;
    installation.fill(6, &receiver).await;

    let served = installation.serve(&[]).await;
    let refused = reseal(&served.url(), &[]).expect(1);
    assert!(refused.stderr.contains("POSTHASTE_SECRET_KEY is not set"), "{refused:#?}");
    // The current secret cannot be kept without its key, but it can be replaced at once.
    let path = "/v1/subscriptions/1/rotate-secret";
    let problem = served.post(path, "{}").expect(409).text();
    assert!(problem.contains(OLD_ID) && problem.contains("overlap_s of 0"), "{problem}");
    served.post(path, r#"{"overlap_s":0}"#).expect(200);
    let bad = served.post("/v1/subscriptions/reseal-secrets", r#"{"cursor":"x"}"#).expect(422).text();
    assert!(bad.contains("cursor must be"), "{bad}");
    stop(served).await;

    let served = installation.serve(&[("POSTHASTE_SECRET_KEY", NEW_KEY)]).await;
    let url = served.url();
    let ran = reseal(&url, &[]).expect(1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    // Two subscriptions are in plain text and one was rotated; the others have a secret of the old key.
    assert!(lines[0].starts_with("6 subscriptions examined: "), "{ran:#?}");
    assert_eq!(lines.last(), Some(&format!("missing in POSTHASTE_SECRET_KEY: {OLD_ID}").as_str()));
    assert!(
        lines.iter().any(|line| line.starts_with("subscription 2: ") && line.contains(OLD_ID)),
        "{ran:#?}"
    );
    assert!(!ran.stdout.contains("whsec_") && !ran.stderr.contains("whsec_"), "{ran:#?}");
    let again = parsed(&reseal(&url, &["--json"]).expect(1));
    assert_eq!((&again["resealed"], &again["missing_keys"]), (&json!(0), &json!([OLD_ID])), "{again}");
    let key = served.post("/v1/keys", r#"{"name":"reader","role":"operator"}"#).expect(201).json();
    let environment =
        [("POSTHASTE_URL", url.as_str()), ("POSTHASTE_KEY", key["key"].as_str().expect("a key"))];
    let refused = run(&["reseal"], &environment, "").expect(1);
    assert!(refused.stderr.contains("admin"), "{refused:#?}");
    stop(served).await;

    let environment =
        [("POSTHASTE_DATABASE_URL", installation.database.as_str()), ("POSTHASTE_SECRETS", "sealed")];
    let refused = run(&["serve"], &environment, "").expect(1);
    assert!(refused.stderr.contains("POSTHASTE_SECRETS=sealed and POSTHASTE_SECRET_KEY"), "{refused:#?}");
    let unreachable = reseal(&url, &[]).expect(3);
    assert_eq!(unreachable.stdout, "", "{unreachable:#?}");
}
