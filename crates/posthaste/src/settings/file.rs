//! Reads settings from a flat TOML file. Errors name the line, never its contents, which may be secret.

use super::problem::Problem;
use super::setting::Row;
use super::source::{Entry, Form, Given, Source};
use super::table::find_key;
use crate::toml_text;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use toml::de::DeValue;

/// The maximum size of the file, in bytes. A file with all settings and comments takes a hundredth of this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the settings from a file, in file order. Appends any problems to `problems`.
pub(super) fn read(path: &Path, problems: &mut Vec<Problem>) -> Vec<Entry> {
    match read_text(path) {
        Ok(text) => parse(path, &text, problems),
        Err(why) => {
            problems.push(Problem::File { file: path.display().to_string(), why });
            Vec::new()
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| format!("cannot open the settings file: {error}"))?;
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = bytes.map_err(|error| format!("cannot read the settings file: {error}"))?;
    if u64::try_from(bytes).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(format!("the settings file is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

pub(super) fn parse(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let table = match toml_text::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let file = format!("{} line {}", path.display(), error.line);
            problems.push(Problem::File { file, why: error.message });
            return Vec::new();
        }
    };
    let path = Arc::new(path.to_path_buf());
    let mut found = Vec::new();
    // The table is sorted by name, but problems are reported in file order.
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let source =
            Source::File { path: Arc::clone(&path), line: toml_text::line_of(text, key.span().start) };
        let Some((row, form)) = find_key(key.get_ref()) else {
            problems.push(Problem::unknown_key(&source.to_string(), key.get_ref()));
            continue;
        };
        let (text, expected) = match form {
            Form::Value => (as_text(row, value.get_ref()), expected_type(row)),
            Form::SecretFile => (value.get_ref().as_str().map(str::to_owned), "a string"),
        };
        match text {
            Some(text) => found.push(Entry { row, form, given: Given { text, source } }),
            None => {
                let spelled = format!("{source}: {}", key.get_ref());
                problems.push(Problem::Invalid { spelled, expected: expected.to_owned() });
            }
        }
    }
    found
}

/// Returns the value as it would be written in an environment variable, or `None` if its type is wrong.
fn as_text(row: &dyn Row, value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Boolean(yes) => Some(yes.to_string()),
        DeValue::Array(entries) => {
            let separator = row.separator()?;
            // Lines end with their separator, so that a single entry is not split at semicolons.
            let end = if separator == "\n" { separator } else { "" };
            let entries: Option<Vec<&str>> = entries.iter().map(|entry| entry.get_ref().as_str()).collect();
            entries
                .map(|entries| if entries.is_empty() { String::new() } else { entries.join(separator) + end })
        }
        DeValue::Float(number) if row.is_bare() => Some(number.to_string()),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn expected_type(row: &dyn Row) -> &'static str {
    if row.separator().is_some() {
        "a string or a list of strings"
    } else if row.is_bare() {
        "a number, true or false"
    } else {
        "a string"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> (Vec<String>, Vec<String>) {
        let mut problems = Vec::new();
        let found = parse(Path::new("p.toml"), text, &mut problems);
        let shown = |Entry { row, form, given }: &Entry| {
            let name = match form {
                Form::Value => Some(row.about().env.to_owned()),
                Form::SecretFile => row.about().file_env(),
            };
            format!("{}={:?} {}", name.expect("a name"), given.text, given.source)
        };
        (found.iter().map(shown).collect(), problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn values_are_read() {
        for (text, expected) in [
            ("retry_base = \"30s\"", "POSTHASTE_RETRY_BASE=\"30s\" p.toml line 1"),
            ("# c\n\noutbox_batch_size = 32", "OUTBOX_BATCH_SIZE=\"32\" p.toml line 3"),
            ("outbox_stuck_threshold_min = 0.5", "OUTBOX_STUCK_THRESHOLD_MIN=\"0.5\" p.toml line 1"),
            ("allow_http = true", "POSTHASTE_ALLOW_HTTP=\"true\" p.toml line 1"),
            (
                "allow_cidrs = [\"10.0.0.0/8\", \"fd00::/8\"]",
                "POSTHASTE_ALLOW_CIDRS=\"10.0.0.0/8,fd00::/8\" p.toml line 1",
            ),
            ("allow_cidrs = \"10.0.0.0/8\"", "POSTHASTE_ALLOW_CIDRS=\"10.0.0.0/8\" p.toml line 1"),
            ("secret_key = [\"new\", \"old\"]", "POSTHASTE_SECRET_KEY=\"new,old\" p.toml line 1"),
            ("allow_cidrs = []", "POSTHASTE_ALLOW_CIDRS=\"\" p.toml line 1"),
            ("root_key_file = \"/k\"", "POSTHASTE_ROOT_KEY_FILE=\"/k\" p.toml line 1"),
            ("broker_headers = [\"A: b; c\"]", "POSTHASTE_BROKER_HEADERS=\"A: b; c\\n\" p.toml line 1"),
        ] {
            assert_eq!(check(text), (vec![expected.to_owned()], vec![]), "{text}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, expected) in [
            ("\nretry_bas = \"30s\"", "p.toml line 2: retry_bas: unknown setting; did you mean retry_base?"),
            (
                "POSTHASTE_LEASE = \"1m\"",
                "p.toml line 1: POSTHASTE_LEASE: unknown setting; did you mean lease?",
            ),
            ("[colours]\nred = 1", "p.toml line 1: colours: unknown setting"),
            ("outbox.batch_size = 1", "p.toml line 1: outbox: unknown setting"),
            ("lease = 1.5", "p.toml line 1: lease: expected a string"),
            ("lease = [\"1m\"]", "p.toml line 1: lease: expected a string"),
            ("outbox_batch_size = [1]", "p.toml line 1: outbox_batch_size: expected a number, true or false"),
            ("root_key_file = 1", "p.toml line 1: root_key_file: expected a string"),
            ("roles = [1]", "p.toml line 1: roles: expected a string or a list of strings"),
        ] {
            assert_eq!(check(text), (vec![], vec![expected.to_owned()]), "{text}");
        }
    }

    #[test]
    fn invalid_toml_is_reported_without_its_contents() {
        for text in
            ["lease = \"1m\"\nroot_key = \"hush", "lease = \"1m\"\nroot_key = hush", "lease = \"1m\"\nhush"]
        {
            let (found, messages) = check(text);
            assert!(found.is_empty());
            assert!(
                messages.iter().all(|message| message.starts_with("p.toml line 2: invalid TOML: ")),
                "{messages:?}"
            );
            assert!(messages.iter().all(|message| !message.contains("hush")), "{messages:?}");
            assert_eq!(messages.len(), 1);
        }
    }
}
