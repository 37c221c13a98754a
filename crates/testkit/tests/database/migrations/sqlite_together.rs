//! Tests that concurrent migrations of one file are applied by exactly one process.

use posthaste_store::sqlite::{MIGRATIONS, SqliteOptions, SqliteStore, migrate};

#[test]
fn one_file_is_migrated_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deeper").join("posthaste.db");
    let applied: usize = std::thread::scope(|scope| {
        let migrators: Vec<_> =
            (0..6).map(|_| scope.spawn(|| migrate(&path).expect("the migration").len())).collect();
        migrators.into_iter().map(|migrator| migrator.join().expect("a result")).sum()
    });
    assert_eq!(applied, MIGRATIONS.len());
    SqliteStore::open(&SqliteOptions::new(&path)).expect("a database that can be served");
}
