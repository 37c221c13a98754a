//! The signature formats of a subscription. The text comes from the field `signatures` of a request or from the
//! store; [`sign`](super::sign) uses the formats for each message.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::mac::{Algorithm, Encoding};
use super::presets::Preset;
use super::templates::{ContentTemplate, TemplateError, ValueTemplate};
use super::{Keys, Message, WEBHOOK_SIGNATURE};

/// The maximum number of formats, all of which are sent with each request.
pub const SIGNATURES_MAX: usize = 3;
/// The maximum length of the field, in bytes: three custom formats with the longest templates and names.
pub const SIGNATURES_BYTES_MAX: usize = 4_096;
/// The maximum length of a header name, in characters.
pub const HEADER_NAME_CHARS_MAX: usize = 100;

/// Header names that a custom format cannot use, because the request or the connection needs them.
const RESERVED: [&str; 16] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "cookie",
    "date",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
/// The beginnings of header names that a custom format cannot use.
const RESERVED_PREFIXES: [&str; 6] = ["ce-", "content-", "posthaste-", "proxy-", "svix-", "webhook-"];

/// The formats in which requests to a subscription are signed: one to three, with different headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signatures(Vec<Format>);

/// One signature format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Standard Webhooks with HMAC-SHA256.
    Standard,
    /// Standard Webhooks with Ed25519.
    StandardEd25519,
    Preset(Preset),
    Hmac(CustomHmac),
}

/// An HMAC signature whose header and content are configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomHmac {
    header: String,
    algorithm: Algorithm,
    encoding: Encoding,
    content: ContentTemplate,
    value: ValueTemplate,
    timestamp_header: Option<String>,
}

/// An error from parsing the field `signatures`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignaturesError {
    #[error("signatures must have at most {SIGNATURES_BYTES_MAX} bytes, got {0}")]
    TooLong(usize),
    #[error("signatures must be a list: {0}")]
    NotAList(String),
    #[error("signatures must have 1 to {SIGNATURES_MAX} entries, got {0}")]
    Count(usize),
    #[error("signatures[{index}]{problem}")]
    Entry { index: usize, problem: FormatError },
    #[error("signatures must use different headers, got {0} twice")]
    SameHeader(String),
}

/// An error for one entry of the field `signatures`. The text continues the position of the entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error(r#" must be "standard", "standard_ed25519", {{"preset": …}} or {{"hmac": {{…}}}}: {0}"#)]
    Form(String),
    #[error(".preset must be svix, github, stripe, shopify or slack, got {0}")]
    Preset(String),
    #[error(".hmac.algorithm must be sha1, sha256 or sha512, got {0}")]
    Algorithm(String),
    #[error(".hmac.encoding must be hex or base64, got {0}")]
    Encoding(String),
    #[error(
        ".hmac.{field} must be the name of a header: 1 to {HEADER_NAME_CHARS_MAX} letters, digits and \
         !#$%&'*+-.^_`|~, got {got:?}"
    )]
    HeaderName { field: &'static str, got: String },
    #[error(".hmac.{field} must not be {got}, which is reserved")]
    ReservedHeader { field: &'static str, got: String },
    #[error(".hmac.content {0}")]
    Content(TemplateError),
    #[error(".hmac.value {0}")]
    Value(TemplateError),
}

/// The JSON form of a format.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FormatText {
    Standard,
    StandardEd25519,
    Preset(String),
    Hmac(HmacText),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HmacText {
    header: String,
    algorithm: String,
    encoding: String,
    content: String,
    value: String,
    timestamp_header: Option<String>,
}

impl Signatures {
    /// Parses a JSON list of formats.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a list of one to three valid formats with different headers.
    /// `standard` and `standard_ed25519` may share `webhook-signature`.
    pub fn parse(json: &str) -> Result<Self, SignaturesError> {
        if json.len() > SIGNATURES_BYTES_MAX {
            return Err(SignaturesError::TooLong(json.len()));
        }
        let entries = entries(json)?;
        if !(1..=SIGNATURES_MAX).contains(&entries.len()) {
            return Err(SignaturesError::Count(entries.len()));
        }
        let mut formats = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let checked = format(entry).and_then(|format| format.check_names().map(|()| format));
            formats.push(checked.map_err(|problem| SignaturesError::Entry { index, problem })?);
        }
        check_different_headers(&formats)?;
        Ok(Self(formats))
    }

    /// Creates the formats from stored text. Limits and reserved names are not checked again, because they may change
    /// after the subscription was accepted. Text that is not a list of formats was written by another program;
    /// it is read as the default.
    pub fn from_store(json: &str) -> Self {
        let formats = entries(json).ok().and_then(|entries| {
            let formats: Result<Vec<Format>, FormatError> = entries.into_iter().map(format).collect();
            formats.ok().filter(|formats| !formats.is_empty())
        });
        formats.map_or_else(Self::default, Self)
    }

    /// Returns the JSON list that [`parse`](Self::parse) reads.
    pub fn to_json(&self) -> String {
        self.0.iter().map(Format::to_value).collect::<serde_json::Value>().to_string()
    }

    pub fn formats(&self) -> &[Format] {
        &self.0
    }

    /// Returns whether a format signs with the Ed25519 key of the subscription.
    pub fn uses_ed25519(&self) -> bool {
        self.0.contains(&Format::StandardEd25519)
    }

    /// Returns whether a format signs with the secrets of the subscription.
    pub fn uses_secret(&self) -> bool {
        self.0.iter().any(|format| *format != Format::StandardEd25519)
    }

    /// Returns whether a format needs a secret that is base64.
    pub(super) fn decodes_secret(&self) -> bool {
        self.0.iter().any(|format| matches!(format, Format::Standard | Format::Preset(Preset::Svix)))
    }

    /// Returns the lower-case names of all headers that [`sign`](super::sign) can return, each once.
    pub fn header_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for name in self.0.iter().flat_map(Format::header_names).map(str::to_ascii_lowercase) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// The format that every subscription had before it could be chosen.
impl Default for Signatures {
    fn default() -> Self {
        Self(vec![Format::Standard])
    }
}

impl Format {
    fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Standard => json!("standard"),
            Self::StandardEd25519 => json!("standard_ed25519"),
            Self::Preset(preset) => json!({ "preset": preset.name() }),
            Self::Hmac(custom) => json!({ "hmac": custom.to_value() }),
        }
    }

    fn header_names(&self) -> Vec<&str> {
        match self {
            Self::Standard | Self::StandardEd25519 => vec![WEBHOOK_SIGNATURE],
            Self::Preset(preset) => preset.headers().to_vec(),
            Self::Hmac(custom) => {
                std::iter::once(custom.header.as_str()).chain(custom.timestamp_header.as_deref()).collect()
            }
        }
    }

    /// Checks that a custom format uses no reserved header.
    fn check_names(&self) -> Result<(), FormatError> {
        match self {
            Self::Standard | Self::StandardEd25519 | Self::Preset(_) => Ok(()),
            Self::Hmac(custom) => {
                check_not_reserved("header", &custom.header)?;
                custom
                    .timestamp_header
                    .iter()
                    .try_for_each(|name| check_not_reserved("timestamp_header", name))
            }
        }
    }
}

impl CustomHmac {
    fn new(text: HmacText) -> Result<Self, FormatError> {
        let HmacText { header, algorithm, encoding, content, value, timestamp_header } = text;
        Ok(Self {
            header: header_name("header", header)?,
            algorithm: Algorithm::parse(&algorithm).ok_or(FormatError::Algorithm(algorithm))?,
            encoding: Encoding::parse(&encoding).ok_or(FormatError::Encoding(encoding))?,
            content: ContentTemplate::parse(&content).map_err(FormatError::Content)?,
            value: ValueTemplate::parse(&value).map_err(FormatError::Value)?,
            timestamp_header: timestamp_header
                .map(|name| header_name("timestamp_header", name))
                .transpose()?,
        })
    }

    fn to_value(&self) -> serde_json::Value {
        let mut value = json!({
            "header": self.header,
            "algorithm": self.algorithm.name(),
            "encoding": self.encoding.name(),
            "content": self.content.to_string(),
            "value": self.value.to_string(),
        });
        if let (Some(name), Some(object)) = (&self.timestamp_header, value.as_object_mut()) {
            object.insert("timestamp_header".to_owned(), json!(name));
        }
        value
    }

    /// Returns the headers for the newest secret, or none if there is no secret.
    pub(super) fn sign(&self, keys: &Keys<'_>, message: &Message<'_>) -> Vec<(String, String)> {
        let Some(newest) = keys.secrets.first() else { return Vec::new() };
        let timestamp = message.timestamp_s.to_string();
        let mac = self.algorithm.mac(newest.text_key(), self.content.pieces(message, &timestamp));
        let value = self.value.fill(message, &timestamp, &self.encoding.encode(&mac));
        let mut headers = vec![(self.header.clone(), value)];
        headers.extend(self.timestamp_header.clone().map(|name| (name, timestamp)));
        headers
    }
}

fn entries(json: &str) -> Result<Vec<&RawValue>, SignaturesError> {
    serde_json::from_str(json).map_err(|error| SignaturesError::NotAList(error.to_string()))
}

fn format(entry: &RawValue) -> Result<Format, FormatError> {
    let text = serde_json::from_str(entry.get()).map_err(|error| FormatError::Form(error.to_string()))?;
    match text {
        FormatText::Standard => Ok(Format::Standard),
        FormatText::StandardEd25519 => Ok(Format::StandardEd25519),
        FormatText::Preset(name) => Preset::parse(&name).map(Format::Preset).ok_or(FormatError::Preset(name)),
        FormatText::Hmac(text) => CustomHmac::new(text).map(Format::Hmac),
    }
}

/// Checks that a name is a token of RFC 9110.
fn header_name(field: &'static str, name: String) -> Result<String, FormatError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if (1..=HEADER_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(name)
    } else {
        Err(FormatError::HeaderName { field, got: name })
    }
}

fn check_not_reserved(field: &'static str, name: &str) -> Result<(), FormatError> {
    let lower = name.to_ascii_lowercase();
    let reserved = RESERVED.contains(&lower.as_str())
        || RESERVED_PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
    if reserved { Err(FormatError::ReservedHeader { field, got: name.to_owned() }) } else { Ok(()) }
}

fn check_different_headers(formats: &[Format]) -> Result<(), SignaturesError> {
    let mut seen: Vec<(String, &Format)> = Vec::new();
    for format in formats {
        for name in format.header_names() {
            let lower = name.to_ascii_lowercase();
            let shared = |other: &Format| lower == WEBHOOK_SIGNATURE && other != format;
            if seen.iter().any(|(used, other)| *used == lower && !shared(other)) {
                return Err(SignaturesError::SameHeader(name.to_owned()));
            }
            seen.push((lower, format));
        }
    }
    Ok(())
}
