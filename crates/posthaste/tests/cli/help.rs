//! Compares the help of every command with the files in `screens`, so that changes are reviewed. `POSTHASTE_BLESS=1`
//! rewrites the files.

use posthaste_testkit::commands::run;
use std::collections::BTreeMap;
use std::path::Path;

fn help(words: &[&str]) -> String {
    run(&[words, &["--help"]].concat(), &[], "").expect(0).stdout
}

/// Returns the subcommands that a help screen lists.
fn commands(help: &str) -> Vec<&str> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines are indented further.
    let names =
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty());
    names.filter(|name| *name != "help").collect()
}

/// Collects the help screens of a command and its subcommands.
fn collect(words: &[&str], screens: &mut BTreeMap<String, String>) {
    let screen = help(words);
    for name in commands(&screen) {
        collect(&[words, &[name]].concat(), screens);
    }
    screens.insert(format!("{}.txt", [&["posthaste"], words].concat().join("-")), screen);
}

#[test]
fn screens_match_the_reviewed_files() {
    let mut screens = BTreeMap::new();
    collect(&[], &mut screens);
    assert!(screens.len() > 20, "{:?}", screens.keys());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/screens");
    let bless = std::env::var_os("POSTHASTE_BLESS").is_some();
    if bless {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the folder");
    }
    for (file, screen) in &screens {
        if bless {
            std::fs::write(folder.join(file), screen).expect("the file");
        }
        let kept = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        assert!(
            kept == *screen,
            "tests/cli/screens/{file} is out of date: run the test with POSTHASTE_BLESS=1 and read the diff\n{screen}"
        );
    }
    let kept = std::fs::read_dir(&folder).expect("the folder").filter_map(Result::ok);
    for file in kept.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        assert!(screens.contains_key(&file), "tests/cli/screens/{file}: the command no longer exists");
    }
}

#[test]
fn screens_are_complete() {
    let mut screens = BTreeMap::new();
    collect(&[], &mut screens);
    for (file, screen) in &screens {
        let first = screen.lines().next().unwrap_or_default();
        assert!(first.chars().next().is_some_and(char::is_uppercase), "{file} begins with {first:?}");
        assert!(screen.contains("\nUsage: posthaste"), "{file}");
        for line in screen.lines() {
            assert_eq!(line.trim_end(), line, "{file}");
        }
        // Every option and argument has a description.
        for (line, next) in screen.lines().zip(screen.lines().skip(1)) {
            let is_entry = line.starts_with("  ") && line.trim_start().starts_with(['-', '<', '[']);
            let is_described = line.trim_start().split_once("  ").is_some() || next.starts_with("          ");
            assert!(!is_entry || is_described, "{file}: {line:?} has no description");
        }
        let has_example =
            screen.contains("\nExample:\n  posthaste ") || screen.contains("\nExamples:\n  posthaste ");
        assert!(has_example, "{file} has no example");
        let first_word = first.split(' ').next().unwrap_or_default();
        assert!(!first_word.ends_with('s'), "{file} is not imperative: {first:?}");
    }
}
