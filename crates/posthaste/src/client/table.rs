//! Formats responses as aligned tables. Control characters and characters that change the text direction are replaced,
//! so that untrusted text cannot manipulate the terminal.

use serde_json::Value;

/// A column heading and the name of the JSON field.
pub(super) type Column = (&'static str, &'static str);

/// The fields of an API object and their headings. Lists show some of the fields, with headings in upper case.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) fields: &'static [Column],
    /// The names of the fields shown in lists. A column is omitted if no item has the field.
    pub(super) listed: &'static [&'static str],
    /// The heading of the first column in lists.
    pub(super) key: &'static str,
}

impl Record {
    /// Formats one object, with one line per field.
    pub(super) fn show(&self, answer: &Value) -> String {
        record(self.fields, answer)
    }

    /// Formats a page of a list. If it has no items, shows `if_empty` instead.
    pub(super) fn list(&self, if_empty: &str, answer: &Value) -> String {
        page(if_empty, answer, |items| self.rows(items))
    }

    pub(super) fn rows(&self, items: &[Value]) -> String {
        let listed = self.listed.iter().filter(|field| items.iter().any(|item| item.get(field).is_some()));
        let heading =
            |field: &str| self.fields.iter().find(|(_, found)| *found == field).map(|(heading, _)| *heading);
        let columns: Vec<(String, &str)> = listed
            .map(|field| match self.listed.first() == Some(field) {
                true => (self.key.to_owned(), *field),
                false => (heading(field).unwrap_or(field).to_uppercase(), *field),
            })
            .collect();
        rows(&columns, items)
    }
}

/// The maximum length of a cell in a list, in characters. Longer text is truncated; `--json` prints it in full.
const CELL_CHARS_MAX: usize = 80;
const GAP: &str = "  ";

/// Formats a page of a list with the given columns. If it has no items, shows `if_empty` instead.
pub(super) fn list(columns: &[Column], if_empty: &str, answer: &Value) -> String {
    page(if_empty, answer, |items| rows(columns, items))
}

/// Formats the rows of a page and the flag that fetches the next page.
fn page(if_empty: &str, answer: &Value, rows: impl Fn(&[Value]) -> String) -> String {
    let items = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut text = if items.is_empty() { format!("{if_empty}\n") } else { rows(items) };
    if let Some(cursor) = answer.get("next_cursor").and_then(Value::as_str) {
        text.push_str(&format!("next page: --cursor {}\n", visible(cursor)));
    }
    text
}

/// Formats a line of headings and one line per item.
pub(super) fn rows<H: AsRef<str>>(columns: &[(H, &str)], items: &[Value]) -> String {
    let headings = columns.iter().map(|(heading, _)| heading.as_ref().to_owned()).collect();
    let cells = |item: &Value| columns.iter().map(|(_, field)| short(&item[*field])).collect();
    let lines: Vec<Vec<String>> = std::iter::once(headings).chain(items.iter().map(cells)).collect();
    aligned(&lines)
}

/// Formats one field per line. Missing fields are omitted.
pub(super) fn record(fields: &[Column], answer: &Value) -> String {
    let present = fields.iter().filter_map(|(heading, field)| Some((heading, answer.get(*field)?)));
    let lines: Vec<Vec<String>> =
        present.map(|(heading, value)| vec![(*heading).to_owned(), cell(value)]).collect();
    aligned(&lines)
}

/// Formats a response that has no specific format as indented JSON, or as `done` if it is empty.
pub(super) fn whole(answer: &Value) -> String {
    if answer.is_null() { "done\n".to_owned() } else { format!("{answer:#}\n") }
}

fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

/// Formats a value as text, truncated to [`CELL_CHARS_MAX`] characters.
fn short(value: &Value) -> String {
    let text = cell(value);
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Formats a value as text.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => visible(text),
        Value::Array(items) => match words(items) {
            Some(words) => visible(&words.join(", ")),
            None => visible(&value.to_string()),
        },
        Value::Object(_) => visible(&value.to_string()),
    }
}

/// Returns the texts of a list that consists of texts, or `None` for another list.
fn words(items: &[Value]) -> Option<Vec<&str>> {
    items.iter().map(Value::as_str).collect::<Option<Vec<_>>>().filter(|words| !words.is_empty())
}

/// Replaces characters that could manipulate the terminal with U+FFFD.
pub(super) fn visible(text: &str) -> String {
    let is_hidden = |char: char| char.is_control() || is_bidi_control(char);
    text.chars().map(|char| if is_hidden(char) { '\u{fffd}' } else { char }).collect()
}

/// Returns whether a character has the Unicode property `Bidi_Control`. Such characters can make a cell show
/// `evil.example` although its text differs, or reorder the adjacent cells.
const fn is_bidi_control(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 3] = [("ID", "id"), ("NAME", "name"), ("GONE", "gone")];

    #[test]
    fn columns_are_aligned() {
        let answer = json!({
            "items": [{"id": 7, "name": "é\u{1b}[2J", "gone": null}, {"id": 1234, "name": "b", "gone": true}],
            "next_cursor": "abc"
        });
        let expected =
            "ID    NAME   GONE\n7     é\u{fffd}[2J  -\n1234  b      yes\nnext page: --cursor abc\n";
        assert_eq!(list(&COLUMNS, "no items", &answer), expected);
        assert_eq!(list(&COLUMNS, "no items", &json!({"items": [], "next_cursor": null})), "no items\n");
    }

    #[test]
    fn columns_without_values_are_omitted() {
        let record = Record {
            fields: &[("order", "id"), ("failed sends", "retries"), ("payload", "payload")],
            listed: &["id", "retries", "payload"],
            key: "ID",
        };
        let rows = |items: Value| record.rows(items.as_array().map(Vec::as_slice).unwrap_or_default());
        assert_eq!(rows(json!([{"id": 7, "retries": null}])), "ID  FAILED SENDS\n7   -\n");
        let rows = rows(json!([{"id": 7, "retries": 1}, {"id": 8, "payload": []}]));
        assert_eq!(rows, "ID  FAILED SENDS  PAYLOAD\n7   1             -\n8   -             []\n");
    }

    #[test]
    fn bidi_controls_are_replaced() {
        let marks =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        for mark in marks.chars() {
            let replaced = "a\u{fffd}b";
            let text = format!("a{mark}b");
            assert_eq!(cell(&text.as_str().into()), replaced, "{}", mark.escape_unicode());
            let nested = cell(&json!({ &text: [text] }));
            assert_eq!(nested, format!(r#"{{"{replaced}":["{replaced}"]}}"#), "{}", mark.escape_unicode());
        }
        // Letters of either direction are kept, and so are the joiners that some scripts and emoji need.
        for text in ["\u{5d0}\u{5d1}", "\u{645}\u{200c}\u{646}", "\u{1f469}\u{200d}\u{1f4bb}"] {
            assert_eq!(cell(&text.into()), text);
        }
    }

    #[test]
    fn missing_fields_are_omitted_and_long_cells_truncated() {
        assert_eq!(record(&COLUMNS, &json!({"id": 7, "gone": false})), "ID    7\nGONE  no\n");
        assert_eq!(
            record(&COLUMNS, &json!({"id": ["a", "b"], "gone": ["a", 1]})),
            "ID    a, b\nGONE  [\"a\",1]\n"
        );
        let long = json!([{"id": "x".repeat(100), "name": "", "gone": ""}]);
        let line = rows(&COLUMNS, long.as_array().map(Vec::as_slice).unwrap_or_default());
        assert!(line.contains(&format!("{}…", "x".repeat(80))) && !line.contains(&"x".repeat(81)));
    }
}
