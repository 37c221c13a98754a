//! Reads what Posthaste needs from an X.509 certificate: names, validity, and the hash for channel binding.

use posthaste_core::Timestamp;
use rustls::pki_types::{ServerName, UnixTime};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use std::net::IpAddr;
use std::time::Duration;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, NameConstraints, SubjectAltName};
use x509_cert::{Certificate, Version};

/// A parsed certificate.
pub(crate) struct ServerCertificate(Certificate);

impl ServerCertificate {
    /// Parses a certificate in DER format. Returns `None` if it is malformed.
    pub(crate) fn parse(der: &[u8]) -> Option<Self> {
        Certificate::from_der(der).ok().map(Self)
    }

    pub(crate) fn subject(&self) -> String {
        self.0.tbs_certificate().subject().to_string()
    }

    pub(crate) fn issuer(&self) -> String {
        self.0.tbs_certificate().issuer().to_string()
    }

    fn not_after(&self) -> Duration {
        self.0.tbs_certificate().validity().not_after.to_unix_duration()
    }

    pub(crate) fn expires(&self) -> Option<Timestamp> {
        i64::try_from(self.not_after().as_micros()).ok().map(Timestamp::from_micros)
    }

    /// Returns whether `now` is within the validity period.
    pub(crate) fn is_valid_at(&self, now: UnixTime) -> bool {
        let not_before = self.0.tbs_certificate().validity().not_before.to_unix_duration();
        (not_before.as_secs()..=self.not_after().as_secs()).contains(&now.as_secs())
    }

    /// Returns whether the certificate names itself as its issuer.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.0.tbs_certificate().subject() == self.0.tbs_certificate().issuer()
    }

    /// Returns whether the certificate may sign others. Version 1 has no extension that says so.
    pub(crate) fn is_authority(&self) -> bool {
        match self.0.tbs_certificate().get_extension::<BasicConstraints>() {
            Ok(Some((_, constraints))) => constraints.ca,
            Ok(None) => self.0.tbs_certificate().version() == Version::V1,
            Err(_) => false,
        }
    }

    pub(crate) fn has_name_constraints(&self) -> bool {
        !matches!(self.0.tbs_certificate().get_extension::<NameConstraints>(), Ok(None))
    }

    /// Returns the DNS names and addresses of the extension `subjectAltName`, or `None` if it cannot be read.
    pub(crate) fn alternative_names(&self) -> Option<Vec<AlternativeName>> {
        let Some((_, names)) = self.0.tbs_certificate().get_extension::<SubjectAltName>().ok()? else {
            return Some(Vec::new());
        };
        let read = |name: &GeneralName| match name {
            GeneralName::DnsName(name) => Some(AlternativeName::Dns(name.as_str().to_owned())),
            GeneralName::IpAddress(address) => {
                Some(AlternativeName::Address(parse_address(address.as_bytes())?))
            }
            GeneralName::OtherName(_)
            | GeneralName::Rfc822Name(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::UniformResourceIdentifier(_)
            | GeneralName::RegisteredId(_) => None,
        };
        Some(names.0.iter().filter_map(read).collect())
    }

    pub(crate) fn common_name(&self) -> Option<String> {
        let name = self.0.tbs_certificate().subject().common_name().ok().flatten()?;
        Some(name.value().into_owned())
    }

    /// Returns whether the common name is that of `server`. As in libpq, it counts only if the certificate has no
    /// alternative name of the same type.
    pub(crate) fn common_name_matches(&self, server: &ServerName<'_>) -> bool {
        let is_dns = matches!(server, ServerName::DnsName(_));
        let (Some(pattern), Some(names)) = (self.common_name(), self.alternative_names()) else {
            return false;
        };
        if names.iter().any(|name| matches!(name, AlternativeName::Dns(_)) == is_dns) {
            return false;
        }
        let host = server.to_str().to_ascii_lowercase();
        let pattern = pattern.to_ascii_lowercase();
        match (pattern.strip_prefix("*."), host.split_once('.'), server) {
            (Some(domain), Some((_, parent)), ServerName::DnsName(_)) => {
                domain == parent && domain.contains('.')
            }
            _ => pattern == host,
        }
    }
}

/// An alternative name of a certificate.
pub(crate) enum AlternativeName {
    Dns(String),
    Address(IpAddr),
}

impl std::fmt::Display for AlternativeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

fn parse_address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    four.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// Returns the channel binding data `tls-server-end-point` (RFC 5929): the hash of the certificate with the hash
/// function of its signature, or SHA-256 instead of MD5 and SHA-1. Returns `None` for other signatures (Ed25519).
pub(crate) fn end_point_hash(der: &[u8]) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(der).ok()?;
    let hash = match certificate.signature_algorithm().oid.to_string().as_str() {
        // md5WithRSAEncryption, sha1WithRSAEncryption, ecdsa-with-SHA1, sha256WithRSAEncryption, ecdsa-with-SHA256
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.3.2" => Sha256::digest(der).to_vec(),
        // sha384WithRSAEncryption, ecdsa-with-SHA384
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Sha384::digest(der).to_vec(),
        // sha512WithRSAEncryption, ecdsa-with-SHA512
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Sha512::digest(der).to_vec(),
        _ => return None,
    };
    Some(hash)
}
