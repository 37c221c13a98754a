//! SHA-256 digests of orders and of broker responses. The digest of an order covers its canonical form (RFC
//! 8785), so that it does not depend on formatting. The digest of a response covers its bytes.

use std::borrow::Cow;
use std::fmt;

use crate::json::is_too_deep;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";
const HEX_CHARS: usize = 64;

/// A SHA-256 digest as text: `sha256:` followed by 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digest(Cow<'static, str>);

/// An error from parsing a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest must be \"{PREFIX}\" followed by {HEX_CHARS} lower-case hexadecimal digits")]
pub struct BadDigest;

impl Digest {
    /// The result digest for an "already processed" response without a body. It cannot be confused with a real
    /// digest.
    pub const FROM_CONFLICT: Self = Self(Cow::Borrowed("sha256:from-conflict"));

    pub fn parse(text: &str) -> Result<Self, BadDigest> {
        if text == Self::FROM_CONFLICT.as_str() {
            return Ok(Self::FROM_CONFLICT);
        }
        let hex = text.strip_prefix(PREFIX).ok_or(BadDigest)?;
        let is_hex = hex.len() == HEX_CHARS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex { Ok(Self(Cow::Owned(text.to_owned()))) } else { Err(BadDigest) }
    }

    /// Creates a digest from stored text, without validation.
    pub const fn from_store(text: String) -> Self {
        Self(Cow::Owned(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error for a value that has no canonical form.
#[derive(Debug, thiserror::Error)]
#[error("the value has no canonical JSON form")]
pub struct NotCanonical(#[from] serde_json::Error);

/// Returns the canonical form of a value according to RFC 8785: keys are sorted by UTF-16 code units, and
/// numbers are formatted as in ECMAScript.
pub fn canonical(value: &Value) -> Result<String, NotCanonical> {
    Ok(serde_json_canonicalizer::to_string(value)?)
}

/// Returns the SHA-256 digest of `bytes`.
pub fn digest_of(bytes: &[u8]) -> Digest {
    let hash = Sha256::digest(bytes);
    let mut text = String::with_capacity(PREFIX.len() + HEX_CHARS);
    text.push_str(PREFIX);
    for byte in hash {
        for nibble in [byte >> 4, byte & 0xf] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    Digest(Cow::Owned(text))
}

/// Returns the canonical form of stored JSON text, if its digest is `expected`. The stored text may be
/// formatted differently. Returns `None` if the digest differs, or if the text is nested so deeply that parsing
/// could overflow the stack.
pub fn canonical_of(stored: &str, expected: &Digest) -> Option<String> {
    if is_too_deep(stored) {
        return None;
    }
    let is_expected = |text: &String| digest_of(text.as_bytes()) == *expected;
    Some(stored.to_owned()).filter(is_expected).or_else(|| {
        let mut reader = serde_json::Deserializer::from_str(stored);
        reader.disable_recursion_limit();
        let value: Value = reader.into_iter().next()?.ok()?;
        canonical(&value).ok().filter(is_expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_of(text: &str) -> String {
        canonical(&serde_json::from_str(text).unwrap()).unwrap()
    }

    /// Checks the samples of RFC 8785, appendix B. Columns: the bits of a double, its text.
    #[test]
    fn numbers_match_appendix_b_of_the_rfc() {
        let rows: &[(u64, &str)] = &[
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ];
        for (bits, expected) in rows {
            let value = Value::from(f64::from_bits(*bits));
            assert_eq!(canonical(&value).unwrap(), *expected, "{bits:#018x}");
            assert_eq!(canonical_of(expected), *expected, "{expected} read back");
        }
    }

    /// Checks the examples of RFC 8785 (3.2.2 and 3.2.3) and the samples published with its reference code.
    #[test]
    fn published_samples_match() {
        let rows: &[(&str, &str)] = &[
            (
                // 3.2.2, also published as "values"
                r#"{
                  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                  "literals": [null, true, false]
                }"#,
                concat!(
                    r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
                    r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
                ),
            ),
            (
                // 3.2.3
                r#"{
                  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
                  "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
                  "\u00f6": "Latin Small Letter O With Diaeresis"
                }"#,
                "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\
                 \"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\
                 \"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
            ),
            // arrays
            (r#"[ 56, { "d": true, "10": null, "1": [ ] } ]"#, r#"[56,{"1":[],"10":null,"d":true}]"#),
            (
                // french
                r#"{
                  "peach": "This sorting order", "péché": "is wrong according to French",
                  "pêche": "but canonicalization MUST", "sin":   "ignore locale"
                }"#,
                concat!(
                    r#"{"peach":"This sorting order","péché":"is wrong according to French","#,
                    r#""pêche":"but canonicalization MUST","sin":"ignore locale"}"#
                ),
            ),
            (
                // structures
                r#"{
                  "1": {"f": {"f": "hi","F": 5} ,"\n": 56.0}, "10": { }, "": "empty", "a": { },
                  "111": [ {"e": "yes","E": "no" } ], "A": { }
                }"#,
                r#"{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}"#,
            ),
            // unicode: no normalization
            (r#"{ "Unnormalized Unicode":"A\u030a" }"#, "{\"Unnormalized Unicode\":\"A\u{30a}\"}"),
            (
                // weird
                r#"{
                  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\u000a": "Newline", "1": "One",
                  "\u0080": "Control\u007f", "\ud83d\ude02": "Smiley",
                  "\u00f6": "Latin Small Letter O With Diaeresis",
                  "\ufb33": "Hebrew Letter Dalet With Dagesh", "</script>": "Browser Challenge"
                }"#,
                "{\"\\n\":\"Newline\",\"\\r\":\"Carriage Return\",\"1\":\"One\",\
                 \"</script>\":\"Browser Challenge\",\"\u{80}\":\"Control\u{7f}\",\
                 \"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😂\":\"Smiley\",\
                 \"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(canonical_of(text), *expected);
            assert_eq!(canonical_of(expected), *expected, "canonicalization is idempotent");
        }
    }

    #[test]
    fn digests_are_sha256_in_lower_case() {
        // The messages "abc" from FIPS 180-4, and the empty message.
        let rows: &[(&[u8], &str)] = &[
            (b"abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (b"", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ];
        for (bytes, expected) in rows {
            let digest = digest_of(bytes);
            assert_eq!(digest.as_str(), *expected);
            assert_eq!(Digest::parse(expected), Ok(digest));
        }
    }

    #[test]
    fn invalid_digest_is_refused() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let rows = [
            String::new(),
            hex.to_owned(),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{hex}0"),
            format!("sha256:{}", hex.get(1..).unwrap()),
            format!("sha512:{hex}"),
            format!("SHA256:{hex}"),
            format!("sha256:{}g", hex.get(1..).unwrap()),
        ];
        for text in rows {
            assert_eq!(Digest::parse(&text), Err(BadDigest), "{text}");
        }
        assert_eq!(Digest::parse("sha256:from-conflict"), Ok(Digest::FROM_CONFLICT));
    }
}
