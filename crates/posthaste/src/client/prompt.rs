//! Reads an API key from the terminal, without echo, or from stdin.

use super::Failure;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal as _};

/// The maximum length of the line with the key, in bytes. Keys have up to 256 characters.
const KEY_BYTES_MAX: u64 = 4_096;

/// Prompts for a key if stdin is a terminal. Otherwise reads the first line of stdin.
pub(super) fn read_key() -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let line = if stdin.is_terminal() {
        eprint!("API key: ");
        let line = without_echo(&stdin, || first_line(stdin.lock()));
        eprintln!();
        line
    } else {
        first_line(stdin.lock())
    };
    let line = line.map_err(|error| Failure::Local(format!("cannot read the key from stdin: {error}")))?;
    let key = line.trim();
    if key.is_empty() {
        return Err(Failure::Usage(
            "no API key: enter it at the prompt, pipe it to stdin or pass --key".to_owned(),
        ));
    }
    Ok(key.to_owned())
}

fn first_line(source: impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    source.take(KEY_BYTES_MAX).read_line(&mut line)?;
    Ok(line)
}

/// Runs `read` while the terminal does not echo the input.
fn without_echo<T>(terminal: &std::io::Stdin, read: impl FnOnce() -> T) -> T {
    let Ok(before) = tcgetattr(terminal) else { return read() };
    let mut silent: Termios = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let _ = tcsetattr(terminal, OptionalActions::Now, &silent);
    let result = read();
    let _ = tcsetattr(terminal, OptionalActions::Now, &before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_is_read_up_to_a_limit() {
        assert_eq!(first_line(&b"key\nrest"[..]).expect("a line"), "key\n");
        assert_eq!(first_line(&b""[..]).expect("no line"), "");
        assert_eq!(first_line(&[b'k'; 10_000][..]).expect("a line").len(), 4_096);
        assert!(first_line(&b"\xff"[..]).is_err());
    }
}
