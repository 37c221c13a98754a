//! Reads the input of a command from a file or from stdin, up to a limit.

use super::Failure;
use std::io::{IsTerminal as _, Read};
use std::path::Path;

/// The maximum size of the input, in bytes: more than a server accepts.
pub(super) const BYTES_MAX: usize = 16 << 20;

pub(super) fn from_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::Local(format!("cannot read {}: {error}", path.display()));
    read(std::fs::File::open(path).map_err(failed)?).map_err(failed)
}

pub(super) fn from_stdin(what: &str) -> Result<Vec<u8>, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("Enter {what} as JSON, followed by Ctrl-D.");
    }
    read(stdin.lock()).map_err(|error| Failure::Local(format!("cannot read stdin: {error}")))
}

fn read(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Read one byte more than the limit, so that longer input is detected.
    source.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
