//! The parameters of a database URL: percent-encoded pairs of name and value after the question mark.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A keyword of a URL parameter.
pub(super) trait Keyword: Copy + 'static {
    const ALL: &'static [(&'static str, Self)];
}

/// The parameters after the question mark that have not been read yet.
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("a parameter after the ? has no value")?;
            let (name, value) = (decode("parameter name", name)?, decode("parameter", value)?);
            if values.contains_key(&name) {
                return Err(format!("the parameter {name} is set twice"));
            }
            values.insert(name, value);
        }
        Ok(Self(values))
    }

    /// Removes a parameter. An empty value counts as not set.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// Removes a parameter whose value is a keyword. `why` explains why other keywords of libpq are refused.
    pub(super) fn keyword<K: Keyword>(&mut self, name: &str, why: &str) -> Result<Option<K>, String> {
        // Not `take`: an empty value, such as that of an unset variable in a template, is refused.
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        if let Some((_, keyword)) = K::ALL.iter().find(|(known, _)| *known == value) {
            return Ok(Some(*keyword));
        }
        let accepted: Vec<&str> = K::ALL.iter().map(|(known, _)| *known).collect();
        let is_known = ["allow", "read-only", "standby", "prefer-standby"].contains(&value.as_str());
        let why = if is_known && !why.is_empty() { format!(" ({why})") } else { String::new() };
        Err(format!("{name}={value} is not supported{why}; accepted values: {}", accepted.join(", ")))
    }

    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, String> {
        let number = |value: String| {
            let number = value.parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| {
                format!(
                    "the parameter {name} must be a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
            })
        };
        self.take(name).map(number).transpose()
    }

    pub(super) fn seconds(
        &mut self,
        name: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<Duration>, String> {
        Ok(self.number(name, range)?.map(|seconds| Duration::from_secs(seconds.into())))
    }

    /// Refuses the parameters that are left. `application_name` and similar ones are ignored, because Posthaste sets
    /// its own.
    pub(super) fn finish(mut self) -> Result<(), String> {
        for ignored in ["application_name", "fallback_application_name", "client_encoding"] {
            self.0.remove(ignored);
        }
        // The default of libpq, and the value that turns the unsupported encryption off.
        self.0
            .retain(|name, value| !(name == "gssencmode" && ["disable", "prefer"].contains(&value.as_str())));
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("the parameter {name} is not supported")),
        }
    }
}

/// Decodes percent-encoded text.
pub(super) fn decode(what: &str, text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let value = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        let value = value.filter(|value| *value != 0);
        bytes.push(value.ok_or_else(|| format!("the {what} contains a % without two hexadecimal digits"))?);
    }
    let decoded = String::from_utf8(bytes).map_err(|_| format!("the {what} is not UTF-8"))?;
    if decoded.contains('\0') { Err(format!("the {what} contains a NUL byte")) } else { Ok(decoded) }
}
