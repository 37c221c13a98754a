//! Parses TOML files. Errors name the line, never its contents, which may be secret.

use toml::Spanned;
use toml::de::DeTable;

/// A syntax error in a TOML text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TomlError {
    /// The line number of the error, counted from 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Parses a TOML text and returns its top-level table.
pub(crate) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, TomlError> {
    DeTable::parse(text).map_err(|error| TomlError {
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: format!("invalid TOML: {}", error.message()),
    })
}

/// Returns the line number of a byte offset, counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
