//! The settings reference: the table of settings in Markdown. `posthaste config --reference` prints it, and
//! `docs/configuration.md` contains it; a test compares the two.

use super::setting::Row;
use super::table::{GROUPS, TABLE};
use super::types::ProcessRole;
use std::fmt::Write as _;

/// Returns one Markdown table per group, each with a heading.
pub(crate) fn as_markdown() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let _ = writeln!(text, "### {}\n", group.heading());
        let _ = writeln!(text, "| setting | default | accepts | roles | description |");
        let _ = writeln!(text, "| --- | --- | --- | --- | --- |");
        for row in TABLE.iter().filter(|row| row.about().group == group) {
            let _ = writeln!(text, "{}", line(*row));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn line(row: &dyn Row) -> String {
    let about = row.about();
    let default = about.default().map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
    let file = about.file_env().map(|name| format!("; or in a file: `{name}`")).unwrap_or_default();
    format!(
        "| `{}` | {default} | {} | {} | {}{file} |",
        about.env,
        escaped(&row.accepts()),
        roles(about.roles),
        escaped(about.help)
    )
}

fn roles(roles: &[ProcessRole]) -> String {
    if roles.len() == ProcessRole::ALL.len() {
        return "all".to_owned();
    }
    roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ")
}

/// Escapes the characters that Markdown would interpret inside a table cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_row() {
        let text = as_markdown();
        for row in TABLE {
            let name = format!("| `{}` | ", row.about().env);
            assert_eq!(text.matches(&name).count(), 1, "{name}");
        }
        assert!(
            text.lines().filter(|line| line.starts_with('|')).all(|line| line.matches(" | ").count() == 4)
        );
        let lease = "| `POSTHASTE_LEASE` | `60s` | duration from 1s to 1d | api, worker, cleaner | ";
        assert!(text.contains(lease), "{text}");
    }
}
