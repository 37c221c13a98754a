//! Checks that every setting, metric, command and flag mentioned in the documents exists.

use crate::{metrics, tools};
use posthaste_testkit::commands::run;
use serde_json::Value;
use std::collections::BTreeSet;

const PAGES: [&str; 22] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/api.md",
    "docs/concepts.md",
    "docs/configuration.md",
    "docs/credentials.md",
    "docs/failover.md",
    "docs/migrating.md",
    "docs/operations.md",
    "docs/orders.md",
    "docs/poolers.md",
    "docs/postgresql.md",
    "docs/quickstart.md",
    "docs/receivers.md",
    "docs/requests.md",
    "docs/retries.md",
    "docs/runbook.md",
    "docs/scaling.md",
    "docs/upgrading.md",
    "deploy/alerts.yml",
    "deploy/posthaste.service",
];

/// Variables that are not server settings: they are used by client commands, tests and scripts.
const OTHER_VARIABLES: [&str; 9] = [
    "POSTHASTE_BLESS",
    "POSTHASTE_CONFIG",
    "POSTHASTE_CONTEXT",
    "POSTHASTE_IMPORT_TOKEN",
    "POSTHASTE_IMPORT_TOKEN_FILE",
    "POSTHASTE_KEY",
    "POSTHASTE_KEY_FILE",
    "POSTHASTE_SEED",
    "POSTHASTE_URL",
];

fn page(name: &str) -> String {
    std::fs::read_to_string(tools::repository(name)).unwrap_or_else(|_| panic!("no {name}"))
}

/// Returns the words in `text` that start with one of `prefixes`, except those that end with an underscore.
fn words(text: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let ours = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    // A word that ends with an underscore is a prefix of several names.
    ours.filter(|word| !word.ends_with('_')).map(str::to_owned).collect()
}

#[test]
fn every_mentioned_setting_exists() {
    let shown: Value =
        serde_json::from_str(&run(&["config", "--json"], &[], "").expect(0).stdout).expect("JSON");
    let settings = words(&shown.to_string(), &["POSTHASTE_", "OUTBOX_"]);
    assert!(settings.len() > 40, "{settings:?}");
    for name in PAGES {
        let mentioned = words(&page(name), &["POSTHASTE_", "OUTBOX_"]);
        let unknown: Vec<&String> = mentioned
            .iter()
            .filter(|word| !settings.contains(*word) && !OTHER_VARIABLES.contains(&word.as_str()))
            .filter(|word| !word.starts_with("POSTHASTE_TEST_"))
            .collect();
        assert!(unknown.is_empty(), "{name} mentions {unknown:?}, which are not settings");
    }
}

#[test]
fn every_mentioned_metric_exists() {
    let known = metrics::known();
    // Tables and database roles have the same prefixes.
    let others = ["outbox_lane", "outbox_orders", "outbox_worker", "outbox_writer", "posthaste_owner"];
    for name in ["docs/runbook.md", "docs/operations.md", "deploy/alerts.yml"] {
        for word in words(&page(name), &["posthaste_", "outbox_"]) {
            let metric = word.trim_end_matches("_bucket").trim_end_matches("_count");
            let is_known = [word.as_str(), metric].iter().any(|name| known.contains(name));
            assert!(
                is_known || others.contains(&word.as_str()),
                "{name} mentions {word}, which is not a metric"
            );
        }
    }
}

/// Returns the code in a page: the lines of its code blocks, and its code spans, each as one line.
fn code(page: &str) -> Vec<String> {
    let mut code = Vec::new();
    for (place, part) in page.split("```").enumerate() {
        if place % 2 == 1 {
            code.extend(part.lines().map(str::to_owned));
        } else {
            code.extend(part.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")));
        }
    }
    code
}

#[test]
fn every_mentioned_command_exists() {
    let mut tried = 0;
    for name in PAGES {
        for line in code(&page(name)) {
            // Environment variables may precede a command, and a comment may follow it.
            let line = line.split(" #").next().unwrap_or_default();
            let mut words = line.split_whitespace().skip_while(|word| word.contains('='));
            if words.next() != Some("posthaste") {
                continue;
            }
            let words: Vec<&str> = words.collect();
            let is_verb = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let verbs = words.iter().take_while(|word| is_verb(word) && !word.starts_with('-'));
            let verbs: Vec<&str> = verbs.take(2).copied().collect();
            // The second word may be an argument, such as the name of a shell.
            let helped = [&verbs[..], &verbs[..verbs.len().min(1)]]
                .into_iter()
                .map(|verbs| run(&[verbs, &["--help"]].concat(), &[], ""));
            let helped = helped.map(|ran| ran.stdout).find(|text| text.contains("Usage: posthaste "));
            let help =
                helped.unwrap_or_else(|| panic!("{name}: there is no `posthaste {}`", verbs.join(" ")));
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{name}: `{line}`: there is no {flag}");
            }
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried} commands were found");
}
