//! Checks the form of PEM text (RFC 7468) for client certificates and private keys. Its content is checked by the TLS
//! library that uses it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{CERTIFICATE_BYTES_MAX, PRIVATE_KEY_BYTES_MAX};

/// The labels of unencrypted private keys: PKCS #8, PKCS #1 and SEC 1.
const KEY_LABELS: [&str; 3] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
/// A block that OpenSSL writes before a SEC 1 key. The key repeats its content.
const EC_PARAMETERS: &str = "EC PARAMETERS";
/// The length of a line of base64, in characters.
const LINE_CHARS: usize = 64;

struct Block<'a> {
    label: &'a str,
    base64: String,
}

/// Returns the certificate chain in a normal form. Text outside the blocks is removed.
///
/// # Errors
///
/// Returns what the text must be.
pub(super) fn certificates(text: &str) -> Result<String, String> {
    check_length(text, CERTIFICATE_BYTES_MAX)?;
    let blocks = parse(text).filter(|blocks| !blocks.is_empty());
    let blocks = blocks.ok_or("PEM that begins with -----BEGIN CERTIFICATE-----")?;
    // The certificate is public. A key that is pasted with it must not be stored and shown.
    if blocks.iter().any(|block| block.label != "CERTIFICATE") {
        return Err("PEM with CERTIFICATE blocks only: the private key belongs into key".to_owned());
    }
    let normal: String = blocks.iter().map(write).collect();
    // The normal form may have more line breaks, and is checked again when it is read from the store.
    check_length(&normal, CERTIFICATE_BYTES_MAX)?;
    Ok(normal)
}

/// Returns the private key in a normal form. Text outside the block is removed.
///
/// # Errors
///
/// Returns what the text must be, without the text.
pub(super) fn private_key(text: &str) -> Result<String, String> {
    check_length(text, PRIVATE_KEY_BYTES_MAX)?;
    let expected = "PEM with exactly one PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY block, not encrypted";
    let mut blocks = parse(text).ok_or(expected)?;
    blocks.retain(|block| block.label != EC_PARAMETERS);
    match &blocks[..] {
        [block] if KEY_LABELS.contains(&block.label) => Ok(write(block)),
        _ => Err(expected.to_owned()),
    }
}

fn check_length(text: &str, bytes_max: usize) -> Result<(), String> {
    if text.len() > bytes_max { Err(format!("at most {bytes_max} bytes of PEM")) } else { Ok(()) }
}

/// Returns the blocks, or `None` if one of them is malformed.
fn parse(text: &str) -> Option<Vec<Block<'_>>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in text.lines().map(str::trim) {
        let boundary = line.strip_prefix("-----").map(|rest| rest.strip_suffix("-----"));
        match (boundary, open.take()) {
            (None, None) => {}
            (None, Some(mut block)) => {
                block.base64.push_str(line);
                open = Some(block);
            }
            (Some(boundary), None) => {
                open = Some(Block { label: boundary?.strip_prefix("BEGIN ")?, base64: String::new() });
            }
            (Some(boundary), Some(block)) => {
                let is_end = boundary?.strip_prefix("END ")? == block.label;
                let is_base64 = STANDARD.decode(&block.base64).is_ok_and(|bytes| !bytes.is_empty());
                if !(is_end && is_base64) {
                    return None;
                }
                blocks.push(block);
            }
        }
    }
    if open.is_some() { None } else { Some(blocks) }
}

fn write(block: &Block<'_>) -> String {
    let Block { label, base64 } = block;
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at_checked(LINE_CHARS).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
