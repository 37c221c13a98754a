//! Certificates for tests, as PEM files in a folder.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, SignatureAlgorithm, date_time_ymd,
};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

/// A folder that every user can read, because the server runs as another user.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("permissions");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path. `mode` is 0600 for a private key.
    pub(crate) fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("to write a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("permissions");
        path
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

pub(crate) fn authority(common_name: &str) -> Authority {
    authority_with(common_name, &PKCS_ECDSA_P256_SHA256)
}

/// An authority whose certificate has expired.
pub(crate) fn expired_authority(common_name: &str) -> Authority {
    let mut params = params(&[], common_name, 2001);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// An authority that another one has signed.
pub(crate) fn intermediate(authority: &Authority, common_name: &str) -> Authority {
    let mut params = params(&[], common_name, 2100);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::signed_by(params, KeyPair::generate().expect("a key"), authority).expect("an authority")
}

/// A self-signed certificate that is not marked as an authority, but signs others.
pub(crate) fn pretended_authority(common_name: &str) -> Authority {
    let params = params(&["localhost"], common_name, 2100);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate")
}

fn authority_with(common_name: &str, algorithm: &'static SignatureAlgorithm) -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.distinguished_name = named(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate_for(algorithm).expect("a key"))
        .expect("an authority")
}

/// An authority that signs with SHA-384 instead of SHA-256.
pub(crate) fn authority_sha384(common_name: &str) -> Authority {
    authority_with(common_name, &PKCS_ECDSA_P384_SHA384)
}

/// A certificate with its private key, both in PEM format.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

fn params(names: &[&str], common_name: &str, until_year: i32) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("parameters");
    params.distinguished_name = named(common_name);
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(until_year, 1, 1);
    params
}

/// Issues a server certificate for `names`, valid until the start of `until_year`.
pub(crate) fn server(authority: &Authority, names: &[&str], common_name: &str, until_year: i32) -> Identity {
    let key = KeyPair::generate().expect("a key");
    let signed = params(names, common_name, until_year).signed_by(&key, authority).expect("a certificate");
    Identity { certificate: signed.pem(), key: key.serialize_pem() }
}

/// Issues a client certificate for a database user.
pub(crate) fn client(authority: &Authority, user: &str) -> Identity {
    let key = KeyPair::generate().expect("a key");
    let mut params = params(&[], user, 2100);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let signed = params.signed_by(&key, authority).expect("a certificate");
    Identity { certificate: signed.pem(), key: key.serialize_pem() }
}

/// Creates a certificate that signs itself and is marked as an authority, as `openssl req -x509` does.
pub(crate) fn self_signed(names: &[&str], common_name: &str, until_year: i32) -> Identity {
    let key = KeyPair::generate().expect("a key");
    let mut params = params(names, common_name, until_year);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signed = params.self_signed(&key).expect("a certificate");
    Identity { certificate: signed.pem(), key: key.serialize_pem() }
}
