//! Compares the settings reference in `docs/configuration.md` with the table of settings. `POSTHASTE_BLESS=1` rewrites
//! it.

use posthaste_testkit::commands::run;
use std::path::Path;

const BEGIN: &str = "<!-- begin generated: posthaste config --reference -->\n";
const END: &str = "<!-- end generated -->\n";

#[test]
fn settings_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&file).expect("docs/configuration.md");
    let (head, rest) = page.split_once(BEGIN).expect("the first marker");
    let (_, tail) = rest.split_once(END).expect("the second marker");
    let generated = run(&["config", "--reference"], &[], "").expect(0).stdout;
    let expected = format!("{head}{BEGIN}\n{generated}\n{END}{tail}");
    if std::env::var_os("POSTHASTE_BLESS").is_some() {
        std::fs::write(&file, &expected).expect("docs/configuration.md");
        return;
    }
    assert!(
        page == expected,
        "docs/configuration.md is out of date: run the test with POSTHASTE_BLESS=1 and read the diff\n{generated}"
    );
}

#[test]
fn every_setting_is_in_the_reference() {
    let reference = run(&["config", "--reference"], &[], "").expect(0).stdout;
    let settings = run(&["config", "--json"], &[], "").expect(0).stdout;
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("JSON");
    let settings = settings["settings"].as_array().expect("settings");
    assert!(settings.len() > 40);
    for setting in settings {
        let name = setting["name"].as_str().expect("a name");
        assert!(reference.contains(&format!("| `{name}` | ")), "{name}");
    }
}
