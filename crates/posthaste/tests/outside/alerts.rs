//! Checks the alert rules under `deploy/`: promtool accepts them, and each alert is tested both firing and not firing,
//! uses existing metrics, and has a section in the runbook.

use crate::served::{Engine, Served};
use crate::tools;
use crate::world;
use posthaste_services::doctor::SERVER_CHECKS;
use posthaste_testkit::receiver::Receiver;
use serde_json::Value;
use std::collections::BTreeSet;

fn text(file: &str) -> String {
    std::fs::read_to_string(tools::repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn yaml(file: &str) -> Value {
    let program = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let output = tools::python().args(["-c", program]).arg(tools::repository(file)).output().expect("Python");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{file}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn rules() -> Vec<Value> {
    let groups = yaml("deploy/alerts.yml")["groups"].as_array().cloned().unwrap_or_default();
    groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
}

fn name(rule: &Value) -> &str {
    rule["alert"].as_str().expect("an alert")
}

fn promtool(arguments: &[&str], file: &str) {
    let output = tools::promtool().args(arguments).arg(tools::repository(file)).output().expect("promtool");
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", lossy(&output.stdout), lossy(&output.stderr));
}

#[test]
fn promtool_accepts_the_rules() {
    promtool(&["check", "rules"], "deploy/alerts.yml");
}

#[test]
fn each_alert_is_tested_firing_and_not_firing() {
    promtool(&["test", "rules"], "deploy/alerts.test.yml");
    let tests = yaml("deploy/alerts.test.yml")["tests"].as_array().cloned().expect("tests");
    for rule in rules() {
        let selector = format!("alertname=\"{}\"", name(&rule));
        let samples: Vec<usize> = tests
            .iter()
            .flat_map(|test| test["promql_expr_test"].as_array().cloned().unwrap_or_default())
            .filter(|check| check["expr"].as_str().is_some_and(|expr| expr.contains(&selector)))
            .map(|check| check["exp_samples"].as_array().map_or(0, Vec::len))
            .collect();
        assert!(
            samples.contains(&0) && samples.contains(&1),
            "{selector} needs a test that fires and one that does not: {samples:?}"
        );
    }
}

#[test]
fn each_alert_has_a_section_in_the_runbook() {
    let runbook = text("docs/runbook.md");
    let (mut alerts, headings) =
        (BTreeSet::new(), runbook.lines().filter_map(|line| line.strip_prefix("## ")));
    for rule in rules() {
        let (alert, annotations) = (name(&rule), &rule["annotations"]);
        for field in ["summary", "description"] {
            assert!(annotations[field].as_str().is_some_and(|text| text.len() > 10), "{alert}: no {field}");
        }
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("page" | "ticket")), "{alert}");
        let anchor = format!("docs/runbook.md#{}", alert.to_lowercase());
        assert_eq!(annotations["runbook"].as_str(), Some(anchor.as_str()), "{alert}");
        alerts.insert(alert.to_owned());
    }
    assert_eq!(headings.map(str::to_owned).collect::<BTreeSet<_>>(), alerts);
    for section in runbook.split("\n## ").skip(1) {
        for part in ["**Meaning**", "**Impact**", "**Diagnosis**", "**Action**", "**Resolved when**"] {
            assert!(
                section.contains(part),
                "{part} is missing in {}",
                section.lines().next().unwrap_or_default()
            );
        }
    }
}

#[test]
fn each_check_of_the_database_server_has_a_section_in_the_runbook() {
    let runbook = text("docs/runbook.md");
    let headings: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(headings, SERVER_CHECKS);
    for section in runbook.split("\n### ").skip(1) {
        for part in ["**Meaning**", "**Action**"] {
            assert!(section.contains(part), "{part} in {section}");
        }
    }
}

/// Returns the names of Posthaste metrics in a PromQL expression, without the suffixes of histogram series.
fn metrics_of(expression: &str) -> BTreeSet<String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = expression.split(|char| !is_part(char));
    let ours = words.filter(|word| word.starts_with("posthaste_") || word.starts_with("outbox_"));
    ours.map(|name| name.trim_end_matches("_bucket").trim_end_matches("_count").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_use_existing_metrics() {
    let (served, receiver) =
        (Served::start(Engine::Postgres, &[]).await, Receiver::start(world::answer).await);
    world::deliver_and_dead_letter(&served, &receiver);
    let metrics = served.get("/metrics").expect(200).text();
    let families: BTreeSet<&str> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let used: BTreeSet<String> =
        rules().iter().flat_map(|rule| metrics_of(rule["expr"].as_str().expect("an expression"))).collect();
    assert!(!used.is_empty());
    for name in &used {
        assert!(families.contains(name.as_str()), "a rule uses {name}, which is not in /metrics");
    }
}
