//! Tests of the database file: only one process can open it, and a file that cannot be used causes a clear error and
//! stays unchanged.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_core::ports::StoreError;
use tempfile::TempDir;

use super::Fixture;
use crate::migration::Migration;
use crate::sqlite::MIGRATIONS;
use crate::sqlite::SqliteOptions;
use crate::sqlite::SqliteStore;
use crate::sqlite::conn::permissions::exposed_files;
use crate::sqlite::migrate;
use crate::sqlite::migrate_with;

/// Environment variable of a child process: the database to open.
const CHILD: &str = "POSTHASTE_TEST_DATABASE";
/// Environment variable of a child process: the database to create and keep open.
const CREATOR: &str = "POSTHASTE_TEST_NEW_DATABASE";
/// Environment variable of a child process: the lock file to lock.
const LOCKER: &str = "POSTHASTE_TEST_LOCK_FILE";
/// The user id of `nobody`. For root, no file is read-only.
const NOBODY: u32 = 65_534;

fn words(error: StoreError) -> String {
    let StoreError::Unusable { what } = error else { panic!("{error:?}") };
    what
}

fn refusal(path: &Path) -> String {
    words(SqliteStore::open(&SqliteOptions::new(path)).unwrap_err())
}

/// Opens and migrates a database when it runs in a child process; otherwise does nothing.
#[test]
fn child_tries_a_database() {
    if let Some(path) = std::env::var_os(CHILD) {
        let path = PathBuf::from(path);
        match SqliteStore::open(&SqliteOptions::new(&path)) {
            Ok(_) => println!("opened"),
            Err(error) => println!("refused: {}", words(error)),
        }
        match migrate(&path) {
            Ok(_) => println!("migrated"),
            Err(error) => println!("refused: {}", words(error)),
        }
    }
}

/// Runs a child process that opens a database, as `nobody` if `as_nobody` is set, and returns its output.
fn ask_child(path: &Path, folder: &Path, as_nobody: bool) -> String {
    run_child("child_tries_a_database", (CHILD, path), folder, as_nobody)
}

/// Runs a test in a child process with umask 000, and returns its output.
fn run_child(test: &str, (name, value): (&str, &Path), folder: &Path, as_nobody: bool) -> String {
    let program = folder.join("child");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut child = Command::new("/bin/sh");
    child.args(["-c", "umask 000 && exec \"$@\"", "sh"]).arg(program);
    child.args(["--exact", &format!("sqlite::tests::files::{test}"), "--nocapture"]).env(name, value);
    if as_nobody && std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        child.uid(NOBODY).gid(NOBODY);
    }
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a database and prints the modes of its files when it runs in a child process; otherwise does nothing.
#[test]
fn child_creates_a_database() {
    if let Some(path) = std::env::var_os(CREATOR) {
        let path = PathBuf::from(path);
        migrate(&path).unwrap();
        let store = SqliteStore::open(&SqliteOptions::new(&path)).unwrap();
        let folder = path.parent().unwrap();
        println!("mode {:o} of .", std::fs::metadata(folder).unwrap().mode() & 0o777);
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (name, mode) = (entry.file_name(), entry.metadata().unwrap().mode() & 0o777);
            println!("mode {mode:o} of {}", name.to_str().unwrap());
        }
        drop(store);
    }
}

/// Prints whether it can lock a lock file when it runs in a child process; otherwise does nothing.
#[test]
fn child_locks_a_file() {
    if let Some(path) = std::env::var_os(LOCKER) {
        let locked = std::fs::File::open(&path).map(|file| file.try_lock());
        println!("lock attempt: {locked:?}");
    }
}

#[test]
fn new_files_are_private_whatever_the_umask() {
    let (folder, helper) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = folder.path().join("data/posthaste.db");
    let output = run_child("child_creates_a_database", (CREATOR, &path), helper.path(), false);
    let mut modes: Vec<_> =
        output.lines().filter_map(|line| line.split_once("mode ")).map(|(_, mode)| mode).collect();
    modes.sort_unstable();
    let expected = [
        "600 of posthaste.db",
        "600 of posthaste.db-shm",
        "600 of posthaste.db-wal",
        "600 of posthaste.db.lock",
        "700 of .",
    ];
    assert_eq!(modes, expected, "{output}");
}

#[test]
fn other_users_cannot_hold_the_lock_of_an_older_database() {
    let (folder, helper) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    for open in [folder.path(), helper.path()] {
        mode(open, 0o755);
    }
    let path = folder.path().join("posthaste.db");
    migrate(&path).unwrap();
    let lock = folder.path().join("posthaste.db.lock");
    mode(&lock, 0o644);
    drop(SqliteStore::open(&SqliteOptions::new(&path)).unwrap());
    assert_eq!(std::fs::metadata(&lock).unwrap().mode() & 0o777, 0o600);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let output = run_child("child_locks_a_file", (LOCKER, &lock), helper.path(), true);
        assert!(output.contains("PermissionDenied"), "{output}");
    }
}

#[test]
fn files_open_to_other_users_are_reported() {
    let folder = TempDir::new().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let path = folder.path().join("posthaste.db");
    migrate(&path).unwrap();
    mode(folder.path(), 0o755);
    assert_eq!(exposed_files(&path), Vec::<String>::new());
    for readable in [0o640, 0o604, 0o602] {
        mode(&path, readable);
        assert_eq!(exposed_files(&path), [path.to_str().unwrap()], "{readable:o}");
    }
    mode(folder.path(), 0o700);
    assert_eq!(exposed_files(&path), Vec::<String>::new(), "nobody else can enter the folder");
}

#[test]
fn second_process_is_refused_with_a_hint() {
    let fixture = Fixture::new();
    let output = refusal(&fixture.path());
    for part in [fixture.path().to_str().unwrap(), &std::process::id().to_string(), "API"] {
        assert!(output.contains(part), "{output}");
    }
    let helper = TempDir::new().unwrap();
    let output = ask_child(&fixture.path(), helper.path(), false);
    assert_eq!(output.matches("refused: ").count(), 2, "{output}");
    assert!(output.contains(&std::process::id().to_string()), "{output}");

    // The lock ends with its holder; the file remains.
    let path = fixture.path();
    let Fixture { store, folder } = fixture;
    drop(store);
    assert!(folder.path().join("posthaste.db.lock").exists());
    drop(SqliteStore::open(&SqliteOptions::new(&path)).unwrap());
    let output = ask_child(&path, helper.path(), false);
    assert!(output.contains("opened") && output.contains("migrated"), "{output}");
}

#[test]
fn concurrent_migrations_succeed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/er/posthaste.db");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || migrate(&path).unwrap())
        })
        .collect();
    let applied: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let versions: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    assert_eq!(applied, versions);
    SqliteStore::open(&SqliteOptions::new(&path)).unwrap();
}

#[test]
fn unknown_schema_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("posthaste.db");
    assert!(refusal(&path).contains("posthaste migrate"));
    assert!(!path.exists(), "opening creates no file");
    migrate(&path).unwrap();

    let mut newer = MIGRATIONS.to_vec();
    let version = newer.last().unwrap().version + 1;
    newer.push(Migration { version, name: "next", sql: "CREATE TABLE next (a INTEGER) STRICT;" });
    assert_eq!(migrate_with(&path, &newer).unwrap(), [version]);
    assert!(refusal(&path).contains("newer"), "{}", refusal(&path));
    assert!(words(migrate(&path).unwrap_err()).contains("newer"));

    newer.last_mut().unwrap().sql = "CREATE TABLE next (b INTEGER) STRICT;";
    assert!(words(migrate_with(&path, &newer).unwrap_err()).contains("changed"));
}

#[test]
fn failed_migration_is_rolled_back() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("posthaste.db");
    let mut migrations = MIGRATIONS.to_vec();
    let version = migrations.last().unwrap().version + 1;
    migrations.push(Migration { version, name: "bad", sql: "CREATE TABLE next (a); SELECT no_such();" });
    let output = words(migrate_with(&path, &migrations).unwrap_err());
    assert!(output.contains(&format!("migration {version} (bad)")), "{output}");
    migrations.last_mut().unwrap().sql = "CREATE TABLE next (a);";
    assert_eq!(migrate_with(&path, &migrations).unwrap(), [version]);
}

#[test]
fn foreign_files_are_refused_and_unchanged() {
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "these are notes, and more than a header is long: ".repeat(40)).unwrap();
    let before = std::fs::read(&text).unwrap();
    for output in [refusal(&text), words(migrate(&text).unwrap_err())] {
        assert!(output.contains("notes.txt") && output.contains("not a database"), "{output}");
    }
    assert_eq!(std::fs::read(&text).unwrap(), before);

    let foreign = folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    for output in [refusal(&foreign), words(migrate(&foreign).unwrap_err())] {
        assert!(output.contains("foreign.db") && output.contains("another program"), "{output}");
    }
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
}

#[test]
fn read_only_file_or_folder_is_reported_and_unchanged() {
    let folder = TempDir::new().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let path = data.join("posthaste.db");
    migrate(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let helper = TempDir::new().unwrap();
    for open in [folder.path(), helper.path()] {
        mode(open, 0o755);
    }

    mode(&path, 0o444);
    mode(&data.join("posthaste.db.lock"), 0o666);
    mode(&data, 0o777);
    let output = ask_child(&path, helper.path(), true);
    assert_eq!(output.matches("read-only").count(), 2, "{output}");
    assert!(output.contains("posthaste.db"), "{output}");

    mode(&data.join("posthaste.db.lock"), 0o444);
    mode(&data, 0o555);
    let output = ask_child(&path, helper.path(), true);
    assert_eq!(output.matches("posthaste.db.lock cannot be written").count(), 2, "{output}");

    mode(&data, 0o755);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    mode(&path, 0o644);
    mode(&data.join("posthaste.db.lock"), 0o644);
    SqliteStore::open(&SqliteOptions::new(&path)).unwrap();
}
