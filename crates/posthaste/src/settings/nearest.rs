//! Finds the setting whose name is most similar to a misspelled one.

use super::setting::{About, bare_name};
use super::table::TABLE;

/// The maximum length of a name that gets a suggestion, in characters. The longest setting has about half as many.
const NAME_CHARS_MAX: usize = 64;

/// Returns the setting whose name has the smallest edit distance to `name`, or `None` if the distance exceeds one edit
/// per three characters.
pub(super) fn nearest(name: &str) -> Option<&'static About> {
    let name: Vec<char> = bare_name(name).replace('-', "_").chars().collect();
    if name.len() > NAME_CHARS_MAX {
        return None;
    }
    let by_distance = TABLE.iter().map(|row| (distance(&name, &row.about().key()), row.about()));
    let (changes, about) = by_distance.min_by_key(|(changes, _)| *changes)?;
    (changes * 3 <= name.len()).then_some(about)
}

/// Returns the Levenshtein distance: the minimum number of insertions, deletions and substitutions. Stores only one row
/// of the matrix.
fn distance(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    for (above, target) in to.chars().enumerate() {
        let mut left = above + 1;
        let mut diagonal = above;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, letter) in row.iter_mut().skip(1).zip(from) {
            let replaced = diagonal + usize::from(*letter != target);
            diagonal = *cell;
            left = replaced.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (from, to, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(&from.chars().collect::<Vec<_>>(), to), expected, "{from} {to}");
        }
    }

    #[test]
    fn misspelled_names_are_recognized() {
        for (name, expected) in [
            ("POSTHASTE_RETYR_BASE", Some("POSTHASTE_RETRY_BASE")),
            ("POSTHASTE_DATABSE_URL", Some("POSTHASTE_DATABASE_URL")),
            ("POSTHASTE_OUTBOX_BATCH_SIZE", Some("OUTBOX_BATCH_SIZE")),
            ("POSTHASTE_LEASE", Some("POSTHASTE_LEASE")),
            ("request-timeout", Some("POSTHASTE_REQUEST_TIMEOUT")),
            ("POSTHASTE_PORT", None),
            ("colour", None),
            ("", None),
            (&"lease".repeat(100), None),
        ] {
            assert_eq!(nearest(name).map(|about| about.env), expected, "{name}");
        }
    }
}
