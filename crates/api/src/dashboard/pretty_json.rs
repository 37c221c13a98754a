//! Indents JSON for display. Processes tokens instead of parsed values, so numbers and strings are unchanged.

/// Returns the indented text, or `None` if it would exceed `bytes_max`: indenting deeply nested input can multiply its
/// length.
pub(crate) fn pretty_json(text: &str, bytes_max: usize) -> Option<String> {
    let mut pretty = String::new();
    let mut depth = 0_usize;
    let mut rest = text.trim_ascii();
    while let Some(letter) = rest.chars().next() {
        let token = rest.get(..token_bytes(rest, letter))?;
        rest = rest.get(token.len()..)?.trim_ascii_start();
        match letter {
            '{' | '[' if rest.starts_with(['}', ']']) => pretty.push(letter),
            '{' | '[' => {
                depth += 1;
                pretty.push(letter);
                begin_line(&mut pretty, depth);
            }
            '}' | ']' if pretty.ends_with(['{', '[']) => pretty.push(letter),
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                begin_line(&mut pretty, depth);
                pretty.push(letter);
            }
            ',' => {
                pretty.push(letter);
                begin_line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            _ => pretty.push_str(token),
        }
        if pretty.len() > bytes_max {
            return None;
        }
    }
    Some(pretty)
}

fn begin_line(pretty: &mut String, depth: usize) {
    pretty.push('\n');
    pretty.extend(std::iter::repeat_n("  ", depth));
}

/// Returns the length of the first token, in bytes: punctuation, a quoted string, a number or a keyword.
fn token_bytes(rest: &str, first: char) -> usize {
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
    use super::pretty_json;

    #[test]
    fn only_whitespace_changes() {
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
            assert_eq!(pretty_json(text, 1_000).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn output_beyond_the_limit_is_refused() {
        let deep = format!("{}{}{}", "[".repeat(100), vec!["1"; 1_000].join(","), "]".repeat(100));
        assert_eq!(pretty_json(&deep, 100_000), None);
        assert!(pretty_json(&deep, 1_000_000).is_some());
    }
}
