//! The help of every command, as people see it, kept in files: a change shows up in review, where it is read.
//! `POSTHASTE_BLESS=1` rewrites them.

use posthaste_testkit::commands::run;
use std::collections::BTreeMap;
use std::path::Path;

fn help(words: &[&str]) -> String {
    run(&[words, &["--help"]].concat(), &[], "").expect(0).stdout
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What goes on from the line before is further in.
    let names =
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty());
    names.filter(|name| *name != "help").collect()
}

fn walk(words: &[&str], screens: &mut BTreeMap<String, String>) {
    let screen = help(words);
    for name in commands(&screen) {
        walk(&[words, &[name]].concat(), screens);
    }
    screens.insert(format!("{}.txt", [&["posthaste"], words].concat().join("-")), screen);
}

#[test]
fn every_screen_is_as_it_was_read() {
    let mut screens = BTreeMap::new();
    walk(&[], &mut screens);
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
            "tests/cli/screens/{file} is old: run this with POSTHASTE_BLESS=1 and read the diff\n{screen}"
        );
    }
    let kept = std::fs::read_dir(&folder).expect("the folder").filter_map(Result::ok);
    for file in kept.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        assert!(screens.contains_key(&file), "tests/cli/screens/{file}: there is no such command any more");
    }
}

#[test]
fn every_screen_reads_well() {
    let mut screens = BTreeMap::new();
    walk(&[], &mut screens);
    for (file, screen) in &screens {
        let first = screen.lines().next().unwrap_or_default();
        assert!(first.chars().next().is_some_and(char::is_uppercase), "{file} begins with {first:?}");
        assert!(screen.contains("\nUsage: posthaste"), "{file}");
        for line in screen.lines() {
            assert_eq!(line.trim_end(), line, "{file}");
        }
        // An option or argument that says nothing.
        for (line, next) in screen.lines().zip(screen.lines().skip(1)) {
            let is_entry = line.starts_with("  ") && line.trim_start().starts_with(['-', '<', '[']);
            let says = line.trim_start().split_once("  ").is_some() || next.starts_with("          ");
            assert!(!is_entry || says, "{file}: {line:?} says nothing");
        }
    }
}
