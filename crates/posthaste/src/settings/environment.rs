//! Reads settings from environment variables. An unknown variable with one of the prefixes is an error, because a
//! misspelled setting would otherwise be silently ignored.

use super::problem::Problem;
use super::source::{Entry, Given, Source};
use super::table::find_variable;
use std::ffi::OsString;
use std::path::PathBuf;

const PREFIXES: [&str; 2] = ["POSTHASTE_", "OUTBOX_"];

/// The variable with the path of the settings file. It is not a setting, because the file cannot contain its own path.
const CONFIG: &str = "POSTHASTE_CONFIG";

/// Variables that are not server settings: they are used by client commands and tests.
const OTHERS: [&str; 9] = [
    "POSTHASTE_SEED",
    "POSTHASTE_BLESS",
    "POSTHASTE_URL",
    "POSTHASTE_KEY",
    "POSTHASTE_KEY_FILE",
    "POSTHASTE_IMPORT_TOKEN",
    "POSTHASTE_IMPORT_TOKEN_FILE",
    "POSTHASTE_CONTEXT",
    "POSTHASTE_BENCH_DATABASE_URL",
];
const TEST_PREFIX: &str = "POSTHASTE_TEST_";

pub(super) struct Found {
    pub(super) config: Option<PathBuf>,
    pub(super) entries: Vec<Entry>,
}

pub(super) fn read(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    problems: &mut Vec<Problem>,
) -> Found {
    let mut found = Found { config: None, entries: Vec::new() };
    let mut unknown = Vec::new();
    for (name, value) in environment {
        // All known names are ASCII.
        let Some(name) = name.to_str() else { continue };
        if name == CONFIG {
            found.config = Some(value).filter(|value| !value.is_empty()).map(PathBuf::from);
            continue;
        }
        let Some((row, form)) = find_variable(name) else {
            if has_our_prefix(name) && !is_service_link(name, &value.to_string_lossy()) {
                unknown.push(Problem::unknown_variable(name));
            }
            continue;
        };
        match value.into_string() {
            Ok(text) => {
                found.entries.push(Entry { row, form, given: Given { text, source: Source::Environment } });
            }
            Err(_) => problems.push(not_utf8(name)),
        }
    }
    // Sort the problems, because the environment is unordered.
    unknown.sort_by_key(ToString::to_string);
    problems.extend(unknown);
    found
}

fn has_our_prefix(name: &str) -> bool {
    let has_prefix = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    has_prefix && !OTHERS.contains(&name) && !name.starts_with(TEST_PREFIX)
}

/// Returns whether the variable was set by Kubernetes, which adds the addresses of services to the environment of every
/// container by default. The variables of services named `posthaste` or `outbox` have our prefixes.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_address = value.starts_with("tcp://") || value.starts_with("udp://");
    let has_protocol = ["_TCP", "_UDP"].iter().any(|protocol| name.contains(protocol));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_address)
        || (name.contains("_PORT_") && has_protocol)
}

fn not_utf8(name: &str) -> Problem {
    Problem::Invalid { spelled: name.to_owned(), expected: "text in UTF-8".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused() {
        for (name, value, refused) in [
            ("PATH", "/bin", false),
            ("POSTHASTE_LEASE", "60s", false),
            ("POSTHASTE_LEAS", "60s", true),
            ("OUTBOX_BATCH", "1", true),
            ("posthaste_leas", "60s", false),
            ("POSTHASTE_CONFIG", "a.toml", false),
            ("POSTHASTE_TEST_POSTGRES", "x", false),
            ("POSTHASTE_SEED", "1", false),
            ("POSTHASTE_BLESS", "1", false),
            ("POSTHASTE_URL", "http://h", false),
            ("POSTHASTE_KEY", "k", false),
            ("POSTHASTE_KEY_FILE", "k", false),
            ("POSTHASTE_IMPORT_TOKEN", "t", false),
            ("POSTHASTE_ROOT_KEY_FILE", "k", false),
            ("POSTHASTE_LEASE_FILE", "k", true),
            ("POSTHASTE_CONTEXT", "prod", false),
            ("POSTHASTE_SERVICE_HOST", "10.0.0.1", false),
            ("POSTHASTE_SERVICE_PORT_HTTP", "8080", false),
            ("POSTHASTE_PORT", "tcp://10.0.0.1:8080", false),
            ("POSTHASTE_PORT", "8080", true),
            ("POSTHASTE_PORT_8080_TCP_ADDR", "10.0.0.1", false),
        ] {
            let mut problems = Vec::new();
            read([(OsString::from(name), OsString::from(value))], &mut problems);
            assert_eq!(!problems.is_empty(), refused, "{name}={value}: {problems:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn values_must_be_utf_8() {
        use std::os::unix::ffi::OsStringExt as _;
        let mut problems = Vec::new();
        read([(OsString::from("POSTHASTE_LOG"), OsString::from_vec(vec![0xff]))], &mut problems);
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(messages, ["POSTHASTE_LOG: expected text in UTF-8"]);
    }
}
