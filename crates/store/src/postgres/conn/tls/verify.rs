//! Verifies the certificate of a PostgreSQL server as far as the URL requests it.

use crate::postgres::conn::tls::certificate::ServerCertificate;
use crate::postgres::conn::tls::files;
use crate::postgres::conn::url::{RootCertificates, SslMode, TlsParameters};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Verifies the chain if root certificates are given, and also the host name for `verify-full`.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    /// `None` if the chain is not verified.
    roots: Option<Roots>,
    checks_name: bool,
    /// A description of the root certificates for messages.
    trusted: String,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The certificates of `sslrootcert`. As in OpenSSL, a self-signed authority is trusted, and the others only help to
/// build a chain to one.
#[derive(Debug)]
struct Roots {
    authorities: Vec<CertificateDer<'static>>,
    others: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let is_authority = |der: &CertificateDer<'_>| {
            ServerCertificate::parse(der)
                .is_some_and(|parsed| parsed.is_authority() && parsed.is_self_issued())
        };
        let (authorities, others) = certificates.into_iter().partition(is_authority);
        Self { authorities, others }
    }

    /// Returns the authorities that have not expired, which rustls does not check.
    fn valid_at(&self, now: UnixTime) -> RootCertStore {
        let mut store = RootCertStore::empty();
        let is_valid = |der: &&CertificateDer<'_>| is_valid_at(der, now);
        store.add_parsable_certificates(self.authorities.iter().filter(is_valid).cloned());
        store
    }

    fn certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.authorities.iter().chain(&self.others)
    }
}

fn is_valid_at(der: &CertificateDer<'_>, now: UnixTime) -> bool {
    ServerCertificate::parse(der).is_some_and(|parsed| parsed.is_valid_at(now))
}

impl ServerVerifier {
    pub(crate) fn new(parameters: &TlsParameters, provider: &CryptoProvider) -> Result<Self, String> {
        let (certificates, trusted) = match &parameters.roots {
            RootCertificates::Unset => (None, String::new()),
            RootCertificates::System => {
                let certificates = rustls_native_certs::load_native_certs().certs;
                if certificates.is_empty() {
                    return Err("sslrootcert=system: this machine has no certificate authorities; install \
                                ca-certificates, or name a file"
                        .to_owned());
                }
                (
                    Some(certificates),
                    "the certificate authorities of this machine (sslrootcert=system)".to_owned(),
                )
            }
            RootCertificates::File(file) => {
                (Some(files::certificates(file)?), format!("{} (sslrootcert)", file.display()))
            }
        };
        let roots = certificates.map(Roots::new);
        // A certificate that is no authority is trusted only as that of the server itself.
        let is_usable = |der: &CertificateDer<'_>| ServerCertificate::parse(der).is_some();
        if roots.as_ref().is_some_and(|roots| !roots.certificates().any(is_usable)) {
            return Err(format!("{trusted} contains no valid certificate"));
        }
        Ok(Self {
            roots,
            checks_name: parameters.mode == SslMode::VerifyFull,
            trusted,
            algorithms: provider.signature_verification_algorithms,
        })
    }

    fn verify_chain(
        &self,
        roots: &Roots,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let is_itself = roots.certificates().any(|der| der == server)
            && ServerCertificate::parse(server).is_some_and(|parsed| parsed.is_self_issued());
        if is_itself {
            // A self-signed certificate that is trusted itself.
            return if is_valid_at(server, now) { Ok(()) } else { Err(CertificateError::Expired.into()) };
        }
        let certificate = ParsedCertificate::try_from(server)?;
        let intermediates: Vec<CertificateDer<'_>> =
            intermediates.iter().chain(&roots.others).map(|der| CertificateDer::from(der.as_ref())).collect();
        let store = roots.valid_at(now);
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &store,
            &intermediates,
            now,
            self.algorithms.all,
        )
    }

    fn verify_name(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
    ) -> Result<(), Error> {
        let outcome =
            ParsedCertificate::try_from(server).and_then(|parsed| verify_server_name(&parsed, name));
        let Err(error) = outcome else {
            return Ok(());
        };
        let is_mismatch = matches!(
            error,
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            )
        );
        // Name constraints of an authority are checked for alternative names only.
        let constrains = |der: &CertificateDer<'_>| {
            ServerCertificate::parse(der).is_none_or(|parsed| parsed.has_name_constraints())
        };
        let mut roots = self.roots.iter().flat_map(Roots::certificates);
        let is_constrained = intermediates.iter().any(constrains) || roots.any(constrains);
        let by_common_name = is_mismatch
            && !is_constrained
            && ServerCertificate::parse(server).is_some_and(|parsed| parsed.common_name_matches(name));
        if by_common_name { Ok(()) } else { Err(error) }
    }

    /// Replaces an error by one that names the certificate, its issuer and the trusted authorities.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "few of the errors of rustls have a text of their own"
    )]
    fn refuse(&self, error: &Error, server: &CertificateDer<'_>, name: &ServerName<'_>) -> Error {
        let certificate = ServerCertificate::parse(server);
        let (subject, issuer, names) = certificate.map_or_else(Default::default, |certificate| {
            let names: Vec<String> =
                certificate.alternative_names().unwrap_or_default().iter().map(ToString::to_string).collect();
            let common_name = certificate.common_name().into_iter().collect();
            (certificate.subject(), certificate.issuer(), if names.is_empty() { common_name } else { names })
        });
        let is_for =
            || format!("is for {}, not for {} (sslmode=verify-full)", names.join(", "), name.to_str());
        let reason = match error {
            Error::InvalidCertificate(error) => match error {
                CertificateError::UnknownIssuer => Some(format!("is not signed by one of {}", self.trusted)),
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Some("has expired; renew it on the server".to_owned())
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Some("is not valid yet; check the clocks".to_owned())
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    Some(is_for())
                }
                _ => None,
            },
            _ => None,
        };
        let reason = reason.unwrap_or_else(|| format!("cannot be verified: {error}"));
        let text = format!("the server certificate {subject:?}, issued by {issuer:?}, {reason}");
        CertificateError::Other(OtherError(Arc::new(CertificateRefused(text)))).into()
    }
}

/// The reason why a certificate was refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CertificateRefused(String);

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain =
            self.roots.as_ref().map_or(Ok(()), |roots| self.verify_chain(roots, server, intermediates, now));
        let verified = chain.and_then(|()| {
            if self.checks_name { self.verify_name(server, intermediates, name) } else { Ok(()) }
        });
        verified.map_err(|error| self.refuse(&error, server, name))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
