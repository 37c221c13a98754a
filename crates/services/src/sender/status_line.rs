//! Parses the status line of the final response in parallel with the HTTP parser, which returns it only with
//! the complete head. The status determines the outcome even if the connection breaks one byte later. Pure:
//! bytes in, status out.

/// The length of `HTTP/1.x NNN` and the character after it, in bytes. The rest of the status line is not
/// needed.
const START_LEN: usize = 13;

/// The state of the parser for one response.
#[derive(Debug, Clone, Copy)]
pub(super) enum StatusLine {
    /// Within a status line of which `len` bytes were received.
    Reading {
        start: [u8; START_LEN],
        len: usize,
    },
    /// Within the head of an interim response (1xx), which ends with an empty line.
    Interim {
        line_is_empty: bool,
    },
    Final(u16),
    NotHttp,
}

impl StatusLine {
    pub(super) const START: Self = Self::Reading { start: [0; START_LEN], len: 0 };

    /// Returns the status of the final response, or `None` if its status line is not complete.
    pub(super) const fn status(&self) -> Option<u16> {
        match self {
            Self::Final(status) => Some(*status),
            Self::Reading { .. } | Self::Interim { .. } | Self::NotHttp => None,
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            *self = match *self {
                Self::Final(_) | Self::NotHttp => return,
                Self::Reading { start, len } => Self::read_line(start, len, *byte),
                Self::Interim { line_is_empty } => match *byte {
                    b'\n' if line_is_empty => Self::START,
                    b'\n' => Self::Interim { line_is_empty: true },
                    b'\r' => Self::Interim { line_is_empty },
                    _ => Self::Interim { line_is_empty: false },
                },
            };
        }
    }

    fn read_line(mut start: [u8; START_LEN], len: usize, byte: u8) -> Self {
        match byte {
            // Skips empty lines before a response, as HTTP parsers do.
            b'\r' | b'\n' if len == 0 => Self::START,
            b'\n' => match parse(&start) {
                Some(status) if is_interim(status) => Self::Interim { line_is_empty: true },
                Some(status) => Self::Final(status),
                None => Self::NotHttp,
            },
            _ => {
                if let Some(slot) = start.get_mut(len) {
                    *slot = byte;
                }
                Self::Reading { start, len: START_LEN.min(len + 1) }
            }
        }
    }
}

/// Returns whether a status is interim. Status 101 is final, because the connection does not use HTTP after
/// it.
const fn is_interim(status: u16) -> bool {
    matches!(status, 100 | 102..=199)
}

fn parse(start: &[u8; START_LEN]) -> Option<u16> {
    let [minor, b' ', code @ .., b' ' | b'\r' | 0] = start.strip_prefix(b"HTTP/1.")? else { return None };
    if !minor.is_ascii_digit() || !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_known_at_the_end_of_its_line() {
        let rows: &[(&[u8], Option<u16>)] = &[
            (b"", None),
            (b"HTTP/1.1 200 OK", None),
            (b"HTTP/1.1 200 OK\r\n", Some(200)),
            (b"HTTP/1.1 200 OK\n", Some(200)),
            (b"HTTP/1.1 204\r\n", Some(204)),
            (b"HTTP/1.0 503 A very long reason that nobody reads\r\nx: y", Some(503)),
            (b"\r\n\r\nHTTP/1.1 200 OK\r\n", Some(200)),
            (b"HTTP/1.1 101 Switching\r\n", Some(101)),
            (b"HTTP/1.1 100 Continue\r\n", None),
            (b"HTTP/1.1 100 Continue\r\n\r\n", None),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", Some(200)),
            (b"HTTP/1.1 103 Early\r\nlink: a\r\n\r\nHTTP/1.1 102 P\n\nHTTP/1.1 404 N\r\n", Some(404)),
            (b"HTTP/1.1 103 Early\r\nHTTP/1.1 200 OK\r\n", None),
            (b"HTTP/1.1 20 OK\r\n", None),
            (b"HTTP/1.1 2000\r\n", None),
            (b"HTTP/2.0 200 OK\r\n", None),
            (b"SSH-2.0-OpenSSH_9.9\r\nHTTP/1.1 200 OK\r\n", None),
            (b"HTTP/1.1\r\n200 OK\r\n", None),
        ];
        for (bytes, expected) in rows {
            let shown = String::from_utf8_lossy(bytes);
            let mut at_once = StatusLine::START;
            at_once.read(bytes);
            assert_eq!(at_once.status(), *expected, "{shown:?}");
            let mut at_a_trickle = StatusLine::START;
            bytes.chunks(1).for_each(|byte| at_a_trickle.read(byte));
            assert_eq!(at_a_trickle.status(), *expected, "{shown:?} byte by byte");
        }
    }
}
