//! The blocks of commands in our pages, which tests run as they stand. Each is named in a comment before it:
//! `<!-- walk: NAME -->`.

use crate::tools;
use std::collections::BTreeMap;

/// The blocks of a page by name. A block of these languages without a name is a mistake.
pub(crate) fn blocks(page: &str, languages: &[&str]) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(tools::repository(page)).unwrap_or_else(|_| panic!("no {page}"));
    let mut blocks = BTreeMap::new();
    let mut lines = text.lines();
    let mut name = None;
    while let Some(line) = lines.next() {
        if line.strip_prefix("```").is_some_and(|language| languages.contains(&language)) {
            let name = name.take().unwrap_or_else(|| panic!("{page}: a block without <!-- walk: NAME -->"));
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            assert!(blocks.insert(name, block.join("\n")).is_none(), "{page}: two blocks of one name");
            continue;
        }
        name = line.strip_prefix("<!-- walk: ").and_then(|rest| rest.strip_suffix(" -->")).map(str::to_owned);
    }
    blocks
}

/// The block of this name, with what a reader puts in for an example.
pub(crate) fn block(blocks: &BTreeMap<String, String>, name: &str, put_in: &[(&str, &str)]) -> String {
    let mut block = blocks.get(name).unwrap_or_else(|| panic!("there is no block {name}")).clone();
    for (example, real) in put_in {
        assert!(block.contains(example), "the block {name} does not say {example}");
        block = block.replace(example, real);
    }
    block
}
