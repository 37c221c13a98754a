//! Answers for people: small aligned tables. Text from elsewhere never reaches the terminal as control
//! characters, nor as characters that change the direction in which a line is shown.

use serde_json::Value;

/// A heading, and the field that stands below it.
pub(super) type Column = (&'static str, &'static str);

/// A record of the API. Lists show some of its fields, under the same headings in capital letters.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) fields: &'static [Column],
    /// The fields that lists show. A column is left out if no item has its field.
    pub(super) listed: &'static [&'static str],
    /// The heading of the first of these.
    pub(super) key: &'static str,
}

impl Record {
    /// One record.
    pub(super) fn show(&self, answer: &Value) -> String {
        record(self.fields, answer)
    }

    /// A page of a list.
    pub(super) fn list(&self, nothing: &str, answer: &Value) -> String {
        page(nothing, answer, |items| self.rows(items))
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

/// Longer text is cut: a table is to look at, `--json` is to work with.
const CELL_CHARS_MAX: usize = 80;
const GAP: &str = "  ";

/// A page of a list.
pub(super) fn list(columns: &[Column], nothing: &str, answer: &Value) -> String {
    page(nothing, answer, |items| rows(columns, items))
}

/// The rows of a page, and how to see the next page.
fn page(nothing: &str, answer: &Value, rows: impl Fn(&[Value]) -> String) -> String {
    let items = answer.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut text = if items.is_empty() { format!("{nothing}\n") } else { rows(items) };
    if let Some(cursor) = answer.get("next_cursor").and_then(Value::as_str) {
        text.push_str(&format!("more with: --cursor {}\n", visible(cursor)));
    }
    text
}

/// A line of headings, and one for each item.
pub(super) fn rows<H: AsRef<str>>(columns: &[(H, &str)], items: &[Value]) -> String {
    let headings = columns.iter().map(|(heading, _)| heading.as_ref().to_owned()).collect();
    let cells = |item: &Value| columns.iter().map(|(_, field)| short(&item[*field])).collect();
    let lines: Vec<Vec<String>> = std::iter::once(headings).chain(items.iter().map(cells)).collect();
    aligned(&lines)
}

/// One field on each line; those that the answer does not have are left out.
pub(super) fn record(fields: &[Column], answer: &Value) -> String {
    let there = fields.iter().filter_map(|(heading, field)| Some((heading, answer.get(*field)?)));
    let lines: Vec<Vec<String>> =
        there.map(|(heading, value)| vec![(*heading).to_owned(), cell(value)]).collect();
    aligned(&lines)
}

/// An answer that nobody gave a form.
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

fn short(value: &Value) -> String {
    let text = cell(value);
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => visible(text),
        Value::Array(_) | Value::Object(_) => visible(&value.to_string()),
    }
}

fn visible(text: &str) -> String {
    let is_hidden = |char: char| char.is_control() || is_bidi_control(char);
    text.chars().map(|char| if is_hidden(char) { '\u{fffd}' } else { char }).collect()
}

/// Returns whether a character changes the direction of the text around it (Unicode's `Bidi_Control`): with these a
/// cell can show `evil.example` where it holds something else, or reorder the cells next to it.
const fn is_bidi_control(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 3] = [("ID", "id"), ("NAME", "name"), ("GONE", "gone")];

    #[test]
    fn columns_stand_below_each_other() {
        let answer = json!({
            "items": [{"id": 7, "name": "é\u{1b}[2J", "gone": null}, {"id": 1234, "name": "b", "gone": true}],
            "next_cursor": "abc"
        });
        let expected =
            "ID    NAME   GONE\n7     é\u{fffd}[2J  -\n1234  b      yes\nmore with: --cursor abc\n";
        assert_eq!(list(&COLUMNS, "nothing", &answer), expected);
        assert_eq!(list(&COLUMNS, "nothing", &json!({"items": [], "next_cursor": null})), "nothing\n");
    }

    #[test]
    fn a_list_shows_the_fields_of_a_record_that_some_item_has() {
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
    fn direction_marks_do_not_reach_the_terminal() {
        let marks =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        for mark in marks.chars() {
            let replaced = "a\u{fffd}b";
            let text = format!("a{mark}b");
            assert_eq!(cell(&text.as_str().into()), replaced, "{}", mark.escape_unicode());
            let nested = cell(&json!({ &text: [text] }));
            assert_eq!(nested, format!(r#"{{"{replaced}":["{replaced}"]}}"#), "{}", mark.escape_unicode());
        }
        // Letters of both directions stay, and so do the joiners that some scripts and emoji need.
        for text in ["\u{5d0}\u{5d1}", "\u{645}\u{200c}\u{646}", "\u{1f469}\u{200d}\u{1f4bb}"] {
            assert_eq!(cell(&text.into()), text);
        }
    }

    #[test]
    fn a_record_has_the_fields_that_are_there() {
        assert_eq!(record(&COLUMNS, &json!({"id": 7, "gone": false})), "ID    7\nGONE  no\n");
        let long = json!([{"id": "x".repeat(100), "name": "", "gone": ""}]);
        let line = rows(&COLUMNS, long.as_array().map(Vec::as_slice).unwrap_or_default());
        assert!(line.contains(&format!("{}…", "x".repeat(80))) && !line.contains(&"x".repeat(81)));
    }
}
