//! Maps the lines of a CSV file (RFC 4180) to subscriptions, for senders without an importer of their own. Errors name
//! the line and the column; a file with an error is refused as a whole.

use super::{Entry, Identity, Plan};
use serde_json::{Value, json};
use std::iter::Peekable;
use std::str::Chars;

const COLUMNS: [&str; 9] =
    ["uid", "url", "event_types", "tenant", "secret", "name", "description", "signature", "active"];
/// The number of columns that must be there, at the beginning of [`COLUMNS`].
const REQUIRED: usize = 3;

/// The names of signature formats that need no further values.
const SIGNATURES: [&str; 6] = ["standard", "svix", "github", "stripe", "shopify", "slack"];

/// A record: the number of its first line, and its fields.
type Record = (usize, Vec<String>);

/// Maps a file with a line of column names.
///
/// # Errors
///
/// Returns all errors of the file.
pub(super) fn parse(text: &str) -> Result<Plan, Vec<String>> {
    // Spreadsheets write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = records(text).map_err(|error| vec![error])?.into_iter();
    let columns = columns(records.next())?;
    let (mut plan, mut errors) = (Plan::default(), Vec::new());
    for (line, fields) in records {
        if fields.len() != columns.len() {
            let (found, expected) = (fields.len(), columns.len());
            errors.push(format!("line {line}: {found} columns, but the first line has {expected}"));
            continue;
        }
        match entry(&columns, &fields) {
            Ok(entry) => plan.entries.push(entry),
            Err((column, why)) => errors.push(format!("line {line}, column {column}: {why}")),
        }
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// Checks the line of column names.
fn columns(first: Option<Record>) -> Result<Vec<&'static str>, Vec<String>> {
    let (line, names) = first.unwrap_or((1, Vec::new()));
    let (mut columns, mut errors) = (Vec::new(), Vec::new());
    for name in names {
        match COLUMNS.into_iter().find(|column| *column == name.trim().to_lowercase()) {
            Some(column) if columns.contains(&column) => {
                errors.push(format!("line {line}: there are two columns {column}"));
            }
            Some(column) => columns.push(column),
            None => {
                errors.push(format!("line {line}: there is no column {name:?}, only {}", COLUMNS.join(", ")));
            }
        }
    }
    let missing = COLUMNS.into_iter().take(REQUIRED).filter(|column| !columns.contains(column));
    errors.extend(missing.map(|column| format!("line {line}: the column {column} is missing")));
    if errors.is_empty() { Ok(columns) } else { Err(errors) }
}

/// Maps a line, or returns the column that is wrong and why.
fn entry(columns: &[&'static str], fields: &[String]) -> Result<Entry, (&'static str, String)> {
    let value = |column: &str| {
        let found = columns.iter().zip(fields).find(|(name, _)| **name == column);
        found.map(|(_, field)| field.trim()).filter(|field| !field.is_empty())
    };
    let required = |column: &'static str| value(column).ok_or((column, "a value is required".to_owned()));
    let (uid, url) = (required("uid")?, required("url")?);
    if !["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(("url", format!("must begin with https://, got {url}")));
    }
    let types = required("event_types")?.split([';', ' ']).filter(|name| !name.is_empty()).collect();
    let identity = Identity { tenant: value("tenant").map(str::to_owned), uid: uid.to_owned() };
    let mut entry = Entry::new(identity, url, types);
    for column in ["name", "description", "secret"] {
        entry.set_text(column, value(column));
    }
    if let Some(name) = value("signature") {
        entry.set("signatures", json!([signature(name).map_err(|why| ("signature", why))?]));
    }
    let active = match value("active").map(str::to_lowercase).as_deref() {
        None | Some("true" | "yes" | "1") => true,
        Some("false" | "no" | "0") => false,
        Some(other) => return Err(("active", format!("must be true or false, got {other}"))),
    };
    entry.set("active", active);
    Ok(entry)
}

fn signature(name: &str) -> Result<Value, String> {
    match name.to_lowercase().as_str() {
        "standard" => Ok("standard".into()),
        preset if SIGNATURES.contains(&preset) => Ok(json!({ "preset": preset })),
        other => Err(format!("must be one of {}, got {other}", SIGNATURES.join(", "))),
    }
}

/// Splits the text into records. Empty lines are left out.
fn records(text: &str) -> Result<Vec<Record>, String> {
    let (mut records, mut line) = (Vec::new(), 1);
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let first = line;
        let mut fields = Vec::new();
        loop {
            fields.push(field(&mut rest, &mut line)?);
            if rest.next_if_eq(&',').is_none() {
                break;
            }
        }
        // What follows a field that is not followed by a comma is the end of the line.
        rest.next_if_eq(&'\r');
        if rest.next_if_eq(&'\n').is_some() {
            line += 1;
        }
        if fields != [""] {
            records.push((first, fields));
        }
    }
    Ok(records)
}

/// Reads a field, up to the comma or the end of the line. Inside quotes, both belong to the field, and a quote is
/// written twice.
fn field(rest: &mut Peekable<Chars<'_>>, line: &mut usize) -> Result<String, String> {
    let mut field = String::new();
    if rest.next_if_eq(&'"').is_none() {
        while let Some(next) = rest.next_if(|next| !matches!(next, ',' | '\r' | '\n')) {
            field.push(next);
        }
        return Ok(field);
    }
    let first = *line;
    loop {
        match rest.next() {
            None => return Err(format!("line {first}: a quote is opened and not closed")),
            Some('"') if rest.next_if_eq(&'"').is_none() => break,
            Some(next) => {
                *line += usize::from(next == '\n');
                field.push(next);
            }
        }
    }
    match rest.peek() {
        None | Some(',' | '\r' | '\n') => Ok(field),
        Some(_) => {
            Err(format!("line {line}: a comma or the end of the line is expected after a closing quote"))
        }
    }
}

#[cfg(test)]
mod tests;
