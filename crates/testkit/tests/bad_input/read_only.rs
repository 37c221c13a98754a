//! Tests a database file or folder without write permission: the error names the file, and the file is unchanged.
//! Permissions do not apply to root, so a test that runs as root runs itself again as `nobody`.

use posthaste_core::ports::{StoreError, StoreResult};
use posthaste_store::sqlite::{self, SqliteOptions, SqliteStore};
use posthaste_testkit::direct::Direct;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that holds the folder for the child process. It is not set in the parent process.
const FOLDER_VARIABLE: &str = "POSTHASTE_TEST_READ_ONLY_FOLDER";
const NOBODY: u32 = 65_534;

#[test]
fn a_read_only_database_is_refused_by_name_and_unchanged() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        check(Path::new(&folder));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    if is_bound_by_permissions(folder.path()) {
        check(folder.path());
    } else {
        as_nobody(folder.path());
    }
}

/// Returns whether file permissions apply to this user, by trying to write to a read-only file.
fn is_bound_by_permissions(folder: &Path) -> bool {
    let file = folder.join("unwritable");
    fs::write(&file, "").expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o444)).expect("permissions");
    fs::write(&file, "x").is_err()
}

fn as_nobody(folder: &Path) {
    let program = folder.join("test");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("an executable copy");
    let room = folder.join("room");
    fs::create_dir(&room).expect("a folder");
    for path in [folder, &room] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("to change the owner");
    }
    let name = "read_only::a_read_only_database_is_refused_by_name_and_unchanged";
    let output = Command::new(&program)
        .args(["--exact", name, "--nocapture"])
        .env(FOLDER_VARIABLE, &room)
        .env("TMPDIR", &room)
        .current_dir(&room)
        .gid(NOBODY)
        .uid(NOBODY)
        .output()
        .expect("to run as nobody");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}{complaint}");
}

fn check(folder: &Path) {
    check_case(folder, "file", |database| vec![(database.to_owned(), 0o444)]);
    check_case(folder, "folder", |database| vec![(database.parent().expect("a folder").to_owned(), 0o555)]);
    check_case(folder, "both", |database| {
        vec![(database.to_owned(), 0o444), (database.parent().expect("a folder").to_owned(), 0o555)]
    });
    check_case(folder, "hidden", |database| vec![(database.to_owned(), 0o000)]);
    check_nothing_can_be_made(folder);
}

/// Removes permissions from a working database, checks that it is refused, and restores the permissions.
fn check_case(folder: &Path, case: &str, take: impl Fn(&Path) -> Vec<(PathBuf, u32)>) {
    let database = folder.join(case).join("posthaste.db");
    sqlite::migrate(&database).expect("the migration");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let direct = Direct::sqlite(&database);
    let before = runtime.block_on(direct.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"));
    let bytes = fs::read(&database).expect("the file");
    let taken: Vec<_> = take(&database)
        .into_iter()
        .map(|(path, mode)| {
            let old = fs::metadata(&path).expect("the file").permissions();
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("permissions");
            (path, old)
        })
        .collect();
    refused(case, &database, SqliteStore::open(&SqliteOptions::new(&database)));
    refused(case, &database, sqlite::migrate(&database));
    for (path, old) in taken.into_iter().rev() {
        fs::set_permissions(path, old).expect("permissions");
    }
    assert!(fs::read(&database).expect("the file") == bytes, "{case}: the file was changed");
    assert_eq!(runtime.block_on(direct.texts("PRAGMA integrity_check")), ["ok"], "{case}");
    let after = runtime.block_on(direct.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"));
    assert_eq!(after, before, "{case}");
    drop(SqliteStore::open(&SqliteOptions::new(&database)).expect("a database that works again"));
}

/// Checks that no database is created in a read-only folder.
fn check_nothing_can_be_made(folder: &Path) {
    let closed = folder.join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).expect("permissions");
    for database in [closed.join("posthaste.db"), closed.join("deeper").join("posthaste.db")] {
        refused("closed", &database, sqlite::migrate(&database));
    }
    assert_eq!(fs::read_dir(&closed).expect("the folder").count(), 0);
}

fn refused<T>(case: &str, database: &Path, outcome: StoreResult<T>) {
    match outcome {
        Err(StoreError::Unusable { what }) => {
            assert!(
                what.contains(database.to_str().expect("a UTF-8 path")),
                "{case}: {what:?} does not name the file"
            );
        }
        Err(error) => panic!("{case}: {error:?}"),
        Ok(_) => panic!("{case}: it was opened for writing"),
    }
}
