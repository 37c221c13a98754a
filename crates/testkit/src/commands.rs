//! Runs commands of the built binary. A long-running command is killed on drop, and its output is read line by
//! line. [`processes`](crate::processes) starts the services.

use crate::processes::Program;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The timeout for a command, much longer than any command takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command that migrates a test database, whose roles an administrator has created and other test databases share.
pub const MIGRATE: &[&str] = &["migrate", "--roles", "existing", "--share-roles"];

/// A running command, which is killed on drop.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub fn start(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Program::find().command();
        command.args(arguments).env_clear().envs(environment.iter().copied()).current_dir(folder);
        Self::of(command.stdin(Stdio::null()))
    }

    /// Starts an arbitrary program.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines }
    }

    /// Returns all lines up to and including the first one that contains all `parts`.
    pub fn lines_until(&self, parts: &[&str]) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { panic!("no {parts:?} in {seen:#?}") };
            let found = parts.iter().all(|part| line.contains(part));
            seen.push(line);
            if found {
                return seen;
            }
        }
    }

    pub fn line(&self, parts: &[&str]) -> String {
        self.lines_until(parts).pop().expect("a line")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `posthaste dev` in its own folder, with the values that it printed.
#[derive(Debug)]
pub struct Dev {
    pub running: Running,
    /// The printed commands, ready to paste into a shell.
    pub commands: Vec<String>,
    pub url: String,
    pub key: String,
}

impl Dev {
    pub fn start(folder: &TempDir) -> Self {
        Self::start_with(folder, &[])
    }

    pub fn start_with(folder: &TempDir, more: &[(&str, &str)]) -> Self {
        let fixed = [
            ("POSTHASTE_LISTEN", "127.0.0.1:0"),
            ("POSTHASTE_RETRY_BASE", "1ms"),
            ("POSTHASTE_LOG", "error"),
        ];
        let environment = [&fixed[..], more].concat();
        let running = Running::start(folder.path(), &["dev"], &environment);
        let lines = running.lines_until(&["  ", " --help"]);
        let commands: Vec<String> =
            lines.iter().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
        let exported = |name: &str| {
            let prefix = format!("export {name}=");
            commands.iter().find_map(|line| line.strip_prefix(&prefix)).expect("an export").to_owned()
        };
        let (url, key) = (exported("POSTHASTE_URL"), exported("POSTHASTE_KEY"));
        Self { running, commands, url, key }
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_stdin(arguments, "")
    }

    pub fn run_with_stdin(&self, arguments: &[&str], stdin: &str) -> Ran {
        run(arguments, &[("POSTHASTE_URL", &self.url), ("POSTHASTE_KEY", &self.key)], stdin)
    }

    /// Runs a command with `--json`, checks that it succeeds, and returns its output.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat()).expect(0);
        serde_json::from_str(&ran.stdout).expect("JSON")
    }

    /// Repeats a command with `--json` until its output satisfies `hoped`, and returns that output.
    pub fn json_until(&self, arguments: &[&str], hoped: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.json(arguments);
            if hoped(&answer) {
                return answer;
            }
            assert!(Instant::now() < until, "{arguments:?}: {answer:#}");
        }
    }
}

/// The exit code and output of a finished command.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// Runs a command of the binary to completion, with `environment` as its only environment variables.
pub fn run(arguments: &[&str], environment: &[(&str, &str)], stdin: &str) -> Ran {
    run_in(Path::new("."), arguments, environment, stdin)
}

/// Runs a command of the binary to completion in `folder`, with `environment` as its only environment variables.
pub fn run_in(folder: &Path, arguments: &[&str], environment: &[(&str, &str)], stdin: &str) -> Ran {
    let mut child = Program::find()
        .command()
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // A command that does not read its input may have closed the pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
    Ran::of(&child.wait_with_output().expect("an end"))
}
