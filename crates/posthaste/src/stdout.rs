//! What commands print for people and for programs.

use std::io::{ErrorKind, Result, Write as _, stdout};

/// Whoever stops reading, as `head` does, has seen enough: that is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
