//! Runs the program in child processes: starts them with given settings, reads their logs, and kills, suspends or
//! terminates them. They are killed on drop.

use crate::signals;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const BIN_VARIABLE: &str = "POSTHASTE_BIN";
/// The message that a process logs when it starts to serve.
const SERVING: &str = "serving";

/// The path of the binary.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Returns the binary named by `POSTHASTE_BIN`, or else `posthaste` in the target folder of the current program. A
    /// binary is located in `target/<profile>`, a test in `target/<profile>/deps`.
    pub fn find() -> Self {
        let path = std::env::var_os(BIN_VARIABLE).map_or_else(
            || {
                let this = std::env::current_exe().expect("the path of this program");
                let folder = this.parent().expect("a folder");
                let deps = folder.ends_with("deps").then(|| folder.parent()).flatten();
                deps.unwrap_or(folder).join("posthaste")
            },
            PathBuf::from,
        );
        assert!(
            path.is_file(),
            "{} does not exist: build it first (`cargo build --workspace --bins`, as `make test` does), or name it in {BIN_VARIABLE}",
            path.display()
        );
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn command(&self) -> Command {
        Command::new(&self.path)
    }

    /// Starts `posthaste serve` with `settings` as its only environment variables.
    pub fn serve(&self, name: &str, roles: &str, settings: &[(String, String)]) -> Process {
        let mut command = self.command();
        command.args(["serve", "--roles", roles]).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_clear().envs(settings.iter().map(|(name, value)| (name, value)));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("to start the program");
        let log = Arc::new(watch::Sender::new(Log::default()));
        let (source, sink) = (child.stderr.take().expect("a pipe"), Arc::clone(&log));
        std::thread::spawn(move || keep_lines(source, &sink));
        Process { name: name.to_owned(), child, log }
    }
}

#[derive(Debug)]
pub struct Process {
    pub name: String,
    child: Child,
    log: Arc<watch::Sender<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    lines: Vec<LogLine>,
    /// Whether the process has ended, which is detected by the end of its standard error.
    ended: bool,
}

/// A log line of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub level: String,
    pub message: String,
    /// The service that logged the line, if any.
    pub service: Option<String>,
    pub text: String,
}

impl LogLine {
    /// Parses a line of JSON. A line that is not JSON, such as a panic or a message before logging is set up, is
    /// treated as an error.
    fn parse(text: &str) -> Self {
        let json: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        let field = |name: &str| {
            let place = json.get(name).or_else(|| json.get("fields")?.get(name));
            place.and_then(Value::as_str).map(str::to_owned)
        };
        Self {
            level: field("level").unwrap_or_else(|| "ERROR".to_owned()).to_uppercase(),
            message: field("message").unwrap_or_else(|| text.to_owned()),
            service: field("service"),
            text: text.to_owned(),
        }
    }

    pub fn is_complaint(&self) -> bool {
        self.level == "WARN" || self.level == "ERROR"
    }
}

fn keep_lines(source: impl Read, log: &watch::Sender<Log>) {
    for line in BufReader::new(source).lines() {
        let Ok(line) = line else { break };
        log.send_modify(|log| log.lines.push(LogLine::parse(&line)));
    }
    log.send_modify(|log| log.ended = true);
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns all log lines so far.
    pub fn lines(&self) -> Vec<LogLine> {
        self.log.borrow().lines.clone()
    }

    pub fn has_ended(&self) -> bool {
        self.log.borrow().ended
    }

    /// Waits until a matching line is logged. Returns `false` if the process ends or the timeout expires first.
    pub async fn logs(&self, is_meant: impl Fn(&LogLine) -> bool, patience: Duration) -> bool {
        let mut log = self.log.subscribe();
        let heard = log.wait_for(|log| log.ended || log.lines.iter().any(&is_meant));
        // The result of the wait holds a read lock on the log, which must be dropped before the next one is acquired.
        let heard = tokio::time::timeout(patience, heard).await.is_ok();
        heard && self.log.borrow().lines.iter().any(is_meant)
    }

    /// Waits until the process serves. Returns `false` if it ends or the timeout expires first.
    pub async fn serves(&self, patience: Duration) -> bool {
        self.logs(|line| line.message == SERVING, patience).await
    }

    /// Waits until the process has ended and returns its exit status, or `None` if the timeout expires first.
    pub async fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        let mut log = self.log.subscribe();
        let ended = tokio::time::timeout(patience, log.wait_for(|log| log.ended)).await.is_ok();
        ended.then(|| self.child.wait().expect("the end of the process"))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the state of the process").is_none()
    }

    /// Kills the process with SIGKILL and waits until it has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Suspends the process with SIGSTOP, as if its machine were suspended.
    pub fn freeze(&self) {
        signals::send(self.id(), Signal::STOP);
    }

    pub fn thaw(&self) {
        signals::send(self.id(), Signal::CONT);
    }

    /// Requests a graceful shutdown with SIGTERM.
    pub fn terminate(&self) {
        signals::send(self.id(), Signal::TERM);
    }

    pub fn cpu_time(&self) -> Duration {
        signals::cpu_time(self.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_flat_nested_and_as_plain_text() {
        let flat = r#"{"level":"INFO","message":"recovered, resuming","service":"router"}"#;
        let nested =
            r#"{"level":"WARN","fields":{"message":"store unavailable, backing off","service":"router"}}"#;
        for (text, level, message, service, complains) in [
            (flat, "INFO", "recovered, resuming", Some("router"), false),
            (nested, "WARN", "store unavailable, backing off", Some("router"), true),
            ("thread panicked", "ERROR", "thread panicked", None, true),
        ] {
            let line = LogLine::parse(text);
            assert_eq!((line.level.as_str(), line.message.as_str()), (level, message));
            assert_eq!((line.service.as_deref(), line.is_complaint()), (service, complains));
        }
    }
}
