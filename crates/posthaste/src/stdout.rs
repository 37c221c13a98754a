//! Writes the output of commands to stdout.

use std::io::{ErrorKind, Result, Write as _, stdout};

/// Writes `text` and flushes it. A closed pipe is not an error: the reader (`head`, for example) has finished.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
