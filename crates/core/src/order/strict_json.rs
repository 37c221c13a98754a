//! Parses the JSON of an order, and refuses content that JSONB or a double cannot represent exactly, or that
//! parsers interpret differently. The input was validated by [`JsonText`]; its syntax is not checked again.
//! `serde_json` cannot be used, because its depth limit is one level too low, it keeps the last of several
//! duplicate keys, and it rounds numbers silently.

use serde_json::{Map, Number, Value};

use crate::digest::canonical;
use crate::json::{JsonText, shortened};

/// The reason why valid JSON is refused as an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    DuplicateKey(String),
    Nul,
    LoneSurrogate,
    /// A number that a double cannot represent exactly. Contains its text, truncated.
    InexactNumber(String),
    /// The text is not valid JSON. This cannot occur for validated text.
    Malformed,
}

pub(super) fn read(json: &JsonText) -> Result<Value, Flaw> {
    Reader { rest: json.as_str() }.value()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Parses a value. The recursion depth is the nesting depth of the text, which [`JsonText`] limits.
    fn value(&mut self) -> Result<Value, Flaw> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => Ok(Value::String(self.string()?)),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self) -> Result<Value, Flaw> {
        let mut members = Map::new();
        self.expect('{')?;
        while self.peek()? != b'}' {
            if !members.is_empty() {
                self.expect(',')?;
            }
            let key = self.string()?;
            self.expect(':')?;
            let value = self.value()?;
            if members.contains_key(&key) {
                return Err(Flaw::DuplicateKey(shortened(&key)));
            }
            members.insert(key, value);
        }
        self.expect('}')?;
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Result<Value, Flaw> {
        let mut items = Vec::new();
        self.expect('[')?;
        while self.peek()? != b']' {
            if !items.is_empty() {
                self.expect(',')?;
            }
            items.push(self.value()?);
        }
        self.expect(']')?;
        Ok(Value::Array(items))
    }

    fn string(&mut self) -> Result<String, Flaw> {
        let mut text = String::new();
        self.expect('"')?;
        loop {
            let at = self.rest.find(['"', '\\']).ok_or(Flaw::Malformed)?;
            text.push_str(self.take(at)?);
            if self.take(1)? == "\"" {
                return Ok(text);
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, Flaw> {
        Ok(match self.take(1)? {
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => return self.unicode_escape(),
            quoted => quoted.chars().next().ok_or(Flaw::Malformed)?,
        })
    }

    fn unicode_escape(&mut self) -> Result<char, Flaw> {
        let unit = self.hex()?;
        match unit {
            0 => Err(Flaw::Nul),
            0xd800..=0xdbff => {
                let low = match self.rest.strip_prefix("\\u") {
                    Some(rest) => {
                        self.rest = rest;
                        self.hex()?
                    }
                    None => return Err(Flaw::LoneSurrogate),
                };
                if !(0xdc00..=0xdfff).contains(&low) {
                    return Err(Flaw::LoneSurrogate);
                }
                let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                char::from_u32(code).ok_or(Flaw::Malformed)
            }
            _ => char::from_u32(unit).ok_or(Flaw::LoneSurrogate),
        }
    }

    fn hex(&mut self) -> Result<u32, Flaw> {
        u32::from_str_radix(self.take(4)?, 16).map_err(|_| Flaw::Malformed)
    }

    fn number(&mut self) -> Result<Value, Flaw> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let token = self.take(end)?;
        let double: f64 = token.parse().map_err(|_| Flaw::Malformed)?;
        let inexact = || Flaw::InexactNumber(shortened(token));
        let value = Value::Number(Number::from_f64(double).ok_or_else(inexact)?);
        // Compared with the canonical form, which is sent. The standard library formats doubles halfway between
        // two decimals differently: 1424953923781206.25 ends in .3 instead of .2.
        let shortest = canonical(&value).map_err(|_| Flaw::Malformed)?;
        if Decimal::of(token) == Decimal::of(&shortest) { Ok(value) } else { Err(inexact()) }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Flaw> {
        self.rest = self.rest.strip_prefix(word).ok_or(Flaw::Malformed)?;
        Ok(value)
    }

    /// Skips white space and returns the next byte, without consuming it.
    fn peek(&mut self) -> Result<u8, Flaw> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest.bytes().next().ok_or(Flaw::Malformed)
    }

    fn expect(&mut self, mark: char) -> Result<(), Flaw> {
        self.peek()?;
        self.rest = self.rest.strip_prefix(mark).ok_or(Flaw::Malformed)?;
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<&'a str, Flaw> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Flaw::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// A decimal number in normalized form: its digits without leading or trailing zeros, and the power of ten of
/// the last digit. Zero has no digits, no sign and the power 0.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    power: i64,
}

impl Decimal {
    fn of(numeral: &str) -> Self {
        let (mantissa, exponent) = numeral.split_once(['e', 'E']).unwrap_or((numeral, "0"));
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let without_tail = all.trim_end_matches('0');
        let digits = without_tail.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Self { negative: false, digits, power: 0 };
        }
        let tail = signed(all.len() - without_tail.len());
        let power = exponent_of(exponent).saturating_add(tail).saturating_sub(signed(fraction.len()));
        Self { negative, digits, power }
    }
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Parses an exponent. An exponent that does not fit in 64 bits saturates, because it is out of range for any
/// mantissa of limited length.
fn exponent_of(text: &str) -> i64 {
    text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
