//! Loads the statements of a store from the files `sql/<role>/<verb>.sql` in its source folder.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders with statements that process events and orders. The other folders (migrate, presence, subscriptions) use
/// small tables or run rarely.
const ROLES: [&str; 11] = [
    "ingest",
    "router",
    "orchestrator",
    "worker",
    "cleaner",
    "outbox_intake",
    "outbox_worker",
    "dead_letter",
    "key",
    "reader",
    "insight",
];

#[derive(Debug)]
pub(crate) struct SqlFile {
    /// The name of the statement, as `<role>/<verb>`.
    pub(crate) name: String,
    pub(crate) text: String,
}

pub(crate) fn folder(engine: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src").join(engine).join("sql")
}

/// Returns the text of the statement with this name.
pub(crate) fn load(engine: &str, name: &str) -> String {
    let file = folder(engine).join(name).with_extension("sql");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    posthaste_store::columns::expand(&text)
}

/// Returns all statements of an engine, sorted by name.
pub(crate) fn all(engine: &str) -> Vec<SqlFile> {
    let mut files = Vec::new();
    for role in ROLES {
        let entries = fs::read_dir(folder(engine).join(role))
            .unwrap_or_else(|error| panic!("the folder {role} of {engine}: {error}"));
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "sql") {
                let verb = path.file_stem().expect("a name").to_string_lossy();
                let name = format!("{role}/{verb}");
                files.push(SqlFile { text: load(engine, &name), name });
            }
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!files.is_empty(), "no statements of {engine}");
    files
}
