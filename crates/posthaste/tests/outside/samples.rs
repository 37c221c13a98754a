//! Tests the code samples in `docs/receivers.md` that verify signatures. Every sample receives the same requests, sent
//! by a running server or signed by Posthaste's code, and must accept only the genuine ones. The programs in `samples/`
//! read the requests from stdin and call the sample.

#[allow(unreachable_pub)]
#[path = "../../../../docs/samples/rust/library.rs"]
mod rust_library;
#[allow(unreachable_pub)]
#[path = "../../../../docs/samples/rust/verify.rs"]
mod rust_verify;

use crate::served::{Engine, Served};
use crate::{pages, tools, world};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use posthaste_core::signature::{SigningSecret, sign_standard};
use posthaste_testkit::commands::Ran;
use posthaste_testkit::receiver::{Received, Receiver};
use serde_json::json;
use sha2::Sha256;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;
use tokio::sync::OnceCell;

const GUIDE: &str = "docs/receivers.md";
const FOLDER: &str = "docs/samples";
const OTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY: &[u8] = br#"{"order":7}"#;

/// A request, and whether a receiver must accept it.
#[derive(Debug, Clone)]
struct Row {
    what: &'static str,
    secret: String,
    id: String,
    timestamp: String,
    signatures: String,
    body: Vec<u8>,
    is_genuine: bool,
    /// Whether the request is also passed to the samples that use a library. Libraries may treat malformed headers
    /// differently.
    is_for_libraries: bool,
}

impl Row {
    fn received(what: &'static str, request: &Received, secret: &str) -> Self {
        Self {
            what,
            secret: secret.to_owned(),
            id: request.webhook_id().to_owned(),
            timestamp: request.header("webhook-timestamp").to_owned(),
            signatures: request.header("webhook-signature").to_owned(),
            body: request.body.to_vec(),
            is_genuine: true,
            is_for_libraries: true,
        }
    }

    /// Creates a request that is signed with the timestamp `timestamp_s`.
    fn signed_at(what: &'static str, timestamp_s: i64, is_genuine: bool) -> Self {
        let (secret, id) = (SigningSecret::from_random([7; 32]), "msg_7_3");
        Self {
            what,
            secret: secret.reveal(),
            id: id.to_owned(),
            timestamp: timestamp_s.to_string(),
            signatures: sign_standard(std::slice::from_ref(&secret), id, timestamp_s, BODY),
            body: BODY.to_vec(),
            is_genuine,
            is_for_libraries: true,
        }
    }

    fn forged(self, what: &'static str) -> Self {
        Self { what, is_genuine: false, ..self }
    }

    fn malformed(self, what: &'static str) -> Self {
        Self { is_for_libraries: false, ..self.forged(what) }
    }

    /// Returns the request in the format that the programs in `samples/` read.
    fn line(&self) -> String {
        let body = STANDARD.encode(&self.body);
        [&self.secret, &self.id, &self.timestamp, &self.signatures, &body].map(String::as_str).join("\t")
    }
}

/// Returns the requests, which are created once for all tests of this program. They are valid for five minutes.
async fn rows() -> &'static [Row] {
    static ROWS: OnceCell<Vec<Row>> = OnceCell::const_new();
    ROWS.get_or_init(|| async { [sent_rows().await, signed_rows(), malformed_rows()].concat() }).await
}

/// Returns requests sent by a running server: a challenge, an event, and an event while two secrets are valid.
async fn sent_rows() -> Vec<Row> {
    let served = Served::start(Engine::Sqlite, &[]).await;
    let receiver = Receiver::start(world::answer).await;
    let created = world::subscribe(&served, "order.paid", &receiver.url("/hook"), 1);
    let first = created["secret"].as_str().expect("a secret");
    let event = r#"{"event_type":"order.paid","payload":{"order": 7, "name": "Żółć €"}}"#;
    served.post("/v1/events", event).expect(202);
    receiver.wait_for(2).await;
    let path = format!("/v1/subscriptions/{}/rotate-secret", created["id"]);
    let rotated = served.post(&path, &json!({"overlap_s": 3_600}).to_string()).expect(200).json();
    let second = rotated["secret"].as_str().expect("a secret");
    served.post("/v1/events", event).expect(202);
    let requests = receiver.wait_for(3).await;
    let [challenge, delivery, overlap] = &requests[..] else { panic!("{requests:#?}") };
    assert_eq!(overlap.header("webhook-signature").split(' ').count(), 2);

    let genuine = Row::received("an event", delivery, first);
    let changed = Row { body: [&genuine.body[..], b" "].concat(), ..genuine.clone() };
    let later: u64 = genuine.timestamp.parse().expect("a timestamp");
    vec![
        Row::received("a challenge", challenge, first),
        changed.forged("a changed body"),
        Row { id: "msg_1_2".to_owned(), ..genuine.clone() }.forged("another id"),
        Row { timestamp: (later + 1).to_string(), ..genuine.clone() }.forged("another timestamp"),
        Row { secret: OTHER_SECRET.to_owned(), ..genuine.clone() }.forged("another secret"),
        genuine,
        Row::received("the old secret during a rotation", overlap, first),
        Row::received("the new secret during a rotation", overlap, second),
        Row::received("another secret during a rotation", overlap, OTHER_SECRET).forged("neither secret"),
    ]
}

fn now_s() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a time").as_secs().try_into().expect("a time")
}

fn signed_rows() -> Vec<Row> {
    vec![
        Row::signed_at("within the tolerance", now_s() - 100, true),
        Row::signed_at("too old", now_s() - 301, false),
        // Far enough in the future even when the last of these tests runs.
        Row::signed_at("too far in the future", now_s() + 3_600, false),
        Row { is_for_libraries: false, ..Row::signed_at("the smallest number", i64::MIN, false) },
        Row { is_for_libraries: false, ..Row::signed_at("the largest number", i64::MAX, false) },
    ]
}

/// Returns requests that a sample must refuse without an exception, and one with signatures of unknown versions, which
/// a sample must skip.
fn malformed_rows() -> Vec<Row> {
    let good = Row::signed_at("", now_s(), true);
    let with = |signatures: &str| Row { signatures: signatures.to_owned(), ..good.clone() };
    let at = |timestamp: &str| Row { timestamp: timestamp.to_owned(), ..good.clone() };
    let entry = good.signatures.clone();
    let mut rows = vec![
        with(&entry.replace("v1,", "v2,")).malformed("another version"),
        with("").malformed("no signature"),
        with("v1,").malformed("an empty signature"),
        with("v1").malformed("no comma"),
        with("v1,AAAA").malformed("a short signature"),
        with("v1,not/base64!").malformed("a signature that is not base64"),
        at("").malformed("no timestamp"),
        at("soon").malformed("a timestamp that is not a number"),
        at("99999999999999999999999").malformed("a timestamp of 23 digits"),
        Row { secret: "whsec_not base64".to_owned(), ..good.clone() }
            .malformed("a secret that is not base64"),
        // A receiver without a secret must not accept a signature that anyone can create.
        Row { secret: String::new(), signatures: signed_with_no_key(&good), ..good.clone() }
            .malformed("no secret"),
    ];
    let unknown = with(&format!("v1a,AAAA {entry} v2,AAAA"));
    rows.push(Row { what: "unknown versions next to ours", is_for_libraries: false, ..unknown });
    rows
}

fn signed_with_no_key(row: &Row) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(b"").expect("a key of any length");
    let mac = mac.chain_update(format!("{}.{}.", row.id, row.timestamp)).chain_update(&row.body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[track_caller]
fn compare(rows: &[Row], accepted: &[bool]) {
    assert_eq!(rows.len(), accepted.len());
    let wrong = rows.iter().zip(accepted).filter(|(row, is)| row.is_genuine != **is);
    let wrong: Vec<(&str, &Row)> = wrong.map(|(row, _)| (row.what, row)).collect();
    assert!(wrong.is_empty(), "these are not treated as they should be: {wrong:#?}");
}

fn for_libraries(rows: &[Row]) -> Vec<Row> {
    rows.iter().filter(|row| row.is_for_libraries).cloned().collect()
}

/// Passes the requests to a program and checks which of them it accepts.
#[track_caller]
fn check(program: &mut Command, rows: &[Row]) {
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program runs");
    let lines: String = rows.iter().map(|row| row.line() + "\n").collect();
    // If the program has exited early, its stderr contains the reason.
    let _ = child.stdin.take().expect("a pipe").write_all(lines.as_bytes());
    let ran = Ran::of(&child.wait_with_output().expect("an end")).expect(0);
    let accepted: Vec<bool> =
        ran.stdout.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{ran:#?}"))).collect();
    compare(rows, &accepted);
}

/// Creates a folder with copies of `samples` and of `program` from `samples/`, which is saved as `name`.
fn folder(samples: &[&str], program: &str, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for sample in samples {
        let path = tools::repository(FOLDER).join(sample);
        let file = path.file_name().expect("a name");
        std::fs::copy(&path, folder.path().join(file)).unwrap_or_else(|_| panic!("no {}", path.display()));
    }
    std::fs::copy(tools::file(&format!("samples/{program}")), folder.path().join(name)).expect("a program");
    folder
}

#[track_caller]
fn succeeds(command: &mut Command) {
    Ran::of(&command.output().expect("the program runs")).expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn python_accepts_genuine_requests_only() {
    let folder = folder(&["python/verify.py"], "python.py", "main.py");
    check(tools::python().arg("main.py").current_dir(&folder), rows().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_library_accepts_genuine_requests_only() {
    let folder = folder(&["python/library.py"], "python_library.py", "main.py");
    check(tools::python().arg("main.py").current_dir(&folder), &for_libraries(rows().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_and_its_library_accept_genuine_requests_only() {
    let folder = folder(&["typescript/verify.ts", "typescript/library.ts"], "typescript.ts", "main.ts");
    let modules = tools::node_modules();
    std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).expect("a link");
    std::fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).expect("a file");
    let mut compiler = tools::node();
    compiler.arg(modules.join("typescript/bin/tsc")).args(["--strict", "--skipLibCheck", "main.ts"]);
    compiler.args(["--target", "es2022", "--module", "nodenext", "--outDir", "out"]).current_dir(&folder);
    succeeds(&mut compiler);
    check(tools::node().arg("out/main.js").current_dir(&folder), rows().await);
    let libraries = for_libraries(rows().await);
    check(tools::node().args(["out/main.js", "library"]).current_dir(&folder), &libraries);
}

#[tokio::test(flavor = "multi_thread")]
async fn go_accepts_genuine_requests_only() {
    let folder = folder(&["go/verify.go"], "go.go", "main.go");
    check(tools::go().args(["run", "main.go", "verify.go"]).current_dir(&folder), rows().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ruby_accepts_genuine_requests_only() {
    let folder = folder(&["ruby/verify.rb"], "ruby.rb", "main.rb");
    check(tools::ruby().arg("main.rb").current_dir(&folder), rows().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn php_accepts_genuine_requests_only() {
    let folder = folder(&["php/verify.php"], "php.php", "main.php");
    check(tools::php().arg("main.php").current_dir(&folder), rows().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn java_accepts_genuine_requests_only() {
    let folder = folder(&["java/Webhook.java"], "Main.java", "Main.java");
    succeeds(tools::javac().args(["-d", "classes", "Main.java", "Webhook.java"]).current_dir(&folder));
    check(tools::java().args(["-cp", "classes", "Main"]).current_dir(&folder), rows().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_accepts_genuine_requests_only() {
    let rows = rows().await;
    let verify =
        |row: &Row| rust_verify::verify(&row.secret, &row.id, &row.timestamp, &row.signatures, &row.body);
    compare(rows, &rows.iter().map(verify).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_library_accepts_genuine_requests_only() {
    let rows = for_libraries(rows().await);
    let verify = |row: &Row| {
        let values = [
            ("webhook-id", &row.id),
            ("webhook-timestamp", &row.timestamp),
            ("webhook-signature", &row.signatures),
        ];
        let headers: HeaderMap = values
            .into_iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a header")))
            .collect();
        rust_library::verify(&row.secret, &headers, &row.body)
    };
    compare(&rows, &rows.iter().map(verify).collect::<Vec<_>>());
}

/// Checks that each sample compares signatures with a constant-time function.
#[test]
fn samples_compare_in_constant_time() {
    for (sample, function) in [
        ("python/verify.py", "hmac.compare_digest("),
        ("typescript/verify.ts", "timingSafeEqual("),
        ("rust/verify.rs", ".verify_slice("),
        ("go/verify.go", "hmac.Equal("),
        ("ruby/verify.rb", "OpenSSL.secure_compare("),
        ("php/verify.php", "hash_equals("),
        ("java/Webhook.java", "MessageDigest.isEqual("),
    ] {
        let text = std::fs::read_to_string(tools::repository(FOLDER).join(sample)).expect("a sample");
        assert!(text.contains(function), "{sample} does not use {function}");
    }
}

/// Checks that the guide shows the files that these tests run. `POSTHASTE_BLESS=1` writes the files from the guide.
#[test]
fn the_guide_shows_the_samples() {
    let guide = pages::guide(GUIDE);
    let samples = guide.iter().filter(|(name, _)| name.contains('/'));
    let mut shown: Vec<String> = samples.clone().map(|(name, _)| name.clone()).collect();
    for (name, text) in samples {
        let path = tools::repository(FOLDER).join(name);
        if std::env::var_os("POSTHASTE_BLESS").is_some() {
            std::fs::write(&path, format!("{text}\n")).expect("a sample");
        }
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(file.trim_end(), text, "{FOLDER}/{name} differs from {GUIDE}");
    }
    let mut kept = files(&tools::repository(FOLDER));
    shown.sort_unstable();
    kept.sort_unstable();
    assert_eq!(kept, shown, "{FOLDER} has other files than {GUIDE} shows");
}

/// Returns the relative paths of all files in the subfolders of `folder`.
fn files(folder: &Path) -> Vec<String> {
    let entries =
        |folder: &Path| folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    let languages: Vec<_> = entries(folder).collect();
    let all = languages.iter().flat_map(|language| entries(language));
    all.map(|file| file.strip_prefix(folder).expect("a path below").display().to_string()).collect()
}
