//! Compares a dump with the reviewed golden file. On a mismatch, the message explains how to update the file.

use std::path::Path;

pub(crate) fn check(file: &str, dump: &str) {
    let dump = format!("{}\n", dump.trim_end());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/database/schema/golden").join(file);
    if std::env::var_os("POSTHASTE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(&path, &dump).expect("to write the golden file");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let mut differences = Vec::new();
    for line in golden.lines().filter(|line| !dump.lines().any(|other| other == *line)) {
        differences.push(format!("- {line}"));
    }
    for line in dump.lines().filter(|line| !golden.lines().any(|other| other == *line)) {
        differences.push(format!("+ {line}"));
    }
    assert!(
        golden == dump,
        "the schema differs from tests/database/schema/golden/{file}:\n{}\nIf this is intended, update the file and review it:\n    \
         POSTHASTE_BLESS=1 scripts/with-postgres cargo test -p posthaste-testkit --test database",
        differences.join("\n")
    );
}
