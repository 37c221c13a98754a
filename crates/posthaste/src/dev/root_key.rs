//! The root key of `posthaste dev`: created at the first start and stored in a private file.

use crate::settings::Secret;
use crate::{private_file, random};
use std::path::Path;

const FILE: &str = "root-key";

/// Returns the key stored in `folder`. Creates one if there is none.
///
/// # Errors
///
/// Returns an error if the file cannot be read or written, or does not contain a key.
pub(super) fn load_or_create(folder: &Path) -> anyhow::Result<Secret> {
    let path = folder.join(FILE);
    if let Some(text) = private_file::read(&path)? {
        let text = text.trim();
        let usable = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_graphic());
        anyhow::ensure!(usable, "{} does not contain a key: delete it to create a new one", path.display());
        return Ok(Secret::new(text));
    }
    let mut bytes = [0; 32];
    random::fill(&mut bytes);
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("phk_{digits}");
    private_file::write(&path, &format!("{key}\n"))?;
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_created_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = load_or_create(folder.path()).expect("a key");
        let second = load_or_create(folder.path()).expect("the same key");
        assert_eq!(first.expose(), second.expose());
        std::fs::write(folder.path().join(FILE), "\n").expect("a file");
        assert!(load_or_create(folder.path()).is_err());
    }
}
