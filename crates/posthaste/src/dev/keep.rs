//! What `posthaste dev` keeps from one start to the next beside its database: files that only their owner
//! can read.

use crate::random;
use crate::settings::Secret;
use anyhow::Context as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

const ROOT_KEY: &str = "root-key";

/// Creates the folder where it is missing, for its owner alone.
pub(super) fn create_folder(folder: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.with_context(|| format!("making {}", folder.display()))
}

/// Made once.
pub(super) fn root_key(folder: &Path) -> anyhow::Result<Secret> {
    let path = folder.join(ROOT_KEY);
    if let Some(text) = read(&path)? {
        let text = text.trim();
        let usable = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_graphic());
        anyhow::ensure!(usable, "{} holds no key: delete it, and a new one is made", path.display());
        return Ok(Secret::new(text));
    }
    let mut bytes = [0; 32];
    random::fill(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("phk_{digits}");
    write(&path, &format!("{key}\n"))?;
    Ok(Secret::new(key))
}

/// Nothing when there is no such file.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Whole or not at all: a start that is broken off leaves no half of a key behind.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let told = || format!("writing {}", path.display());
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new).with_context(told)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(told)?;
    std::fs::rename(&new, path).with_context(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_is_nobody_elses() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("data");
        create_folder(&folder).expect("a folder");
        assert_eq!(std::fs::metadata(&folder).expect("a folder").permissions().mode() & 0o777, 0o700);
        let first = root_key(&folder).expect("a key");
        let second = root_key(&folder).expect("the same key");
        assert_eq!(first.expose(), second.expose());
        let path = folder.join(ROOT_KEY);
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "\n").expect("a file");
        assert!(root_key(&folder).is_err());
    }
}
