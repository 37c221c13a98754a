//! Formats the output of `posthaste config`: all effective settings with their sources, or an example file.

use super::problem::shown;
use super::setting::{Fallback, Row};
use super::source::{Source, Values};
use super::table::{GROUPS, TABLE};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Returns the effective settings as a table.
pub(crate) fn as_table(values: &Values) -> String {
    let mut rows = vec![["SETTING".to_owned(), "VALUE".to_owned(), "SOURCE".to_owned()]];
    rows.extend(TABLE.iter().map(|row| {
        let about = row.about();
        match values.given(about.env) {
            Some(given) => [about.env.to_owned(), shown(about, &given.text), given.source.to_string()],
            None => [about.env.to_owned(), "none".to_owned(), Source::Default.to_string()],
        }
    }));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (names, contents) = (width(0), width(1));
    let mut text = String::new();
    for [name, value, from] in &rows {
        let _ = writeln!(text, "{name:names$}  {value:contents$}  {from}");
    }
    text
}

/// Returns the effective settings and the warnings as a JSON object.
pub(crate) fn as_json(values: &Values, warnings: &[String]) -> String {
    let settings: Vec<Value> = TABLE.iter().map(|row| setting_json(*row, values)).collect();
    format!("{:#}", json!({ "settings": settings, "warnings": warnings }))
}

fn setting_json(row: &dyn Row, values: &Values) -> Value {
    let about = row.about();
    let given = values.given(about.env);
    let (source, file, line) = match given.map(|given| &given.source) {
        None | Some(Source::Default) => ("default", None, None),
        Some(Source::File { path, line }) => ("file", Some(path.display().to_string()), Some(*line)),
        Some(Source::SecretFile { path, .. }) => ("secret_file", Some(path.display().to_string()), None),
        Some(Source::Environment) => ("environment", None, None),
        Some(Source::Flag) => ("flag", None, None),
    };
    json!({
        "name": about.env,
        "key": about.key(),
        "flag": about.flag(),
        "file_variable": about.file_env(),
        "value": given.map(|given| shown(about, &given.text)),
        "source": source,
        "file": file,
        "line": line,
    })
}

/// Returns a settings file with every setting and its default, all commented out.
pub(crate) fn example() -> String {
    let mut text = String::from(
        "# Settings of Posthaste with their defaults. Remove the # from a line to change it. Environment variables\n\
         # and flags override this file; `posthaste config` prints the effective settings. A secret can also be in a\n\
         # file of its own: root_key_file = \"/run/secrets/root_key\" instead of root_key, for example.\n",
    );
    for group in GROUPS {
        let _ = writeln!(text, "\n# ---- {} ----", group.heading());
        for row in TABLE.iter().filter(|row| row.about().group == group) {
            let about = row.about();
            let note = match about.fallback {
                Fallback::Value(_) => "",
                Fallback::Unset { .. } => " (not set by default; example)",
            };
            let _ = writeln!(text, "\n# {}{note}\n#{} = {}", about.help, about.key(), toml_value(*row));
        }
    }
    text
}

/// Returns the default or the example of a setting as a TOML value. None of these contain characters that need
/// escaping.
fn toml_value(row: &dyn Row) -> String {
    let (Fallback::Value(value) | Fallback::Unset { example: value }) = row.about().fallback;
    if row.is_bare() { value.to_owned() } else { format!("\"{value}\"") }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::source::Entry;
    use super::super::table::KEY_EXAMPLE;
    use super::*;
    use std::path::Path;

    #[test]
    fn example_file_contains_all_settings() {
        let uncomment = |line: &str| {
            line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned()
        };
        let text: Vec<String> = example().lines().map(uncomment).collect();
        let mut problems = Vec::new();
        let found = file::parse(Path::new("example.toml"), &text.join("\n"), &mut problems);
        assert_eq!(problems, []);
        assert_eq!(found.len(), TABLE.len());
        for Entry { row, given, .. } in found {
            assert_eq!(row.check(&given.text).is_ok(), given.text != KEY_EXAMPLE, "{}", row.about().env);
        }
    }

    #[test]
    fn example_file_sets_nothing() {
        let mut problems = Vec::new();
        assert!(file::parse(Path::new("example.toml"), &example(), &mut problems).is_empty());
        assert_eq!(problems, []);
    }
}
