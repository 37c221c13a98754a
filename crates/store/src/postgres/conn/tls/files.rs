//! Reads certificates and private keys from PEM files.

use crate::postgres::conn::url::{RootCertificates, TlsParameters};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The state of a file. It differs after the file was replaced or written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp(PathBuf, Option<(u64, SystemTime, u64)>);

/// Returns the state of every file that `parameters` names.
pub(crate) fn stamps(parameters: &TlsParameters) -> Vec<Stamp> {
    let root = match &parameters.roots {
        RootCertificates::File(file) => Some(file),
        RootCertificates::Unset | RootCertificates::System => None,
    };
    let client = parameters.client.iter().flat_map(|client| [&client.certificate, &client.key]);
    let state = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok();
        metadata.and_then(|metadata| Some((metadata.ino(), metadata.modified().ok()?, metadata.len())))
    };
    root.into_iter().chain(client).map(|file| Stamp(file.clone(), state(file))).collect()
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))
}

/// Returns the certificates in a file. There is at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|error| format!("{} is not a valid PEM file: {error}", file.display()))?;
    if all.is_empty() {
        return Err(format!("{} contains no certificate in PEM format", file.display()));
    }
    Ok(all)
}

/// Returns the private key in a file that only its owner may read.
pub(crate) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read(file)?;
    let metadata =
        std::fs::metadata(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    // The rule of libpq: a key that belongs to root may be readable by a group.
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden != 0 {
        return Err(format!(
            "the private key {} can be read by other users (mode {:04o}): run chmod 600, or 640 if root owns it",
            file.display(),
            metadata.mode() & 0o7777
        ));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let is_encrypted = pem.windows(9).any(|part| part == b"ENCRYPTED");
        let reason = if is_encrypted {
            "an encrypted key, which Posthaste cannot read; remove its passphrase with openssl pkey"
        } else {
            "no private key in PEM format"
        };
        format!("{} contains {reason}", file.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(content: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn unusable_files_are_refused_by_name() {
        let missing = certificates(Path::new("/no/such/ca.pem")).unwrap_err();
        assert!(missing.contains("/no/such/ca.pem") && missing.contains("No such file"), "{missing}");
        for (content, reason) in [
            ("", "no certificate"),
            ("not a certificate", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n", "not a valid PEM file"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "not a valid PEM file"),
        ] {
            let file = file(content, 0o644);
            let error = certificates(file.path()).unwrap_err();
            assert!(error.contains(reason) && error.contains(&*file.path().to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn private_keys_must_be_private_and_readable() {
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        for (content, mode, reason) in [
            ("", 0o600, "no private key"),
            (encrypted, 0o600, "encrypted key"),
            ("", 0o644, "other users (mode 0644)"),
            ("", 0o660, "other users (mode 0660)"),
        ] {
            let file = file(content, mode);
            let error = private_key(file.path()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
