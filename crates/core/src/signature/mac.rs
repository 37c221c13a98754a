//! HMAC with keys of any length, over content that is hashed in pieces. The signature formats pass the key and the
//! pieces; [`message_id`](crate::message_id) uses the same function.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::digest::Digest;
use hmac::digest::common::Key;
use hmac::{EagerHash, Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

/// The hash function of a custom HMAC signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha1,
    Sha256,
    Sha512,
}

impl Algorithm {
    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Sha1, Self::Sha256, Self::Sha512].into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns the name of the algorithm in a subscription.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    pub(super) fn mac<'a>(self, key: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        match self {
            Self::Sha1 => mac::<Sha1>(key, pieces),
            Self::Sha256 => mac::<Sha256>(key, pieces),
            Self::Sha512 => mac::<Sha512>(key, pieces),
        }
    }
}

/// The text form of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Lower-case hexadecimal digits.
    Hex,
    /// Base64 with the standard alphabet and padding.
    Base64,
}

impl Encoding {
    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Hex, Self::Base64].into_iter().find(|encoding| encoding.name() == name)
    }

    /// Returns the name of the encoding in a subscription.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }

    pub(super) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => hex(bytes),
            Self::Base64 => STANDARD.encode(bytes),
        }
    }
}

/// Returns the HMAC-SHA256 of the concatenated pieces.
pub(crate) fn hmac_sha256(key: &[u8], pieces: &[&[u8]]) -> [u8; 32] {
    keyed::<Sha256>(key, pieces.iter().copied()).finalize().into_bytes().into()
}

fn mac<'a, D: EagerHash + Digest>(key: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    keyed::<D>(key, pieces).finalize().into_bytes().to_vec()
}

/// Creates the HMAC and hashes the pieces. The key is reduced to one block as RFC 2104 specifies: a longer key is
/// replaced by its hash, a shorter key is padded with zeros. The constructor for one block is not fallible, in
/// contrast to the constructor for a slice.
fn keyed<'a, D: EagerHash + Digest>(key: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Hmac<D> {
    let mut block = Key::<Hmac<D>>::default();
    let fill = |slots: &mut [u8], bytes: &[u8]| {
        for (slot, byte) in slots.iter_mut().zip(bytes) {
            *slot = *byte;
        }
    };
    if key.len() > block.len() {
        fill(&mut block, &D::digest(key));
    } else {
        fill(&mut block, key);
    }
    pieces.fold(Hmac::new(&block), |mac, piece| mac.chain_update(piece))
}

/// Returns lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
