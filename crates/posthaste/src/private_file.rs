//! Reads and writes files that only their owner may access: the data of `posthaste dev` and the client profile.

use anyhow::Context as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Creates a directory and its missing parents with mode 0700. Existing directories keep their mode.
pub(crate) fn create_dir(path: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.with_context(|| format!("cannot create {}", path.display()))
}

/// Returns the contents of a file, or `None` if it does not exist.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Replaces a file atomically, with mode 0600: a crash leaves either the old or the new contents. The target of a
/// symbolic link is replaced, not the link.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let target = match std::fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => path.to_path_buf(),
        target => target.with_context(context)?,
    };
    let mut temporary = target.clone().into_os_string();
    temporary.push(format!(".{}", std::process::id()));
    let result = write_new(Path::new(&temporary), text).and_then(|()| std::fs::rename(&temporary, &target));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result.with_context(context)
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    // A file left behind by a crashed process with the same id may have a different mode.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_has_access() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("a").join("b");
        create_dir(&folder).expect("a folder");
        assert_eq!((mode(&folder), mode(&parent.path().join("a"))), (0o700, 0o700));
        let path = folder.join("file");
        assert_eq!(read(&path).expect("no file"), None);
        std::fs::write(&path, "old").expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("a mode");
        write(&path, "new").expect("a file");
        assert_eq!((read(&path).expect("a file").as_deref(), mode(&path)), (Some("new"), 0o600));
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1, "no temporary file is left");
    }

    #[test]
    fn link_is_kept_and_its_target_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "old").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        write(&link, "new").expect("a file");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).expect("a file"), "new");
    }
}
