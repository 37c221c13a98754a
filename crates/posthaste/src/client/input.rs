//! What a command sends, where it is too long for its line: from a file or from stdin, to a bound.

use super::Failure;
use std::io::{IsTerminal as _, Read};
use std::path::Path;

/// More than any server takes; read no further.
pub(super) const BYTES_MAX: usize = 16 << 20;

pub(super) fn from_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::Local(format!("cannot read {}: {error}", path.display()));
    read(std::fs::File::open(path).map_err(failed)?).map_err(failed)
}

pub(super) fn from_stdin(what: &str) -> Result<Vec<u8>, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("Type {what} as JSON, and Ctrl-D at its end.");
    }
    read(stdin.lock()).map_err(|error| Failure::Local(format!("cannot read stdin: {error}")))
}

fn read(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than is taken, so that too much is seen as too much.
    source.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
