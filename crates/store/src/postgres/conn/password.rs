//! Determines the password of a login for each new connection: it is in the URL, in a file that is read again, or the
//! output of a command such as the one that creates an access token of a cloud provider.

use crate::secret_file::{SECRET_BYTES_MAX, SecretFileError, read_secret, without_line_break};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The maximum time of the password command, after which it is killed, and of reading the password file.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(5);

/// The maximum number of password commands that run at once. A starting process opens dozens of connections, and so
/// many interpreters at once would exceed [`COMMAND_TIME_MAX`] on a small machine. Waiting does not count.
const COMMANDS_MAX: usize = 4;
static COMMANDS: Semaphore = Semaphore::const_new(COMMANDS_MAX);

/// Where the password of every login comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// The URL, which may also have none.
    #[default]
    Url,
    /// The file at this path, which is read for each new connection.
    File(PathBuf),
    /// The output of this shell command, which is run for each new connection.
    Command(String),
}

/// Omits the command, since it may contain secrets.
impl std::fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url => f.write_str("Url"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Command(_) => f.write_str("Command(…)"),
        }
    }
}

/// The login and the server for which a password is needed. The command gets them as environment variables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginTarget<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) user: &'a str,
    pub(crate) database: &'a str,
}

/// The reason why there is no password. It contains neither the password nor the command nor its output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    #[error("POSTHASTE_DATABASE_PASSWORD_FILE={}: {reason}", path.display())]
    File { path: PathBuf, reason: SecretFileError },
    #[error("POSTHASTE_DATABASE_PASSWORD_FILE={}: the file was not read within 5 s", .0.display())]
    FileTime(PathBuf),
    #[error("POSTHASTE_DATABASE_PASSWORD_FILE={}: the file has more than one line", .0.display())]
    FileLines(PathBuf),
    #[error(
        "POSTHASTE_DATABASE_PASSWORD_COMMAND {0}; its output is never logged: run the command by hand to see it"
    )]
    Command(CommandFailure),
}

/// How the password command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    #[error("cannot be run: {0}")]
    Io(std::io::Error),
    #[error("did not end within {} s and was killed", COMMAND_TIME_MAX.as_secs())]
    TimedOut,
    #[error("failed with {0}")]
    Status(ExitStatus),
    #[error("printed nothing")]
    Empty,
    #[error("printed more than one line")]
    Lines,
    #[error("printed more than {SECRET_BYTES_MAX} bytes")]
    TooLong,
    #[error("printed bytes that are not UTF-8, or NUL bytes")]
    NotText,
}

impl PasswordSource {
    /// Returns the name of the setting, or `None` for the URL.
    pub const fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Url => None,
            Self::File(_) => Some("POSTHASTE_DATABASE_PASSWORD_FILE"),
            Self::Command(_) => Some("POSTHASTE_DATABASE_PASSWORD_COMMAND"),
        }
    }

    /// Returns an error message if the password would have two sources.
    pub(crate) fn conflict(&self, url_has_password: bool) -> Option<String> {
        let setting = self.setting().filter(|_| url_has_password)?;
        Some(format!(
            "the URL of the PostgreSQL database contains a password, and {setting} is set: remove one of the two"
        ))
    }

    /// Returns the password for one connection, or `None` if the URL determines it. Dropping the future kills the
    /// command and the processes that it started.
    pub(crate) async fn read(&self, target: LoginTarget<'_>) -> Result<Option<String>, PasswordError> {
        match self {
            Self::Url => Ok(None),
            Self::File(path) => read_file(path).await.map(Some),
            Self::Command(command) => run(command, target).await.map(Some).map_err(PasswordError::Command),
        }
    }
}

/// Reads the file on another thread, because a file of a network or a secret store may block.
async fn read_file(path: &Path) -> Result<String, PasswordError> {
    let owned = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read_secret(&owned));
    let Ok(Ok(read)) = timeout(COMMAND_TIME_MAX, reading).await else {
        return Err(PasswordError::FileTime(path.to_owned()));
    };
    let text = read.map_err(|reason| PasswordError::File { path: path.to_owned(), reason })?;
    if is_one_line(&text) { Ok(text) } else { Err(PasswordError::FileLines(path.to_owned())) }
}

fn is_one_line(text: &str) -> bool {
    !text.contains(['\n', '\r'])
}

async fn run(command: &str, target: LoginTarget<'_>) -> Result<String, CommandFailure> {
    // The semaphore is never closed.
    let _permit = COMMANDS.acquire().await;
    let bytes =
        timeout(COMMAND_TIME_MAX, output(command, target)).await.unwrap_or(Err(CommandFailure::TimedOut))?;
    let text = String::from_utf8(bytes).map_err(|_| CommandFailure::NotText)?;
    match without_line_break(&text) {
        "" => Err(CommandFailure::Empty),
        line if line.contains('\0') => Err(CommandFailure::NotText),
        line if is_one_line(line) => Ok(line.to_owned()),
        _ => Err(CommandFailure::Lines),
    }
}

/// Runs the command until it has closed its output and ended, and returns its output.
async fn output(command: &str, target: LoginTarget<'_>) -> Result<Vec<u8>, CommandFailure> {
    let child = Command::new("sh")
        .args(["-c", command])
        .env("PGHOST", target.host)
        .env("PGPORT", target.port.to_string())
        .env("PGUSER", target.user)
        .env("PGDATABASE", target.database)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(CommandFailure::Io)?;
    let mut group = ProcessGroup(child);
    let mut bytes = Vec::new();
    if let Some(stdout) = group.0.stdout.take() {
        let limit = SECRET_BYTES_MAX as u64 + 1;
        stdout.take(limit).read_to_end(&mut bytes).await.map_err(CommandFailure::Io)?;
    }
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(CommandFailure::TooLong);
    }
    let status = group.0.wait().await.map_err(CommandFailure::Io)?;
    if status.success() { Ok(bytes) } else { Err(CommandFailure::Status(status)) }
}

/// A process and those that it started. All of them are killed on drop, unless the process has ended.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The id is `None` once the process has been reaped. Until then the kernel does not assign it again.
        let leader = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(leader) = leader {
            // The error would be that no such process exists.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    const TARGET: LoginTarget<'_> =
        LoginTarget { host: "db.example", port: 5433, user: "router", database: "posthaste" };

    async fn run_text(command: &str) -> Result<String, String> {
        let source = PasswordSource::Command(command.to_owned());
        let password = source.read(TARGET).await.map_err(|error| error.to_string())?;
        Ok(password.expect("a password"))
    }

    #[tokio::test]
    async fn output_of_the_command_is_the_password() {
        for (command, password) in [
            ("echo hush", "hush"),
            ("printf hush", "hush"),
            ("printf 'hush\\r\\n'", "hush"),
            ("printf ' h u s h '", " h u s h "),
            ("echo hush; echo noise >&2", "hush"),
            ("cat; echo \"stdin is closed\"", "stdin is closed"),
            ("echo $PGUSER@$PGHOST:$PGPORT/$PGDATABASE", "router@db.example:5433/posthaste"),
        ] {
            assert_eq!(run_text(command).await.as_deref(), Ok(password), "{command}");
        }
    }

    #[tokio::test]
    async fn failures_are_named_without_the_output() {
        let long = format!("head -c {} /dev/zero | tr '\\0' k", SECRET_BYTES_MAX + 1);
        for (command, reason) in [
            ("echo hush; exit 3", "failed with exit status: 3;"),
            ("echo hush >&2; exit 1", "failed with exit status: 1;"),
            ("hush-is-no-command", "failed with exit status: 127;"),
            ("echo hush; kill -9 $$", "failed with signal: 9 (SIGKILL);"),
            ("true", "printed nothing;"),
            ("echo", "printed nothing;"),
            ("echo hush; echo hush", "printed more than one line;"),
            ("printf 'hush\\n\\n'", "printed more than one line;"),
            ("printf 'hush\\rhush\\n'", "printed more than one line;"),
            ("printf 'hush\\377'", "printed bytes that are not UTF-8"),
            ("printf 'hu\\000sh'", "printed bytes that are not UTF-8, or NUL bytes;"),
            (&long, "printed more than 65536 bytes;"),
            ("yes hush", "printed more than 65536 bytes;"),
        ] {
            let message = run_text(command).await.expect_err(command);
            let expected = format!("POSTHASTE_DATABASE_PASSWORD_COMMAND {reason}");
            assert!(message.starts_with(&expected), "{command}: {message}");
            assert!(!message.contains("hush") && !message.contains("kkk"), "{command}: {message}");
            assert!(message.ends_with("run the command by hand to see it"), "{message}");
        }
    }

    /// Returns whether a process exists and is not a zombie.
    fn is_alive(process: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    /// Polls until the command has written the ids of its processes to the file.
    async fn ids_in(path: &Path) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with("end\n") {
                return text.split_whitespace().filter(|id| *id != "end").map(str::to_owned).collect();
            }
            assert!(Instant::now() < until, "{text}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn wait_until_dead(ids: &[String]) {
        let until = Instant::now() + Duration::from_secs(30);
        while ids.iter().any(|id| is_alive(id)) {
            assert!(Instant::now() < until, "{ids:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A command that writes the ids of the shell and of a child to a file and hangs.
    fn hanging(path: &Path) -> PasswordSource {
        let path = path.display();
        PasswordSource::Command(format!(
            "sleep 1000 & echo $$ $! end > {path}.new; mv {path}.new {path}; wait"
        ))
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids");
        let error = hanging(&path).read(TARGET).await.expect_err("a timeout").to_string();
        assert!(error.contains("did not end within 5 s and was killed"), "{error}");
        let ids = ids_in(&path).await;
        assert_eq!(ids.len(), 2);
        wait_until_dead(&ids).await;
    }

    #[tokio::test]
    async fn a_cancelled_command_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids");
        let (file, source) = (path.clone(), hanging(&path));
        let ids = tokio::select! {
            _ = source.read(TARGET) => panic!("the command ended"),
            ids = ids_in(&file) => ids,
        };
        wait_until_dead(&ids).await;
    }

    #[tokio::test]
    async fn a_command_that_only_closes_its_output_does_not_count_as_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids");
        let command = format!("echo hush; exec >&-; echo $$ end > {}; exec sleep 1000", path.display());
        let source = PasswordSource::Command(command);
        let ids = tokio::select! {
            _ = source.read(TARGET) => panic!("the command ended"),
            ids = ids_in(&path) => ids,
        };
        wait_until_dead(&ids).await;
    }

    #[tokio::test]
    async fn the_file_is_read_again_for_each_connection() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let source = PasswordSource::File(path.clone());
        let read = async || source.read(TARGET).await.map_err(|error| error.to_string());
        for (text, expected) in [
            ("one\n", Ok("one")),
            ("two", Ok("two")),
            ("two\r\n", Ok("two")),
            ("", Err("the file is empty")),
            ("one\ntwo\n", Err("the file has more than one line")),
        ] {
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
            let expected = expected
                .map(|password| Some(password.to_owned()))
                .map_err(|reason| format!("POSTHASTE_DATABASE_PASSWORD_FILE={}: {reason}", path.display()));
            assert_eq!(read().await, expected);
        }
        std::fs::remove_file(&path).expect("to remove it");
        assert!(read().await.expect_err("no file").contains("No such file or directory"));
    }

    #[tokio::test]
    async fn the_url_determines_the_password_by_default() {
        assert!(matches!(PasswordSource::default().read(TARGET).await, Ok(None)));
    }

    #[test]
    fn the_command_is_not_printed() {
        assert_eq!(format!("{:?}", PasswordSource::Command("echo hush".to_owned())), "Command(…)");
    }
}
