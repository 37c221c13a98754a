//! Checks the documents that are generated from the code. `POSTHASTE_BLESS=1` rewrites them.
#![allow(clippy::expect_used)]

use posthaste_api::problem::ProblemKind;
use posthaste_core::Timestamp;
use posthaste_core::job::JobStatus;
use posthaste_core::order::OrderStatus;
use posthaste_core::outcome::Failure;
use posthaste_core::retry::{OrderRetryPolicy, RetryPolicy};
use posthaste_core::saga::SagaStatus;
use posthaste_core::signature::{SigningSecret, verify};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

struct Machine {
    title: &'static str,
    about: &'static str,
    states: Vec<&'static str>,
    ends: Vec<&'static str>,
    transitions: Vec<(&'static str, &'static str)>,
}

macro_rules! machine {
    ($status:ident, $title:literal, $about:literal) => {
        Machine {
            title: $title,
            about: $about,
            states: $status::ALL.map($status::as_str).to_vec(),
            ends: $status::ALL.into_iter().filter(|state| state.is_terminal()).map($status::as_str).collect(),
            transitions: $status::ALL
                .into_iter()
                .flat_map(|from| $status::ALL.map(|to| (from, to)))
                .filter(|(from, to)| from != to && from.may_become(*to))
                .map(|(from, to)| (from.as_str(), to.as_str()))
                .collect(),
        }
    };
}

fn state_machines() -> String {
    let mut text = String::from(
        "# State machines\n\n\
         Generated from `may_become` in `crates/core`. Triggers in the database refuse every other transition, for\n\
         every role. An update that does not change the state is allowed unless the state is final: a row in a final\n\
         state is never updated.\n",
    );
    let machines = [
        machine!(SagaStatus, "A delivery", "One event to one subscription; decided by `saga::step`."),
        machine!(
            JobStatus,
            "A job",
            "One attempt of a delivery; `job::expire` decides about a lease that expired."
        ),
        machine!(OrderStatus, "An order", "One order to the broker; decided by `order::step`."),
    ];
    for machine in machines {
        let _ = write!(text, "\n## {}\n\n{}\n\n```mermaid\nstateDiagram-v2\n", machine.title, machine.about);
        let _ = writeln!(text, "    [*] --> {}", machine.states[0]);
        for (from, to) in machine.transitions {
            let _ = writeln!(text, "    {from} --> {to}");
        }
        for end in machine.ends {
            let _ = writeln!(text, "    {end} --> [*]");
        }
        text.push_str("```\n");
    }
    text
}

/// Checks that the document `name` equals the text that the code generates.
fn check(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("POSTHASTE_BLESS").is_some() {
        std::fs::write(&path, made).expect("the document");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/{name} is not what the code makes: run this test with POSTHASTE_BLESS=1 and look at the diff"
    );
}

#[test]
fn the_state_machines_are_documented() {
    check("state-machine.md", &state_machines());
}

#[test]
fn the_api_is_described() {
    check("openapi.json", &(posthaste_api::document().expect("a document") + "\n"));
}

#[test]
fn every_error_code_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/error-codes.md");
    let page = std::fs::read_to_string(path).expect("docs/error-codes.md");
    for failure in Failure::ALL {
        let is_status = matches!(failure, Failure::Http(_));
        let code = if is_status { "HTTP_<status>".to_owned() } else { failure.code().to_string() };
        assert!(page.contains(&format!("| `{code}` |")), "docs/error-codes.md has no row for {code}");
    }
}

#[test]
fn every_kind_of_problem_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/error-codes.md");
    let page = std::fs::read_to_string(path).expect("docs/error-codes.md");
    for kind in ProblemKind::ALL {
        let (name, status, title, meaning) =
            (kind.name(), kind.status(), kind.title(), kind.meaning().trim());
        let row = format!("| `{name}` | {status} | {title} | {meaning} |");
        assert!(page.contains(&row), "docs/error-codes.md has no row {row}");
    }
}

/// Checks that the heads of SQL files cite only planner techniques from the table in `README.md`.
#[test]
fn planner_techniques_are_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src/postgres/sql");
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("the techniques");
    let names: Vec<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).collect();
    let mut cited = 0;
    for role in std::fs::read_dir(&folder).expect("the folders").map(|entry| entry.expect("a folder").path())
    {
        for file in role.read_dir().into_iter().flatten().map(|entry| entry.expect("a file").path()) {
            let text = std::fs::read_to_string(&file).expect("a statement");
            for name in text.lines().filter_map(|line| line.strip_prefix("-- planner: ")).flat_map(techniques)
            {
                assert!(names.contains(&name), "{}: {name:?} is not in README.md", file.display());
                cited += 1;
            }
        }
    }
    assert!(cited > 20, "{cited}");
}

/// Returns the names of the planner techniques in the first sentence of `line`.
fn techniques(line: &str) -> Vec<&str> {
    let sentence = line.split(". ").next().unwrap_or(line).trim_end_matches('.');
    sentence.split(", ").filter(|name| !name.starts_with("as ")).collect()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Checks that the section of a document between `<!-- generated: NAME -->` and `<!-- end -->` equals the generated
/// text.
fn check_section(document: &str, name: &str, generated: &str) {
    let path = docs().join(document);
    let text = std::fs::read_to_string(&path).expect("the document");
    let (start, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end -->");
    let (before, rest) = text.split_once(&start).unwrap_or_else(|| panic!("docs/{document} has no {start}"));
    let (section, after) = rest.split_once(end).expect("an end");
    // Another test may read the document at the same time, so it is only written if it changes.
    if std::env::var_os("POSTHASTE_BLESS").is_some() && section != generated {
        std::fs::write(&path, [before, &start, generated, end, after].concat()).expect("the document");
    } else {
        assert_eq!(
            section, generated,
            "docs/{document}: run this test with POSTHASTE_BLESS=1 and read the diff"
        );
    }
}

/// Formats a duration in hours, minutes and seconds, such as `7 min 30 s`.
fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

#[test]
fn webhook_schedule_is_documented() {
    let policy = RetryPolicy::WEBHOOK;
    let mut table = String::from(
        "| attempt | delay before it | since the first attempt | |\n| --- | --- | --- | --- |\n",
    );
    let mut elapsed = Duration::ZERO;
    for attempt in 1..=10 {
        let delay = if attempt == 1 { Duration::ZERO } else { policy.backoff(attempt - 1) };
        elapsed += delay;
        let note = if attempt == policy.attempts_max { "the last by default" } else { "" };
        let _ = writeln!(table, "| {attempt} | {} | {} | {note} |", duration(delay), duration(elapsed));
    }
    check_section("retries.md", "webhook schedule", &table.replace("|  |", "| |"));
}

#[test]
fn order_schedule_is_documented() {
    let policy = OrderRetryPolicy::ORDER;
    let mut table =
        String::from("| retry | delay before it, ±10 % | since the first send |\n| --- | --- | --- |\n");
    let mut elapsed = Duration::ZERO;
    for retry in 1..=policy.retries_max {
        let nominal = policy.base * 2_u32.pow(retry - 1);
        let delay = policy.backoff("key", retry);
        assert!((nominal * 9 / 10..=nominal * 11 / 10).contains(&delay), "{retry}: {delay:?}");
        elapsed += nominal;
        let _ = writeln!(table, "| {retry} | {} | {} |", duration(nominal), duration(elapsed));
    }
    check_section("orders.md", "order schedule", &table);
}

/// Checks that the sample request in `docs/receivers.md` is signed with the secret shown below it.
#[test]
fn sample_request_is_signed() {
    let page = std::fs::read_to_string(docs().join("receivers.md")).expect("the guide");
    let request =
        page.split_once("```http\n").and_then(|(_, rest)| rest.split_once("\n```")).expect("a request").0;
    let (head, body) = request.split_once("\n\n").expect("a body");
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no {name}")).1
    };
    let secret = page.split_once("`whsec_M").expect("the secret").1.split('`').next().expect("its end");
    let secret = SigningSecret::parse(&format!("whsec_M{secret}")).expect("a secret");
    let timestamp_s: i64 = header("webhook-timestamp").parse().expect("a timestamp");
    let (id, signatures) = (header("webhook-id"), header("webhook-signature"));
    let now = Timestamp::from_micros(timestamp_s * 1_000_000);
    assert_eq!(verify(&[&secret], id, timestamp_s, body.as_bytes(), signatures, Duration::ZERO, now), Ok(()));
}

/// Returns the anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char))
        .collect::<String>()
        .replace(' ', "-")
}

/// Checks that the links in the guides to files and headings of this repository resolve.
#[test]
fn links_of_the_guides_lead_somewhere() {
    let guides = ["api", "concepts", "orders", "quickstart", "receivers", "retries", "scaling"];
    let mut checked = 0;
    for guide in guides.map(|name| format!("{name}.md")) {
        let text = std::fs::read_to_string(docs().join(&guide)).expect("a guide");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = docs().join(if file.is_empty() { guide.as_str() } else { file });
            assert!(path.is_file(), "{guide}: there is no {file}");
            let page = if heading.is_empty() {
                String::new()
            } else {
                std::fs::read_to_string(&path).expect("a page")
            };
            let mut headings = page.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
            assert!(
                heading.is_empty() || headings.any(|found| anchor(found) == heading),
                "{guide}: {target}"
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} links were found");
}
