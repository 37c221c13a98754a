//! What can go wrong between a command and the server, what people are told, and the exit code that
//! scripts can rely on.

use serde_json::Value;
use std::fmt;
use std::process::ExitCode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Something on this side, such as a file that cannot be read.
    Local(String),
    /// The command line itself is wrong.
    Usage(String),
    /// The server answered, and said no.
    Refused {
        status: u16,
        text: String,
    },
    NotFound(String),
    Unreachable {
        url: String,
        why: String,
    },
}

impl Failure {
    /// An answer that is not 2xx.
    pub(super) fn of_answer(status: u16, body: &[u8]) -> Self {
        let problem: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let part = |name: &str| problem.get(name).and_then(Value::as_str);
        let Some(title) = part("title") else {
            let text = format!("answered {status} without a reason: is this Posthaste?");
            return Self::Refused { status, text };
        };
        // A detail usually names its field already.
        let detail = part("detail").map(|detail| format!(": {detail}")).unwrap_or_default();
        let field = part("field").filter(|field| !detail.contains(field));
        let field = field.map(|field| format!(" ({field})")).unwrap_or_default();
        let text = format!("{title}{detail}{field}");
        if status == 404 { Self::NotFound(text) } else { Self::Refused { status, text } }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Local(_) | Self::Refused { .. } => 1,
            Self::Usage(_) => 2,
            Self::Unreachable { .. } => 3,
            Self::NotFound(_) => 4,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(text) | Self::Usage(text) | Self::NotFound(text) => f.write_str(text),
            Self::Refused { status: 401, text } => {
                write!(f, "{text}\nGive a key with POSTHASTE_KEY, or with --key.")
            }
            Self::Refused { status: 403, text } => {
                write!(f, "{text}\nRoot makes a key of another role: posthaste key create NAME ROLE")
            }
            Self::Refused { text, .. } => f.write_str(text),
            Self::Unreachable { url, why } => write!(
                f,
                "no Posthaste answers at {url}: {why}\n\
                 Start one with `posthaste dev` or `posthaste serve`, or say where it is with POSTHASTE_URL \
                 or --url."
            ),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_its_field() {
        for (status, body, told) in [
            (
                422,
                r#"{"title":"Not valid","detail":"limit must be 1","field":"limit"}"#,
                "Not valid: limit must be 1",
            ),
            (
                422,
                r#"{"title":"Not valid","detail":"is wrong","field":"limit"}"#,
                "Not valid: is wrong (limit)",
            ),
            (409, r#"{"title":"Not possible"}"#, "Not possible"),
            (404, r#"{"title":"Not found","detail":"no such event"}"#, "Not found: no such event"),
            (502, "<html>", "answered 502 without a reason: is this Posthaste?"),
            (404, "", "answered 404 without a reason: is this Posthaste?"),
        ] {
            let failure = Failure::of_answer(status, body.as_bytes());
            assert_eq!(failure.to_string(), told);
            let is_ours = body.starts_with('{');
            assert_eq!(matches!(failure, Failure::NotFound(_)), status == 404 && is_ours, "{status} {body}");
        }
    }
}
