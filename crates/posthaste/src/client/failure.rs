//! The errors of client commands: the message, the problem details (RFC 9457) for `--json`, and the exit code.

use super::table;
use serde_json::{Value, json};
use std::fmt;
use std::process::ExitCode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A fault on this machine, such as a file that cannot be read.
    Local(String),
    /// Invalid arguments or input.
    Usage(String),
    /// The server responded with a status other than 2xx.
    Refused {
        status: u16,
        text: String,
        /// The problem details from the response, unchanged.
        problem: Option<String>,
    },
    /// The server could not be reached or did not respond.
    Unreachable { url: String, why: String },
    /// The response is not a valid response of this API.
    Unreadable { text: String },
}

/// Creates problem details for an error that was not reported by a server.
pub(crate) fn problem(kind: &str, title: &str, detail: &str) -> Value {
    json!({"type": format!("tag:posthaste,2026:problem/{kind}"), "title": title, "detail": detail})
}

/// The maximum number of errors in the message of [`Failure::refuse`].
const ERRORS_MAX: usize = 20;

impl Failure {
    /// Returns a usage error that lists the given errors, one per line, or `Ok` if there are none.
    pub(super) fn refuse(errors: &[String]) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        let mut lines: Vec<String> =
            errors.iter().take(ERRORS_MAX).map(|error| table::visible(error)).collect();
        if errors.len() > ERRORS_MAX {
            lines.push(format!("and {} more", errors.len() - ERRORS_MAX));
        }
        Err(Self::Usage(lines.join("\n")))
    }

    /// Creates a failure from a response with a status other than 2xx.
    pub(super) fn from_response(status: u16, body: &[u8]) -> Self {
        let problem: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let part = |name: &str| problem.get(name).and_then(Value::as_str);
        let Some(title) = part("title") else {
            let text = format!("status {status} without problem details: is this a Posthaste server?");
            return Self::Refused { status, text, problem: None };
        };
        // The detail usually names the field already.
        let detail = part("detail").map(|detail| format!(": {detail}")).unwrap_or_default();
        let field = part("field").filter(|field| !detail.contains(field));
        let field = field.map(|field| format!(" ({field})")).unwrap_or_default();
        let text = table::visible(&format!("{title}{detail}{field}"));
        Self::Refused { status, text, problem: Some(String::from_utf8_lossy(body).trim().to_owned()) }
    }

    /// Returns whether the server reported that the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, problem: Some(_), .. })
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Refused { .. } if self.is_not_found() => 4,
            Self::Local(_) | Self::Refused { .. } | Self::Unreadable { .. } => 1,
            Self::Usage(_) => 2,
            Self::Unreachable { .. } => 3,
        })
    }

    /// Returns the server's problem details as JSON, or creates new ones if there are none.
    pub(crate) fn problem(&self) -> String {
        let (kind, title) = match self {
            Self::Refused { problem: Some(problem), .. } => return problem.clone(),
            Self::Refused { problem: None, .. } | Self::Unreadable { .. } => {
                ("unexpected-response", "Unexpected response")
            }
            Self::Local(_) => ("command-failed", "Command failed"),
            Self::Usage(_) => ("invalid-usage", "Invalid usage"),
            Self::Unreachable { .. } => ("server-unreachable", "Server unreachable"),
        };
        let mut problem = problem(kind, title, &self.detail());
        if let Self::Refused { status, .. } = self {
            problem["status"] = (*status).into();
        }
        if let Some(advice) = self.advice() {
            problem["advice"] = advice.into();
        }
        problem.to_string()
    }

    /// Returns the message without advice.
    pub(super) fn detail(&self) -> String {
        match self {
            Self::Local(text)
            | Self::Usage(text)
            | Self::Refused { text, .. }
            | Self::Unreadable { text } => text.clone(),
            Self::Unreachable { url, why } => format!("cannot reach a Posthaste server at {url}: {why}"),
        }
    }

    /// Returns advice on resolving the failure, if there is any.
    const fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Refused { status: 401, .. } => {
                Some("Pass an API key with --key or POSTHASTE_KEY, or store one with `posthaste login`.")
            }
            Self::Refused { status: 403, .. } => {
                Some("A root key can create a key with the required role: posthaste key create NAME ROLE")
            }
            Self::Unreachable { .. } => Some(
                "Start a server with `posthaste dev` or `posthaste serve`, or give its URL with --url, \
                 POSTHASTE_URL or a context.",
            ),
            Self::Unreadable { .. } => Some(
                "Check that --url, POSTHASTE_URL or the context leads to a Posthaste server of the version of this \
                 program (posthaste --version).",
            ),
            Self::Local(_) | Self::Usage(_) | Self::Refused { .. } => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail())?;
        self.advice().map_or(Ok(()), |advice| write!(f, "\n{advice}"))
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_title_detail_and_field() {
        for (status, body, message) in [
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
            (502, "<html>", "status 502 without problem details: is this a Posthaste server?"),
            (404, "", "status 404 without problem details: is this a Posthaste server?"),
        ] {
            let failure = Failure::from_response(status, body.as_bytes());
            assert_eq!(failure.to_string(), message);
            let is_problem = body.starts_with('{');
            assert_eq!(failure.is_not_found(), status == 404 && is_problem, "{status} {body}");
        }
    }

    #[test]
    fn errors_are_listed_up_to_a_limit() {
        let errors =
            |count: usize| (0..count).map(|number| format!("error\u{7} {number}")).collect::<Vec<_>>();
        assert_eq!(Failure::refuse(&[]), Ok(()));
        let message = |count| Failure::refuse(&errors(count)).expect_err("errors").to_string();
        assert_eq!(message(1), "error\u{fffd} 0");
        assert_eq!((message(20).lines().count(), message(21).lines().last()), (20, Some("and 1 more")));
    }

    #[test]
    fn problem_of_the_server_is_kept_and_others_are_created() {
        let body = r#"{"title":"Not found","status":404,"detail":"no such event","zebra":1.0}"#;
        assert_eq!(Failure::from_response(404, body.as_bytes()).problem(), body);
        for (failure, kind, status) in [
            (Failure::from_response(502, b"<html>"), "unexpected-response", Value::from(502)),
            (Failure::Unreadable { text: "x".to_owned() }, "unexpected-response", Value::Null),
            (Failure::Local("x".to_owned()), "command-failed", Value::Null),
            (Failure::Usage("x".to_owned()), "invalid-usage", Value::Null),
            (
                Failure::Unreachable { url: "u".to_owned(), why: "w".to_owned() },
                "server-unreachable",
                Value::Null,
            ),
        ] {
            let problem: Value = serde_json::from_str(&failure.problem()).expect("JSON");
            assert_eq!(problem["type"], format!("tag:posthaste,2026:problem/{kind}"), "{problem}");
            assert_eq!(problem["status"], status, "{problem}");
            assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        }
    }
}
