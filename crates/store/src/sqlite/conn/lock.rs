//! One process at a time: a lock file beside the database. The lock goes with the process that holds
//! it, however it ends; the file stays, and says who held it last.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_core::ports::{StoreError, StoreResult};

use crate::sqlite::conn::permissions;

/// How often a waiting migration looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// More than the digits of any process id.
const PID_BYTES_MAX: u64 = 20;

/// Held as long as this process uses the database.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

/// Closing the file is not enough: a process that was forked meanwhile has it open, and the lock with it, until it
/// executes another program.
impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl FileLock {
    /// Takes the lock of a database, waiting for at most `patience` until its holder lets go.
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
        // The holder's id is for people who read the refusal; not being able to write it down harms nobody.
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
            "{holder} has this database open, and only one may; use the API of that process \
             (the posthaste commands do), or stop it first"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_file_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("posthaste.db");
        let lock = FileLock::take(&database, Duration::ZERO).unwrap();
        // What a forked process has until it executes another program.
        let _copy = lock.file.try_clone().unwrap();
        assert!(FileLock::take(&database, Duration::ZERO).is_err());
        drop(lock);
        FileLock::take(&database, Duration::ZERO).unwrap();
    }
}
