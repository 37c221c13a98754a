//! Tests which certificates and keys form an identity, and which differences its fingerprint shows.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

/// The length of the PKCS #8 header before the PKCS #1 form of an RSA key with 2,048 bits, in bytes.
const RSA_HEADER: usize = 26;
/// The length of the PKCS #8 header before the SEC 1 form of a P-256 key, in bytes.
const P256_HEADER: usize = 29;

fn certificate(key: &KeyPair) -> String {
    let params = CertificateParams::new(["client.example".to_owned()]).expect("parameters");
    params.self_signed(key).expect("a certificate").pem()
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn block(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn rejected(certificate: &str, key: &str) -> Option<IdentityError> {
    ClientIdentity::from_pem(certificate, key).err()
}

#[test]
fn every_common_form_of_a_key_is_accepted() {
    let (p256, rsa) = (key(), KeyPair::generate_for(&PKCS_RSA_SHA256).expect("a key"));
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
    let ed25519 = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let sec1 = block("EC PRIVATE KEY", &p256.serialize_der()[P256_HEADER..]);
    let parameters = block("EC PARAMETERS", b"\x06\x08*\x86H\xce=\x03\x01\x07");
    let rows = [
        ("P-256, PKCS #8", certificate(&p256), p256.serialize_pem()),
        ("P-256, SEC 1", certificate(&p256), sec1.clone()),
        ("P-256, SEC 1 after its parameters", certificate(&p256), parameters + &sec1),
        ("P-384, PKCS #8", certificate(&p384), p384.serialize_pem()),
        ("Ed25519, PKCS #8", certificate(&ed25519), ed25519.serialize_pem()),
        ("RSA, PKCS #8", certificate(&rsa), rsa.serialize_pem()),
        ("RSA, PKCS #1", certificate(&rsa), block("RSA PRIVATE KEY", &rsa.serialize_der()[RSA_HEADER..])),
        ("Windows line ends", certificate(&p256).replace('\n', "\r\n"), sec1.replace('\n', "\r\n")),
        ("text around the blocks", format!("Subject: …\n{}", certificate(&p256)), format!("\n{sec1}\n")),
    ];
    for (what, certificate, key) in rows {
        assert_eq!(rejected(&certificate, &key), None, "{what}");
    }
}

#[test]
fn each_error_has_its_own_message() {
    let (ours, theirs) = (key(), key());
    let (certificate, good) = (certificate(&ours), ours.serialize_pem());
    let foreign = block("CERTIFICATE", b"no certificate");
    let cut = certificate.replace("-----END CERTIFICATE-----", "");
    let mut wrong_base64 = good.clone();
    wrong_base64.insert(40, '!');
    let legacy =
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let rows = [
        (String::new(), good.clone(), IdentityError::NoCertificate),
        ("a certificate".to_owned(), good.clone(), IdentityError::NoCertificate),
        (format!("{certificate}{good}"), good.clone(), IdentityError::KeyInCertificate),
        (cut, good.clone(), IdentityError::CertificatePem),
        (foreign.clone(), good.clone(), IdentityError::CertificateInvalid { position: 1 }),
        (format!("{certificate}{foreign}"), good.clone(), IdentityError::CertificateInvalid { position: 2 }),
        (certificate.repeat(CHAIN_MAX + 1), good.clone(), IdentityError::ChainTooLong),
        (" ".repeat(CERTIFICATE_BYTES_MAX + 1), good.clone(), IdentityError::CertificateTooLong),
        (certificate.clone(), String::new(), IdentityError::NoKey),
        (certificate.clone(), certificate.clone(), IdentityError::NoKey),
        (certificate.clone(), wrong_base64, IdentityError::KeyPem),
        (certificate.clone(), good.repeat(2), IdentityError::SeveralKeys),
        (certificate.clone(), block("ENCRYPTED PRIVATE KEY", b"?"), IdentityError::KeyEncrypted),
        (certificate.clone(), legacy.to_owned(), IdentityError::KeyEncrypted),
        (certificate.clone(), block("PRIVATE KEY", b"no key"), IdentityError::KeyUnsupported),
        (certificate.clone(), " ".repeat(KEY_BYTES_MAX + 1), IdentityError::KeyTooLong),
        (certificate.clone(), theirs.serialize_pem(), IdentityError::Mismatch),
    ];
    for (certificate, key, expected) in rows {
        assert_eq!(rejected(&certificate, &key), Some(expected), "{expected}");
    }
    assert_eq!(rejected(&certificate.repeat(CHAIN_MAX), &good), None);
}

#[test]
fn fingerprint_depends_on_the_whole_chain_and_is_all_that_is_displayed() {
    let (ours, theirs) = (key(), key());
    let (certificate, issuer) = (certificate(&ours), certificate(&theirs));
    let identity = |certificate: &str, key: &KeyPair| {
        ClientIdentity::from_pem(certificate, &key.serialize_pem()).expect("an identity")
    };
    let one = identity(&certificate, &ours);
    assert_eq!(one.fingerprint(), identity(&certificate, &ours).fingerprint());
    assert_ne!(one.fingerprint(), identity(&format!("{certificate}{issuer}"), &ours).fingerprint());
    assert_ne!(one.fingerprint(), identity(&issuer, &theirs).fingerprint());
    let shown = format!("{one:?}");
    assert_eq!(shown, format!("ClientIdentity({})", one.fingerprint()));
    assert_eq!(shown.len(), "ClientIdentity()".len() + 64);
}
