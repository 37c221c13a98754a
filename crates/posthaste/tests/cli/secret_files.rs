//! Tests secrets in files with the built binary: `<NAME>_FILE` for every secret setting, and its errors.

use posthaste_testkit::commands::{Ran, run, run_in};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

const ROOT_KEY: &str = "hush-9f86d081884c7d659a2feaa0c55ad015";

struct Files(TempDir);

impl Files {
    /// Creates a folder in memory, where secrets of containers are.
    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").expect("a folder in memory"))
    }

    fn put(&self, name: &str, bytes: &[u8], mode: u32) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("a mode");
        path.to_str().expect("a UTF-8 path").to_owned()
    }

    fn config(&self, environment: &[(&str, &str)]) -> Ran {
        run_in(self.0.path(), &["config", "--json"], environment, "")
    }

    /// Returns the single problem that `posthaste serve` reports.
    fn refusal(&self, environment: &[(&str, &str)]) -> String {
        let ran = run_in(self.0.path(), &["serve"], environment, "").expect(1);
        let problem = ran.stderr.strip_prefix("posthaste: 1 setting is invalid:\n  ");
        let problem = problem.unwrap_or_else(|| panic!("{}", ran.stderr)).trim_end().to_owned();
        assert!(!ran.stderr.contains("hush"), "{}", ran.stderr);
        problem
    }
}

fn setting(config: &Ran, name: &str) -> Value {
    let json: Value = serde_json::from_str(&config.stdout).expect("JSON");
    let settings = json["settings"].as_array().expect("settings");
    settings.iter().find(|entry| entry["name"] == name).expect("the setting").clone()
}

#[test]
fn every_secret_setting_can_be_in_a_file() {
    let files = Files::new();
    let config = run(&["config", "--json"], &[], "").expect(0);
    let json: Value = serde_json::from_str(&config.stdout).expect("JSON");
    let mut tried = 0;
    for entry in json["settings"].as_array().expect("settings") {
        let Some(variable) = entry["file_variable"].as_str() else { continue };
        let name = entry["name"].as_str().expect("a name");
        assert_eq!(variable, format!("{name}_FILE"));
        let text = match name {
            "POSTHASTE_ROOT_KEY" => ROOT_KEY,
            "POSTHASTE_SECRET_KEY" => "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
            "POSTHASTE_BROKER_HEADERS" => "Authorization: Bearer hush\nX-Desk: hush",
            "POSTHASTE_DATABASE_PASSWORD_COMMAND" => "echo hush",
            "POSTHASTE_EGRESS_PROXY" => "http://user:hush@proxy.example:3128",
            url => {
                assert!(url.starts_with("POSTHASTE_DATABASE_URL"), "{url} needs a value in this test");
                "postgres://user:hush@db/posthaste"
            }
        };
        let path = files.put(name, format!("{text}\n").as_bytes(), 0o400);
        let database = match name {
            "POSTHASTE_DATABASE_URL" => ("POSTHASTE_LISTEN", "127.0.0.1:1"),
            _ => ("POSTHASTE_DATABASE_URL", "postgres://user@db/posthaste"),
        };
        let shown = files.config(&[(variable, &path), database]).expect(0);
        let entry = setting(&shown, name);
        assert_eq!(entry["source"], "secret_file", "{entry}");
        assert_eq!(entry["file"], path.as_str(), "{entry}");
        assert!(!entry["value"].is_null(), "{entry}");
        let table = run(&["config"], &[(variable, &path), database], "").expect(0);
        assert!(table.stdout.contains(&format!("{variable}={path}")), "{}", table.stdout);
        for text in [shown.stdout, shown.stderr, table.stdout, table.stderr] {
            assert!(!text.contains("hush") && !text.contains("5f5f"), "{text}");
        }
        tried += 1;
    }
    assert!(tried > 15, "{tried}");
}

#[test]
fn a_later_source_replaces_a_file() {
    let files = Files::new();
    let path = files.put("key", ROOT_KEY.as_bytes(), 0o400);
    std::fs::write(files.0.path().join("posthaste.toml"), format!("root_key_file = {path:?}"))
        .expect("a file");
    let source = |environment: &[(&str, &str)]| {
        let config = files.config(environment).expect(0);
        setting(&config, "POSTHASTE_ROOT_KEY")["source"].as_str().expect("a source").to_owned()
    };
    assert_eq!(source(&[]), "secret_file");
    assert_eq!(source(&[("POSTHASTE_ROOT_KEY", ROOT_KEY)]), "environment");
    assert_eq!(source(&[("POSTHASTE_ROOT_KEY_FILE", "")]), "default");
    // An empty variable counts as not set.
    assert_eq!(source(&[("POSTHASTE_ROOT_KEY", ""), ("POSTHASTE_ROOT_KEY_FILE", &path)]), "secret_file");
    assert_eq!(source(&[("POSTHASTE_ROOT_KEY", ROOT_KEY), ("POSTHASTE_ROOT_KEY_FILE", "")]), "environment");
}

#[test]
fn unusable_files_are_reported_with_setting_file_and_reason() {
    let files = Files::new();
    std::fs::create_dir(files.0.path().join("folder")).expect("a folder");
    let pipe = files.0.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let path = |name: &str| files.0.path().join(name).to_str().expect("a UTF-8 path").to_owned();
    let (writable, key_mode) = (files.put("writable", ROOT_KEY.as_bytes(), 0o620), 0o600);
    for (path, reason) in [
        (path("missing"), "the file cannot be read: No such file or directory (os error 2)".to_owned()),
        (path("folder"), "this is a folder, not a file".to_owned()),
        (path("pipe"), "this is not a regular file".to_owned()),
        (files.put("empty", b"", key_mode), "the file is empty".to_owned()),
        (files.put("newline", b"\n", key_mode), "the file is empty".to_owned()),
        (files.put("nul", b"hush\0", key_mode), "the file contains a NUL byte".to_owned()),
        (files.put("binary", b"hush\xff", key_mode), "the file is not text in UTF-8".to_owned()),
        (
            files.put("large", &vec![b'k'; 2 << 20], key_mode),
            "the file is larger than 65536 bytes".to_owned(),
        ),
        (
            writable.clone(),
            format!("the group or other users can change the file (mode 0620); run: chmod go-w {writable:?}"),
        ),
        (
            files.put("short", b"hush\n", key_mode),
            "expected 32 to 256 visible ASCII characters; create one with: openssl rand -hex 32".to_owned(),
        ),
    ] {
        let message = files.refusal(&[("POSTHASTE_ROOT_KEY_FILE", &path)]);
        assert_eq!(message, format!("POSTHASTE_ROOT_KEY_FILE={path}: {reason}"));
    }
    let folder = files.0.path().canonicalize().expect("a path");
    let relative = files.refusal(&[("POSTHASTE_ROOT_KEY_FILE", "key")]);
    assert!(relative.ends_with(&format!("; the path is relative to {}", folder.display())), "{relative}");
}

#[test]
fn a_value_and_a_file_conflict() {
    let files = Files::new();
    let path = files.put("key", ROOT_KEY.as_bytes(), 0o400);
    let message = files.refusal(&[("POSTHASTE_ROOT_KEY", ROOT_KEY), ("POSTHASTE_ROOT_KEY_FILE", &path)]);
    assert_eq!(
        message,
        format!(
            "POSTHASTE_ROOT_KEY=(set, not shown) and POSTHASTE_ROOT_KEY_FILE={path}: remove one of the two"
        )
    );
    let both = format!("root_key = {ROOT_KEY:?}\nroot_key_file = {path:?}");
    std::fs::write(files.0.path().join("posthaste.toml"), both).expect("a file");
    let message = files.refusal(&[]);
    assert!(message.contains("posthaste.toml line 1: root_key = (set, not shown) and"), "{message}");
    assert!(message.contains(&format!("line 2: root_key_file = {path}: remove one")), "{message}");
}

#[test]
fn files_that_everybody_can_read_cause_a_warning() {
    let files = Files::new();
    let warnings = |name: &str, path: &str| {
        let database = ("POSTHASTE_DATABASE_URL", "postgres://u@h/d");
        let config = files.config(&[(name, path), database]).expect(0);
        let json: Value = serde_json::from_str(&config.stdout).expect("JSON");
        let all = json["warnings"].as_array().expect("warnings").clone();
        let all = all.into_iter().map(|text| text.as_str().expect("a text").to_owned());
        all.filter(|text| text.starts_with(name)).collect::<Vec<_>>()
    };
    // A file on disk: the folder of this package, unless it is in memory.
    let on_disk = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("key-{}", std::process::id()));
    std::fs::write(&on_disk, ROOT_KEY).expect("a file");
    std::fs::set_permissions(&on_disk, PermissionsExt::from_mode(0o644)).expect("a mode");
    let path = on_disk.to_str().expect("a UTF-8 path");
    for name in ["POSTHASTE_ROOT_KEY_FILE", "POSTHASTE_DATABASE_PASSWORD_FILE"] {
        let expected = format!(
            "{name}={path}: every user of this machine can read the file (mode 0644); run: chmod o-r {path:?}"
        );
        assert_eq!(warnings(name, path), [expected]);
        // Docker and Kubernetes place secrets in memory, readable by every user of the container.
        assert_eq!(warnings(name, &files.put("key", ROOT_KEY.as_bytes(), 0o644)), Vec::<String>::new());
    }
    std::fs::set_permissions(&on_disk, PermissionsExt::from_mode(0o640)).expect("a mode");
    assert_eq!(warnings("POSTHASTE_ROOT_KEY_FILE", path), Vec::<String>::new());
    std::fs::remove_file(&on_disk).expect("to remove it");
}

#[test]
fn the_client_reads_its_key_from_a_file() {
    let files = Files::new();
    let key = files.put("key", b"phk_hush\n", 0o400);
    // Nothing listens there, so the command fails after it has read the key.
    let url = ("POSTHASTE_URL", "http://127.0.0.1:1");
    run(&["event", "list"], &[url, ("POSTHASTE_KEY_FILE", &key)], "").expect(3);
    let both = run(&["event", "list"], &[url, ("POSTHASTE_KEY_FILE", &key), ("POSTHASTE_KEY", "hush")], "");
    let both = both.expect(2);
    assert!(both.stderr.contains("POSTHASTE_KEY and POSTHASTE_KEY_FILE are both set"), "{}", both.stderr);
    let missing = run(&["event", "list"], &[url, ("POSTHASTE_KEY_FILE", "/missing")], "").expect(1);
    let expected = "POSTHASTE_KEY_FILE=/missing: the file cannot be read: No such file or directory";
    assert!(missing.stderr.contains(expected), "{}", missing.stderr);
}
