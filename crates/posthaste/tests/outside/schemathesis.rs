//! Tests the API against its OpenAPI document with schemathesis, which generates valid and invalid calls. No call may
//! fail with a server error, return an undocumented response, or be accepted although the document forbids it.

use crate::served::{Engine, ROOT_KEY, Served};
use crate::{tools, world};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::receiver::Receiver;

/// The maximum number of test cases per operation and phase. A run takes 10 to 30 seconds.
const EXAMPLES_MAX: &str = "20";
const SEED_VARIABLE: &str = "POSTHASTE_SEED";

/// The schemathesis check that is excluded. A schema cannot express every rule (a URL that the address policy permits,
/// a name without control characters), so some calls that match the schema are refused with 422 and the name of the
/// field.
const EXCLUDED_CHECK: &str = "positive_data_acceptance";

/// Returns the seed of the generator, which is the same in every run unless [`SEED_VARIABLE`] is set.
fn seed() -> String {
    std::env::var(SEED_VARIABLE).unwrap_or_else(|_| "1".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_conforms_to_its_openapi_document_on_sqlite() {
    check(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_conforms_to_its_openapi_document_on_postgres() {
    check(Engine::Postgres).await;
}

async fn check(engine: Engine) {
    let (broker, seed) = (TestBroker::start(Behaviour::Well).await, seed());
    let url = broker.url();
    let settings = [("POSTHASTE_REQUEST_TIMEOUT", "1s"), ("POSTHASTE_BROKER_URL", &url)];
    let served = Served::start(engine, &settings).await;
    let receiver = Receiver::start(world::answer).await;
    world::deliver_and_dead_letter(&served, &receiver);
    let folder = tempfile::tempdir().expect("a folder");
    let document = format!("{}/openapi.json", served.url());
    let key = format!("Authorization: Bearer {ROOT_KEY}");
    let output = tools::python()
        .args(["-m", "schemathesis.cli", "run", &document, "--header", &key, "--seed", &seed])
        .args(["--checks", "all", "--exclude-checks", EXCLUDED_CHECK, "--max-examples", EXAMPLES_MAX])
        // With several workers, the parser of Python 3.11 occasionally fails, and the order of cases varies.
        .args(["--workers", "1", "--request-timeout", "60", "--no-color"])
        .current_dir(&folder)
        .output()
        .expect("schemathesis");
    let stdout = String::from_utf8_lossy(&output.stdout);
    println!("{engine:?}, {SEED_VARIABLE}={seed}\n{stdout}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A run without test cases would also succeed.
    assert!(stdout.contains("Test cases:") && !stdout.contains("Tested: 0"), "no test case was run");
    assert_eq!(served.get("/healthz").status, 200);
    let errors: Vec<_> = served.process.lines().into_iter().filter(|line| line.level == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
