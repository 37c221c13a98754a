//! Documents that are made from the code are what the code says. `POSTHASTE_BLESS=1` rewrites them.
#![allow(clippy::expect_used)]

use posthaste_core::job::JobStatus;
use posthaste_core::order::OrderStatus;
use posthaste_core::outcome::Failure;
use posthaste_core::saga::SagaStatus;
use std::fmt::Write as _;
use std::path::Path;

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
         Made from `may_become` in `crates/core`; a test keeps the two equal. The databases refuse every other\n\
         transition by trigger, whoever asks. An update that leaves the state as it is passes, unless the state is\n\
         an end: then nothing about the row ever changes again.\n",
    );
    let machines = [
        machine!(SagaStatus, "A delivery", "One event to one subscription; decided by `saga::step`."),
        machine!(
            JobStatus,
            "A job",
            "One attempt of a delivery; a lease that ran out is decided by `job::expire`."
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

/// Compares a document with what the code makes of it.
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

/// The head of a SQL file cites planner techniques by their names in the table of `README.md`.
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

/// The names in the first sentence of a line.
fn techniques(line: &str) -> Vec<&str> {
    let sentence = line.split(". ").next().unwrap_or(line).trim_end_matches('.');
    sentence.split(", ").filter(|name| !name.starts_with("as ")).collect()
}
