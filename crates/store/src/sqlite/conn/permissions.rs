//! Restricts the files of a database to the user that runs Posthaste: they contain payloads and signing secrets, and
//! any user who can open the lock file can hold the lock. [`connection`](crate::sqlite::conn::connection) and
//! [`lock`](crate::sqlite::conn::lock) create files through this module; `doctor` reports the files that
//! [`exposed_files`] returns.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of a new folder: only the owner may list, enter or modify it.
const FOLDER_MODE: u32 = 0o700;
/// Mode of a new file: only the owner may read or write it. SQLite creates `-wal` and `-shm` with the mode of the
/// database file.
const FILE_MODE: u32 = 0o600;
/// Mode bits that let the group or other users read or write a file.
const OPEN_TO_OTHERS: u32 = 0o066;
/// Mode bits that let the group or other users enter a folder.
const ENTERED_BY_OTHERS: u32 = 0o011;
/// Suffixes of the files that belong to a database.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", LOCK_SUFFIX];
const LOCK_SUFFIX: &str = ".lock";

/// Creates a folder and its parents if they do not exist.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Opens a file for reading and writing. Creates it if it does not exist.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(FILE_MODE).open(path)
}

/// Removes the permissions of other users from a file that an earlier version created. If this process does not own the
/// file, it stays unchanged and [`exposed_files`] returns it.
pub(crate) fn make_private(file: &File) {
    let is_open = file.metadata().is_ok_and(|found| found.mode() & OPEN_TO_OTHERS != 0);
    if is_open {
        let _ = file.set_permissions(Permissions::from_mode(FILE_MODE));
    }
}

pub(crate) fn lock_path(database: &Path) -> PathBuf {
    with_suffix(database, LOCK_SUFFIX)
}

/// Returns the files of a database that users other than the owner can open. Checks the mode bits of the files and of
/// their folder, but neither access control lists nor parent folders.
pub(crate) fn exposed_files(database: &Path) -> Vec<String> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = std::fs::metadata(folder.unwrap_or(Path::new(".")));
    if folder.is_ok_and(|folder| folder.mode() & ENTERED_BY_OTHERS == 0) {
        return Vec::new();
    }
    let is_open =
        |file: &PathBuf| std::fs::metadata(file).is_ok_and(|found| found.mode() & OPEN_TO_OTHERS != 0);
    let files = SUFFIXES.iter().map(|suffix| with_suffix(database, suffix));
    files.filter(is_open).map(|file| file.display().to_string()).collect()
}

fn with_suffix(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
