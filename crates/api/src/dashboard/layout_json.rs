//! JSON text laid out for reading. Only the space between its parts changes: every number and every text stays as
//! it came, which no reading and writing anew would promise.

/// Nothing if it would become longer than `bytes_max`: deep nesting makes much of little.
pub(crate) fn laid_out(text: &str, bytes_max: usize) -> Option<String> {
    let mut laid = String::new();
    let mut depth = 0_usize;
    let mut rest = text.trim_ascii();
    while let Some(letter) = rest.chars().next() {
        let part = rest.get(..part_bytes(rest, letter))?;
        rest = rest.get(part.len()..)?.trim_ascii_start();
        match letter {
            '{' | '[' if rest.starts_with(['}', ']']) => laid.push(letter),
            '{' | '[' => {
                depth += 1;
                laid.push(letter);
                begin_line(&mut laid, depth);
            }
            '}' | ']' if laid.ends_with(['{', '[']) => laid.push(letter),
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                begin_line(&mut laid, depth);
                laid.push(letter);
            }
            ',' => {
                laid.push(letter);
                begin_line(&mut laid, depth);
            }
            ':' => laid.push_str(": "),
            _ => laid.push_str(part),
        }
        if laid.len() > bytes_max {
            return None;
        }
    }
    Some(laid)
}

fn begin_line(laid: &mut String, depth: usize) {
    laid.push('\n');
    laid.extend(std::iter::repeat_n("  ", depth));
}

/// The length of the part that begins here: a mark, a text with its quotes, or a bare word.
fn part_bytes(rest: &str, first: char) -> usize {
    match first {
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        '"' => {
            let mut is_escaped = false;
            let end = rest.bytes().skip(1).position(|byte| {
                let ends = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        }
        _ => {
            let ends = |letter: char| "{}[],:\"".contains(letter) || letter.is_ascii_whitespace();
            rest.find(ends).unwrap_or(rest.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::laid_out;

    #[test]
    fn only_space_changes() {
        let rows = [
            ("1", "1"),
            (" \"a\\\"{,: b\" ", "\"a\\\"{,: b\""),
            ("{}", "{}"),
            ("[ [ ] , { } ]", "[\n  [],\n  {}\n]"),
            (
                r#"{"b":1.50,"a":[1E5,"é\\"]}"#,
                "{\n  \"b\": 1.50,\n  \"a\": [\n    1E5,\n    \"é\\\\\"\n  ]\n}",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(laid_out(text, 1_000).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_would_become_too_long_is_left() {
        let deep = format!("{}{}{}", "[".repeat(100), vec!["1"; 1_000].join(","), "]".repeat(100));
        assert_eq!(laid_out(&deep, 100_000), None);
        assert!(laid_out(&deep, 1_000_000).is_some());
    }
}
