//! Connects with libpq, for comparison. `libpq.py` runs in the Python of `scripts/with-tools`, with an empty home.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Returns, for each URL, `tls`, `plain`, or `refused` with the error.
pub(crate) fn outcomes(urls: &[String]) -> Vec<String> {
    let python = std::env::var("POSTHASTE_TEST_PYTHON").unwrap_or_else(|_| {
        panic!("POSTHASTE_TEST_PYTHON is not set: run the tests with `make test`, or with scripts/with-tools")
    });
    let home = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/connect/libpq.py"))
        .env("HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("to start Python");
    child.stdin.take().expect("its input").write_all(urls.join("\n").as_bytes()).expect("to write the URLs");
    let output = child.wait_with_output().expect("the outcomes");
    assert!(output.status.success(), "{}", output.status);
    let lines: Vec<String> =
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), urls.len());
    lines
}
