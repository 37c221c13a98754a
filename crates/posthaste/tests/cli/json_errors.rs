//! Checks that with `--json`, every error is one line of problem details (RFC 9457) on stderr.

use crate::folder;
use posthaste_testkit::commands::{Dev, Ran, run};
use serde_json::Value;

/// Checks that nothing was printed to stdout, and returns the problem details from stderr.
fn problem(ran: &Ran) -> Value {
    assert!(ran.stdout.is_empty() && ran.stderr.lines().count() == 1, "{ran:?}");
    let problem: Value = serde_json::from_str(&ran.stderr).expect("JSON");
    assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
    problem
}

#[test]
fn problem_of_the_server_is_printed_as_it_came() {
    let folder = folder();
    let dev = Dev::start(&folder);
    for (arguments, code, status, detail) in [
        (&["event", "show", "99", "--json"][..], 4, 404, "event"),
        (&["--json", "event", "list", "--key", "not-a-key"], 1, 401, "key"),
        (&["event", "--json", "list", "--limit", "201"], 1, 422, "limit"),
        (&["-j", "subscription", "create", "a.b", "ftp://h"], 1, 422, "https"),
    ] {
        let problem = problem(&dev.run(arguments).expect(code));
        assert_eq!(problem["status"], status, "{arguments:?}: {problem}");
        let found = problem["detail"].as_str().unwrap_or_default();
        assert!(found.contains(detail), "{arguments:?}: {problem}");
    }
}

#[test]
fn other_errors_are_problems_of_the_client() {
    for (arguments, environment, code, kind, detail) in [
        (
            &["event", "list", "--json"][..],
            &[("POSTHASTE_URL", "http://127.0.0.1:1")][..],
            3,
            "server-unreachable",
            "http://127.0.0.1:1",
        ),
        (&["event", "list", "--json", "--url", "ftp://h"], &[], 2, "invalid-usage", "http://"),
        (&["event", "show", "x", "--json"], &[], 2, "invalid-usage", "invalid value 'x'"),
        (&["--json", "event"], &[], 2, "invalid-usage", "subcommand"),
        (&["--json", "--url", "http://h", "serve"], &[], 2, "invalid-usage", "--url does not apply"),
        (&["event", "send", "a", "--payload", "{", "-j"], &[], 2, "invalid-usage", "the payload"),
        (&["event", "list", "--json", "--context", "prod"], &[], 2, "invalid-usage", "prod"),
        (&["event", "send", "a", "--file", "/missing", "--json"], &[], 1, "command-failed", "/missing"),
        (
            &["config", "--json"],
            &[("POSTHASTE_LEASE", "soon")],
            1,
            "invalid-settings",
            "POSTHASTE_LEASE=soon",
        ),
        (&["serve", "--json", "--roles", "none"], &[], 1, "invalid-settings", "--roles none"),
        (
            &["migrate", "-j"],
            &[("POSTHASTE_DATABASE_URL", "sqlite:///dev/null/x.db")],
            1,
            "command-failed",
            "/dev/null",
        ),
    ] {
        let problem = problem(&run(arguments, environment, "").expect(code));
        assert_eq!(problem["type"], format!("tag:posthaste,2026:problem/{kind}"), "{arguments:?}: {problem}");
        let found = problem["detail"].as_str().unwrap_or_default();
        assert!(found.contains(detail), "{arguments:?}: {problem}");
    }
}
