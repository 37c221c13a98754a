//! Extracts the code blocks that other tests run from the documents. The comment `<!-- walk: NAME -->` before a block
//! names it.

use crate::tools;
use std::collections::BTreeMap;

/// The comments that mark blocks that no test runs: the output of commands, and code whose tools the tests do not
/// install.
const NOT_RUN: [&str; 2] = ["<!-- sample output -->", "<!-- not executed by the tests -->"];

/// A code block: its language, the comment before it and its text.
struct Block {
    language: String,
    comment: String,
    text: String,
}

fn parse(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(tools::repository(page)).unwrap_or_else(|_| panic!("no {page}"));
    let mut lines = text.lines();
    let (mut blocks, mut before) = (Vec::new(), "");
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let (language, comment) = (language.to_owned(), before.to_owned());
            blocks.push(Block { language, comment, text: inside.join("\n") });
        }
        before = line;
    }
    blocks
}

fn by_name(page: &str, blocks: impl Iterator<Item = Block>) -> BTreeMap<String, String> {
    let mut named = BTreeMap::new();
    for Block { comment, text, .. } in blocks {
        let name = comment.strip_prefix("<!-- walk: ").and_then(|rest| rest.strip_suffix(" -->"));
        let name = name.unwrap_or_else(|| panic!("{page}: no <!-- walk: NAME --> before the block\n{text}"));
        assert!(named.insert(name.to_owned(), text).is_none(), "{page}: two blocks are named {name}");
    }
    named
}

/// Returns the blocks in the given languages, keyed by name. Panics if a block has no name.
pub(crate) fn blocks(page: &str, languages: &[&str]) -> BTreeMap<String, String> {
    let of_languages = |block: &Block| languages.contains(&block.language.as_str());
    by_name(page, parse(page).into_iter().filter(of_languages))
}

/// Returns all blocks of a guide that are run, keyed by name. Panics if a block has neither a name nor a comment from
/// [`NOT_RUN`].
pub(crate) fn guide(page: &str) -> BTreeMap<String, String> {
    by_name(page, parse(page).into_iter().filter(|block| !NOT_RUN.contains(&block.comment.as_str())))
}

/// Returns the block called `name`, with each example value replaced by the value that a reader would insert.
pub(crate) fn block(blocks: &BTreeMap<String, String>, name: &str, replacements: &[(&str, &str)]) -> String {
    let mut block = blocks.get(name).unwrap_or_else(|| panic!("there is no block {name}")).clone();
    for (example, real) in replacements {
        assert!(block.contains(example), "the block {name} does not contain {example}");
        block = block.replace(example, real);
    }
    block
}
