//! Extracts the natural-language text from a file: comments, strings of the product, and Markdown without its code.

/// The text on one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) line: usize,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Sql,
    Markdown,
    /// Scripts, makefiles and TOML, in which comments start with `#`.
    Hash,
    /// Alert rules, in which comments start with `#` and values are shown to operators.
    Yaml,
    /// Templates and help screens: every line is shown to users.
    Shown,
    /// The OpenAPI document: values are shown to users, names are not prose.
    Json,
}

impl Language {
    /// Returns the language of a file, or `None` if it contains no natural-language text. Migrations are excluded
    /// because they never change.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if ["/migrations/", "/golden/", "docs/samples/"].iter().any(|part| name.contains(part)) {
            return None;
        }
        let file = name.rsplit('/').next().unwrap_or(name);
        match file.rsplit_once('.').map_or(file, |(_, extension)| extension) {
            "rs" => Some(Self::Rust),
            "sql" => Some(Self::Sql),
            "md" => Some(Self::Markdown),
            "toml" | "sh" | "Makefile" => Some(Self::Hash),
            "yaml" | "yml" => Some(Self::Yaml),
            "html" => Some(Self::Shown),
            "txt" if name.contains("/screens/") => Some(Self::Shown),
            "json" if name == "docs/openapi.json" => Some(Self::Json),
            _ if name.starts_with("scripts/") && !file.contains('.') => Some(Self::Hash),
            _ => None,
        }
    }

    pub(crate) fn prose(self, name: &str, text: &str) -> Vec<Passage> {
        match self {
            Self::Rust => rust(text, !is_test(name)),
            Self::Sql => comments(text, "--"),
            Self::Hash => comments(text, "#"),
            Self::Markdown => markdown(text),
            Self::Yaml => whole_lines(text),
            Self::Shown => whole_lines(&without_template_code(text)),
            Self::Json => json(text),
        }
    }

    /// Returns the numbers and widths of the lines that are too long. Lines that cannot be wrapped are excluded: a
    /// string in Rust, a table or a link in Markdown.
    pub(crate) fn long_lines(self, text: &str, width_max: usize) -> Vec<(usize, usize)> {
        let cannot_wrap = |line: &str| match self {
            Self::Rust => line.contains('"') || line.contains("://"),
            Self::Sql => false,
            Self::Markdown => line.starts_with('|') || line.contains("](") || line.contains("://"),
            Self::Hash | Self::Yaml | Self::Shown | Self::Json => true,
        };
        let mut is_code = false;
        lines(text)
            .filter(|(_, line)| {
                is_code ^= self == Self::Markdown && line.trim_start().starts_with("```");
                !is_code && !cannot_wrap(line)
            })
            .map(|(number, line)| (number, line.chars().count()))
            .filter(|(_, width)| *width > width_max)
            .collect()
    }

    /// Returns whether the first line, after any `#!` line, describes the file.
    pub(crate) fn has_head(self, text: &str) -> bool {
        let first = text.lines().find(|line| !line.starts_with("#!/") && !line.is_empty());
        first.is_some_and(|first| match self {
            Self::Rust => first.starts_with("//! "),
            Self::Sql => first.starts_with("-- "),
            Self::Markdown => first.starts_with("# "),
            // The name of a section describes a manifest.
            Self::Hash | Self::Yaml => first.starts_with("# ") || first.starts_with('['),
            Self::Shown | Self::Json => true,
        })
    }
}

/// Returns whether the strings in a Rust file are visible only to developers.
fn is_test(name: &str) -> bool {
    name.starts_with("crates/testkit/") || name.contains("/tests/") || name.ends_with("/tests.rs")
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn whole_lines(text: &str) -> Vec<Passage> {
    lines(text).map(|(line, text)| Passage { line, text: text.to_owned() }).collect()
}

fn json(text: &str) -> Vec<Passage> {
    let value = |(line, text): (usize, &str)| {
        let (_, value) = text.split_once("\": \"")?;
        Some(Passage { line, text: value.to_owned() })
    };
    lines(text).filter_map(value).collect()
}

/// Returns `text` without `{{ … }}` and `{% … %}`.
fn without_template_code(text: &str) -> String {
    let mut rest = text;
    let mut shown = String::with_capacity(text.len());
    while let Some(start) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let end = if rest[start..].starts_with("{{") { "}}" } else { "%}" };
        shown.push_str(&rest[..start]);
        rest = rest[start..].split_once(end).map_or("", |(_, after)| after);
    }
    shown + rest
}

fn comments(text: &str, mark: &str) -> Vec<Passage> {
    let comment = |(line, text): (usize, &str)| {
        let text = text.trim_start().strip_prefix(mark)?;
        Some(Passage { line, text: text.trim().to_owned() })
    };
    lines(text).filter_map(comment).collect()
}

fn markdown(text: &str) -> Vec<Passage> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (line, text) in lines(text) {
        let is_fence = text.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            found.push(Passage { line, text: without_code(text) });
        }
    }
    found
}

/// Returns `text` without code in backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the comments, and the strings if `with_strings` is set.
fn rust(text: &str, with_strings: bool) -> Vec<Passage> {
    let mut found = Vec::new();
    let (mut line, mut rest, mut previous) = (1, text, ' ');
    while !rest.is_empty() {
        let (length, kind) = token(rest, previous);
        let (part, after) = rest.split_at(length);
        let is_wanted = match kind {
            Token::Comment => true,
            // A single word is a name, not text.
            Token::String => with_strings && part.contains(' '),
            Token::Code => false,
        };
        if is_wanted {
            let passage = |(number, text): (usize, &str)| Passage {
                line: line + number - 1,
                text: without_code(text.trim_start_matches(['/', '!', ' '])),
            };
            found.extend(lines(part).map(passage));
        }
        line += part.matches('\n').count();
        previous = part.chars().last().unwrap_or(' ');
        rest = after;
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Comment,
    String,
    Code,
}

/// Returns the length of the next token in bytes, and its kind. Code is returned one character at a time.
fn token(rest: &str, previous: char) -> (usize, Token) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Token::Comment);
    }
    if let Some(length) = raw_string(rest, previous) {
        return (length, Token::String);
    }
    if rest.starts_with('"') {
        return (string(rest), Token::String);
    }
    // A quote as a character literal does not start a string.
    let quotes = ["'\"'", "'\\\"'", "'\\''", "'\\\\'"];
    let quote = quotes.iter().find(|quote| rest.starts_with(**quote)).map(|quote| quote.len());
    (quote.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8)), Token::Code)
}

fn raw_string(rest: &str, previous: char) -> Option<usize> {
    let after_r = rest.strip_prefix('r').filter(|_| !previous.is_alphanumeric() && previous != '_')?;
    let hashes = after_r.len() - after_r.trim_start_matches('#').len();
    let body = after_r[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - body.len();
    Some(body.find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

/// Returns the length of the string that `rest` starts with.
fn string(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn comments_and_strings_of_rust_are_found() {
    let source =
        "//! head `code`\nlet a = \"one // \\\" two\"; // three\nlet b = r#\"four \"5\"\"#; '\"' + 'a";
    let found = |with_strings| -> Vec<(usize, String)> {
        rust(source, with_strings).into_iter().map(|passage| (passage.line, passage.text)).collect()
    };
    let head = (1, "head `".to_owned());
    let comment = (2, "three".to_owned());
    assert_eq!(found(false), [head.clone(), comment.clone()]);
    let strings = [(2, "\"one // \\\" two\"".to_owned()), (3, "r#\"four \"5\"\"#".to_owned())];
    assert_eq!(found(true), [head, strings[0].clone(), comment, strings[1].clone()]);
}

#[test]
fn code_of_markdown_is_left_out() {
    let found = markdown("# a `b` c\n```\nd\n```\ne");
    let texts: Vec<&str> = found.iter().map(|passage| passage.text.as_str()).collect();
    assert_eq!(texts, ["# a ` c", "e"]);
}
