//! Reads a file that contains one secret, such as a Docker or Kubernetes secret or a systemd credential. Used for the
//! password of a database login, and by the settings for every `<NAME>_FILE`.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The maximum size of a secret, in bytes. The longest one is a list of HTTP headers.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// The permission bits with which the group or other users can change a file.
const WRITABLE: u32 = 0o022;
/// The permission bit with which other users can read a file.
const READABLE: u32 = 0o004;

/// The types of file systems in memory, on which containers and systemd place secrets: tmpfs and ramfs. Only the
/// processes of the container or service see them.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The reason why a file cannot be used as a secret. It never contains the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretFileError {
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    #[error("this is a folder, not a file")]
    Folder,
    #[error("this is not a regular file")]
    Special,
    #[error("the group or other users can change the file (mode {mode:04o}); run: chmod go-w {path:?}")]
    Writable { mode: u32, path: PathBuf },
    #[error("the file is larger than {SECRET_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the file is empty")]
    Empty,
    #[error("the file is not text in UTF-8")]
    NotUtf8,
    #[error("the file contains a NUL byte")]
    Nul,
}

impl From<std::io::Error> for SecretFileError {
    fn from(error: std::io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// Returns the text of a file without one line break at its end. Other line breaks are kept.
///
/// # Errors
///
/// Refuses a file that its group or other users can change, because they could replace the secret.
pub fn read_secret(path: &Path) -> Result<String, SecretFileError> {
    // Opening a pipe would block.
    check(path, &std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(path, &file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(SecretFileError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| SecretFileError::NotUtf8)?;
    let text = without_line_break(&text);
    if text.is_empty() {
        return Err(SecretFileError::Empty);
    }
    if text.contains('\0') {
        return Err(SecretFileError::Nul);
    }
    Ok(text.to_owned())
}

fn check(path: &Path, metadata: &std::fs::Metadata) -> Result<(), SecretFileError> {
    if metadata.is_dir() {
        return Err(SecretFileError::Folder);
    }
    if !metadata.is_file() {
        return Err(SecretFileError::Special);
    }
    let mode = mode(metadata);
    if mode & WRITABLE != 0 {
        return Err(SecretFileError::Writable { mode, path: path.to_owned() });
    }
    Ok(())
}

fn mode(metadata: &std::fs::Metadata) -> u32 {
    metadata.permissions().mode() & 0o777
}

/// Removes one line break, LF or CR LF, from the end of a text.
pub(crate) fn without_line_break(text: &str) -> &str {
    text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line))
}

/// Returns the mode of a file that every user of the machine can read. Returns `None` if only its owner and group can
/// read it, if it is on a file system in memory, or if it cannot be examined.
pub fn mode_if_exposed(path: &Path) -> Option<u32> {
    let mode = mode(&std::fs::metadata(path).ok()?);
    (mode & READABLE != 0 && !is_in_memory(path)).then_some(mode)
}

fn is_in_memory(path: &Path) -> bool {
    // The type of the field differs between platforms.
    let kind = rustix::fs::statfs(path).map(|system| u64::try_from(system.f_type).unwrap_or_default());
    kind.is_ok_and(|kind| MEMORY_FILE_SYSTEMS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    fn read_mode(bytes: &[u8], mode: u32) -> Result<String, SecretFileError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        std::fs::write(&path, bytes).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        read_secret(&path).map_err(|error| match error {
            SecretFileError::Writable { mode, .. } => {
                SecretFileError::Writable { mode, path: PathBuf::new() }
            }
            other @ (SecretFileError::Unreadable(_)
            | SecretFileError::Folder
            | SecretFileError::Special
            | SecretFileError::TooLarge
            | SecretFileError::Empty
            | SecretFileError::NotUtf8
            | SecretFileError::Nul) => other,
        })
    }

    #[test]
    fn one_line_break_at_the_end_is_removed() {
        for (bytes, text) in [
            (&b"hush"[..], "hush"),
            (b"hush\n", "hush"),
            (b"hush\r\n", "hush"),
            (b"hush\n\n", "hush\n"),
            (b"a: b\nc: d\n", "a: b\nc: d"),
            (b" hush \n", " hush "),
            (b"hush\r", "hush\r"),
        ] {
            assert_eq!(read_mode(bytes, 0o600).as_deref(), Ok(text), "{bytes:?}");
        }
        let long = "k".repeat(SECRET_BYTES_MAX);
        assert_eq!(read_mode(long.as_bytes(), 0o600), Ok(long));
    }

    #[test]
    fn unusable_contents_are_refused() {
        for (bytes, error) in [
            (Vec::new(), SecretFileError::Empty),
            (b"\n".to_vec(), SecretFileError::Empty),
            (b"\r\n".to_vec(), SecretFileError::Empty),
            (b"hu\0sh\n".to_vec(), SecretFileError::Nul),
            (vec![b'h', 0xff], SecretFileError::NotUtf8),
            (vec![b'k'; SECRET_BYTES_MAX + 1], SecretFileError::TooLarge),
            (vec![b'k'; 2 << 20], SecretFileError::TooLarge),
        ] {
            assert_eq!(read_mode(&bytes, 0o600), Err(error));
        }
    }

    #[test]
    fn files_that_others_can_change_are_refused() {
        for mode in [0o400, 0o440, 0o444, 0o600, 0o640, 0o644] {
            assert!(read_mode(b"hush", mode).is_ok(), "{mode:04o}");
        }
        for mode in [0o620, 0o602, 0o660, 0o666, 0o777] {
            let expected = SecretFileError::Writable { mode, path: PathBuf::new() };
            assert_eq!(read_mode(b"hush", mode), Err(expected));
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read_secret(folder.path()), Err(SecretFileError::Folder));
        assert_eq!(read_secret(Path::new("/dev/null")), Err(SecretFileError::Special));
        let pipe = folder.path().join("pipe");
        let created = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(created.success());
        assert_eq!(read_secret(&pipe), Err(SecretFileError::Special));
        let missing = read_secret(&folder.path().join("missing")).map_err(|error| error.to_string());
        assert_eq!(
            missing.as_ref().map_err(String::as_str),
            Err("the file cannot be read: No such file or directory (os error 2)")
        );
        // Kubernetes places a link to the current version of a secret.
        std::fs::write(folder.path().join("target"), "hush").expect("a file");
        std::os::unix::fs::symlink("target", folder.path().join("link")).expect("a link");
        assert_eq!(read_secret(&folder.path().join("link")).as_deref(), Ok("hush"));
    }

    #[test]
    fn exposed_files_are_those_on_disk_that_everybody_can_read() {
        // The temporary folder may be in memory, unlike this file.
        assert_eq!(mode_if_exposed(Path::new("/proc/self/mounts")), Some(0o444));
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let path = folder.path().join("secret");
        std::fs::write(&path, "hush").expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
        assert_eq!(mode_if_exposed(&path), None);
        assert_eq!(mode_if_exposed(Path::new("/proc/self/mem")), None, "only the owner can read it");
        assert_eq!(mode_if_exposed(&folder.path().join("missing")), None);
    }
}
