//! Escapes text and writes tags for the API reference ([`crate::docs`]).

/// Escapes the special characters of HTML, for content and quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

/// Returns an element. `inside` must already be HTML.
pub(super) fn tag(name: &str, inside: &str) -> String {
    format!("<{name}>{inside}</{name}>")
}

pub(super) fn code(text: &str) -> String {
    tag("code", &escaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(code(r#"<a href="x">&'"#), "<code>&lt;a href=&quot;x&quot;&gt;&amp;&#39;</code>");
    }
}
