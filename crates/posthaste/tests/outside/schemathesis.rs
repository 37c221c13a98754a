//! schemathesis knows the API by its own description alone, and tries what that allows and what it forbids:
//! no call may break, answer what is not described, or take what the description refuses.

use crate::served::{Engine, ROOT_KEY, Served};
use crate::{tools, world};
use posthaste_testkit::broker::TestBroker;
use posthaste_testkit::broker::behaviour::Behaviour;
use posthaste_testkit::receiver::Receiver;

/// Tries of each call and phase; a run takes ten to thirty seconds.
const EXAMPLES_MAX: &str = "20";
const SEED_VARIABLE: &str = "POSTHASTE_SEED";

/// Why this is left out: a schema cannot say every rule (a URL that our policy lets through, a name without
/// control characters), so some of what it allows is refused, with 422 and the field's name.
const LEFT_OUT: &str = "positive_data_acceptance";

/// The same in every run, unless somebody wants another.
fn seed() -> String {
    std::env::var(SEED_VARIABLE).unwrap_or_else(|_| "1".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_what_its_description_says_on_sqlite() {
    check(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_is_what_its_description_says_on_postgres() {
    check(Engine::Postgres).await;
}

async fn check(engine: Engine) {
    let (broker, seed) = (TestBroker::start(Behaviour::Well).await, seed());
    let url = broker.url();
    let settings = [("POSTHASTE_REQUEST_TIMEOUT", "1s"), ("POSTHASTE_BROKER_URL", &url)];
    let served = Served::start(engine, &settings).await;
    let receiver = Receiver::start(world::answer).await;
    world::deliver_and_give_up(&served, &receiver);
    let folder = tempfile::tempdir().expect("a folder");
    let document = format!("{}/openapi.json", served.url());
    let key = format!("Authorization: Bearer {ROOT_KEY}");
    let output = tools::python()
        .args(["-m", "schemathesis.cli", "run", &document, "--header", &key, "--seed", &seed])
        .args(["--checks", "all", "--exclude-checks", LEFT_OUT, "--max-examples", EXAMPLES_MAX])
        // One worker: with several, the parser of Python 3.11 breaks now and then, and cases come in any order.
        .args(["--workers", "1", "--request-timeout", "60", "--no-color"])
        .current_dir(&folder)
        .output()
        .expect("schemathesis");
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{engine:?}, {SEED_VARIABLE}={seed}\n{told}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A run that found nothing to try would have passed too.
    assert!(told.contains("Test cases:") && !told.contains("Tested: 0"), "nothing was tried");
    assert_eq!(served.get("/healthz").status, 200);
    let errors: Vec<_> = served.process.lines().into_iter().filter(|line| line.level == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
