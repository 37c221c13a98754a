//! Ensures that only one process at a time uses a database, with a lock file next to it. The lock ends with the process
//! that holds it. The file remains and contains the process id of the last holder.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_core::ports::{StoreError, StoreResult};

use crate::sqlite::conn::permissions;

/// Interval between two attempts to acquire the lock.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Maximum number of bytes read from the lock file: more than the digits of any process id.
const PID_BYTES_MAX: u64 = 20;

/// The lock on a database, held while this process uses it.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

/// Unlocks explicitly. Closing the file is not enough, because a forked process inherits the file and its lock, and
/// keeps them until it executes another program.
impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl FileLock {
    /// Acquires the lock on a database, waiting at most `patience` for another process to release it.
    pub(crate) fn take(database: &Path, patience: Duration) -> StoreResult<Self> {
        let path = permissions::lock_path(database);
        let mut file = permissions::open_or_create(&path).map_err(|error| {
            unusable(database, &format!("its lock file {} cannot be written: {error}", path.display()))
        })?;
        permissions::make_private(&file);
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(LOOK_AGAIN),
                Err(TryLockError::WouldBlock) => return Err(in_use(database, &mut file)),
                Err(TryLockError::Error(error)) => {
                    let reason = format!("its lock file {} cannot be locked: {error}", path.display());
                    return Err(unusable(database, &reason));
                }
            }
        }
        // The process id is only for the error message, so a failure to write it is ignored.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}

pub(crate) fn unusable(database: &Path, reason: &str) -> StoreError {
    StoreError::Unusable { what: format!("{}: {reason}", database.display()) }
}

fn in_use(database: &Path, file: &mut File) -> StoreError {
    let mut holder = String::new();
    let read = file.rewind().and_then(|()| file.take(PID_BYTES_MAX).read_to_string(&mut holder));
    let holder = match (read, holder.trim()) {
        (Ok(_), pid) if !pid.is_empty() => format!("process {pid}"),
        (Ok(_) | Err(_), _) => "another process".to_owned(),
    };
    unusable(
        database,
        &format!(
            "{holder} has this database open, and only one process may; use the API of that process \
             (the posthaste commands do), or stop it first"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicated_file_handle_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("posthaste.db");
        let lock = FileLock::take(&database, Duration::ZERO).unwrap();
        // A forked process has such a copy until it executes another program.
        let _copy = lock.file.try_clone().unwrap();
        assert!(FileLock::take(&database, Duration::ZERO).is_err());
        drop(lock);
        FileLock::take(&database, Duration::ZERO).unwrap();
    }
}
