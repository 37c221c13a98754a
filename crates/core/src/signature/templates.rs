//! The templates of custom HMAC signatures: literal text with placeholders in braces. They come from the field
//! `signatures` of a subscription; [`CustomHmac`](super::CustomHmac) fills them for each message.

use std::fmt;

use super::Message;

/// The maximum length of a template, in characters.
pub const TEMPLATE_CHARS_MAX: usize = 200;

/// An error for an invalid template. The text continues the name of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("must have at most {TEMPLATE_CHARS_MAX} characters, got {0}")]
    TooLong(usize),
    #[error("must contain only visible ASCII characters, got {0:?}")]
    NotVisible(char),
    #[error("must not contain {{{{ or }}}}: a literal brace is not supported")]
    DoubledBrace,
    #[error("must have a matching brace for each brace")]
    Unbalanced,
    #[error("must contain only the placeholders {allowed}, got {{{got}}}")]
    Placeholder { got: String, allowed: &'static str },
    #[error("must contain {0}")]
    Missing(&'static str),
    #[error("must contain {0} only once")]
    Repeated(&'static str),
}

/// A placeholder of one kind of template.
trait Placeholder: Copy + PartialEq + 'static {
    /// Every placeholder with its text.
    const ALL: &'static [(Self, &'static str)];
    /// The same as a list for people.
    const LIST: &'static str;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InContent {
    Id,
    Timestamp,
    Body,
}

impl Placeholder for InContent {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Id, "{id}"), (Self::Timestamp, "{timestamp}"), (Self::Body, "{body}")];
    const LIST: &'static str = "{id}, {timestamp} and {body}";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InValue {
    Id,
    Timestamp,
    Signature,
}

impl Placeholder for InValue {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Id, "{id}"), (Self::Timestamp, "{timestamp}"), (Self::Signature, "{signature}")];
    const LIST: &'static str = "{id}, {timestamp} and {signature}";
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<P> {
    Literal(String),
    Placeholder(P),
}

/// The template of the content that is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentTemplate(Vec<Piece<InContent>>);

impl ContentTemplate {
    /// Parses a template over `{id}`, `{timestamp}` and `{body}`. It must contain `{body}` once: a signature that
    /// does not cover the body protects nothing, and each occurrence costs the hash of the whole body.
    ///
    /// # Errors
    ///
    /// Returns an error if the template is invalid.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let pieces = parse(text)?;
        match pieces.iter().filter(|piece| **piece == Piece::Placeholder(InContent::Body)).count() {
            0 => Err(TemplateError::Missing("{body}")),
            1 => Ok(Self(pieces)),
            2.. => Err(TemplateError::Repeated("{body}")),
        }
    }

    /// Returns the content in pieces, so that the body is not copied.
    pub(super) fn pieces<'a>(
        &'a self,
        message: &Message<'a>,
        timestamp: &'a str,
    ) -> impl Iterator<Item = &'a [u8]> {
        let (id, body) = (message.id, message.body);
        self.0.iter().map(move |piece| match piece {
            Piece::Literal(text) => text.as_bytes(),
            Piece::Placeholder(InContent::Id) => id.as_bytes(),
            Piece::Placeholder(InContent::Timestamp) => timestamp.as_bytes(),
            Piece::Placeholder(InContent::Body) => body,
        })
    }
}

impl fmt::Display for ContentTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

/// The template of the value of the signature's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueTemplate(Vec<Piece<InValue>>);

impl ValueTemplate {
    /// Parses a template over `{id}`, `{timestamp}` and `{signature}`. It must contain `{signature}`.
    ///
    /// # Errors
    ///
    /// Returns an error if the template is invalid.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let pieces = parse(text)?;
        if pieces.contains(&Piece::Placeholder(InValue::Signature)) {
            Ok(Self(pieces))
        } else {
            Err(TemplateError::Missing("{signature}"))
        }
    }

    pub(super) fn fill(&self, message: &Message<'_>, timestamp: &str, signature: &str) -> String {
        let mut filled = String::new();
        for piece in &self.0 {
            filled.push_str(match piece {
                Piece::Literal(text) => text,
                Piece::Placeholder(InValue::Id) => message.id,
                Piece::Placeholder(InValue::Timestamp) => timestamp,
                Piece::Placeholder(InValue::Signature) => signature,
            });
        }
        filled
    }
}

impl fmt::Display for ValueTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

fn parse<P: Placeholder>(text: &str) -> Result<Vec<Piece<P>>, TemplateError> {
    let chars = text.chars().count();
    if chars > TEMPLATE_CHARS_MAX {
        return Err(TemplateError::TooLong(chars));
    }
    if let Some(other) = text.chars().find(|c| !c.is_ascii_graphic()) {
        return Err(TemplateError::NotVisible(other));
    }
    if text.contains("{{") || text.contains("}}") {
        return Err(TemplateError::DoubledBrace);
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        push_literal(&mut pieces, literal)?;
        let (name, after) = after.split_once('}').ok_or(TemplateError::Unbalanced)?;
        if name.contains('{') {
            return Err(TemplateError::Unbalanced);
        }
        pieces.push(Piece::Placeholder(placeholder(name)?));
        rest = after;
    }
    push_literal(&mut pieces, rest)?;
    Ok(pieces)
}

fn push_literal<P>(pieces: &mut Vec<Piece<P>>, text: &str) -> Result<(), TemplateError> {
    if text.contains('}') {
        return Err(TemplateError::Unbalanced);
    }
    if !text.is_empty() {
        pieces.push(Piece::Literal(text.to_owned()));
    }
    Ok(())
}

fn placeholder<P: Placeholder>(name: &str) -> Result<P, TemplateError> {
    let named = |(_, text): &&(P, &str)| text.trim_matches(['{', '}']) == name;
    let unknown = || TemplateError::Placeholder { got: name.to_owned(), allowed: P::LIST };
    P::ALL.iter().find(named).map(|(placeholder, _)| *placeholder).ok_or_else(unknown)
}

fn write<P: Placeholder>(pieces: &[Piece<P>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for piece in pieces {
        match piece {
            Piece::Literal(text) => f.write_str(text)?,
            Piece::Placeholder(wanted) => {
                let text =
                    P::ALL.iter().find(|(placeholder, _)| placeholder == wanted).map(|(_, text)| *text);
                f.write_str(text.unwrap_or_default())?;
            }
        }
    }
    Ok(())
}
