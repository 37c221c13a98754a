//! Checks every tracked file in the repository for phrases that are always wrong and for lines that are too long, and
//! requires a head comment in each file. Each phrase has a replacement, a bad example and a good example.
#![allow(clippy::expect_used)]

mod phrases;
mod text;

use phrases::PHRASES;
use regex_lite::Regex;
use std::path::{Path, PathBuf};
use std::process::Command;
use text::{Language, Passage};

const WIDTH_MAX: usize = 120;
/// The file that quotes the wrong phrases.
const PHRASES_FILE: &str = "crates/testkit/tests/tidy/phrases.rs";

struct Source {
    name: String,
    language: Language,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads the tracked files that contain natural-language text.
fn sources() -> Vec<Source> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git");
    assert!(listed.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let read = |name: &str| {
        let language = Language::of(name)?;
        let text = std::fs::read_to_string(root().join(name)).ok()?;
        Some(Source { name: name.to_owned(), language, text })
    };
    let sources: Vec<Source> = names.split('\0').filter_map(read).collect();
    assert!(sources.len() > 500, "only {} files: is this the repository?", sources.len());
    sources
}

fn check(find: impl Fn(&Source) -> Vec<String>) {
    let findings: Vec<String> = sources().iter().flat_map(find).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn each_rule_matches_its_bad_example_only() {
    for phrase in PHRASES {
        let rule = Regex::new(phrase.regex).expect("a regular expression");
        assert!(rule.is_match(phrase.bad), "{:?} does not match {:?}", phrase.regex, phrase.bad);
        assert!(!rule.is_match(phrase.good), "{:?} matches {:?}", phrase.regex, phrase.good);
    }
}

#[test]
fn standard_terms_are_used() {
    let compile = |regex| Regex::new(regex).expect("a regular expression");
    let rules: Vec<(Regex, &str)> =
        PHRASES.iter().map(|phrase| (compile(phrase.regex), phrase.instead)).collect();
    check(|source| {
        let mut findings = Vec::new();
        for Passage { line, text } in source.language.prose(&source.name, &source.text) {
            for (rule, instead) in rules.iter().filter(|_| source.name != PHRASES_FILE) {
                if let Some(found) = rule.find(&text) {
                    let (name, found) = (&source.name, found.as_str());
                    findings.push(format!("{name}:{line}: {found:?}: write {instead}: {text}"));
                }
            }
        }
        findings
    });
}

#[test]
fn lines_are_not_too_long() {
    check(|source| {
        let long = source.language.long_lines(&source.text, WIDTH_MAX);
        long.into_iter().map(|(line, width)| format!("{}:{line}: {width} characters", source.name)).collect()
    });
}

#[test]
fn every_file_has_a_head() {
    check(|source| match source.language.has_head(&source.text) {
        true => Vec::new(),
        false => vec![format!("{}: the first line must say what the file is", source.name)],
    });
}
