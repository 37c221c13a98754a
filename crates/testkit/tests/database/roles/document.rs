//! Tests that `docs/roles.md` matches the grants.

use posthaste_store::grants::roles_markdown;
use std::path::Path;

#[test]
fn the_roles_document_matches_the_grants() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/roles.md");
    if std::env::var_os("POSTHASTE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder of documents");
        std::fs::write(&path, roles_markdown()).expect("to write the document");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == roles_markdown(),
        "docs/roles.md does not match crates/store/src/grants.rs; update it with\n    \
         POSTHASTE_BLESS=1 cargo test -p posthaste-testkit --test database document"
    );
}
