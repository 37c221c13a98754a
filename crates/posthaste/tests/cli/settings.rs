//! The settings as a user meets them: the built binary, its files, its environment and its flags.

use posthaste_testkit::commands::{Ran, run_in};
use std::path::Path;
use tempfile::TempDir;

struct Run {
    folder: TempDir,
    environment: Vec<(&'static str, &'static str)>,
}

impl Run {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), environment: Vec::new() }
    }

    fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.path().join(name), text).expect("a file");
        self
    }

    fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    fn output(&self, arguments: &[&str]) -> Ran {
        run_in(self.folder.path(), arguments, &self.environment, "")
    }

    /// What a good run prints.
    fn stdout(&self, arguments: &[&str]) -> String {
        self.output(arguments).expect(0).stdout
    }

    /// What a bad run says.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_ne!(output.code, Some(0), "{arguments:?} was taken");
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        output.stderr
    }

    /// Value and source of a setting, in the table and in JSON.
    fn setting(&self, name: &str, arguments: &[&str]) -> (String, String) {
        let table = self.stdout(&[&["config"], arguments].concat());
        let line =
            table.lines().find(|line| line.split_whitespace().next() == Some(name)).expect("the setting");
        let json = self.stdout(&[&["config", "--json"], arguments].concat());
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let settings = json["settings"].as_array().expect("settings");
        let entry = settings.iter().find(|entry| entry["name"] == name).expect("the setting");
        let value = entry["value"].as_str().unwrap_or("none").to_owned();
        let source = entry["source"].as_str().expect("a source").to_owned();
        assert!(line.contains(&value), "{line}: {value}");
        (value, source)
    }
}

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[test]
fn without_a_word_the_defaults_hold() {
    let run = Run::new();
    for (name, value) in [
        ("POSTHASTE_DATABASE_URL", "sqlite://posthaste-data/posthaste.db"),
        ("POSTHASTE_LISTEN", "127.0.0.1:8080"),
        ("POSTHASTE_ROLES", "all"),
        ("POSTHASTE_ROOT_KEY", "none"),
        ("POSTHASTE_MAX_RETRY_LIMIT", "5"),
        ("POSTHASTE_RETRY_BASE", "30s"),
        ("POSTHASTE_RETRY_CAP", "1h"),
        ("POSTHASTE_LEASE", "60s"),
        ("POSTHASTE_PAYLOAD_BYTES_MAX", "256KiB"),
        ("POSTHASTE_ALLOW_CIDRS", "none"),
        ("POSTHASTE_TRUSTED_PROXIES", "127.0.0.0/8,::1/128"),
        ("POSTHASTE_BROKER_PROCESSED_MARKER", "already processed"),
        ("OUTBOX_BATCH_SIZE", "32"),
        ("OUTBOX_LEDGER_TTL", "7d"),
    ] {
        assert_eq!(run.setting(name, &[]), pair(value, "default"), "{name}");
    }
}

#[test]
fn a_file_stands_under_the_environment_and_that_under_flags() {
    let lease = |run: &Run, arguments: &[&str]| run.setting("POSTHASTE_LEASE", arguments);
    let run = Run::new().file("posthaste.toml", "# ours\nlease = \"2m\"\n");
    assert_eq!(lease(&run, &[]), pair("2m", "file"));
    assert!(run.stdout(&["config"]).contains("posthaste.toml line 2"));
    let run = run.env("POSTHASTE_LEASE", "3m");
    assert_eq!(lease(&run, &[]), pair("3m", "environment"));
    assert_eq!(lease(&run, &["--lease", "4m"]), pair("4m", "flag"));
    assert_eq!(run.setting("POSTHASTE_ALLOW_HTTP", &["--allow-http"]), pair("true", "flag"));
}

#[test]
fn a_file_can_be_named() {
    let run = Run::new()
        .file("posthaste.toml", "lease = \"2m\"")
        .file("a.toml", "lease = \"3m\"\nallow_cidrs = [\"10.0.0.0/8\", \"fd00::/8\"]\noutbox_batch_size = 7")
        .file("b.toml", "lease = \"4m\"")
        .env("POSTHASTE_CONFIG", "a.toml");
    assert_eq!(run.setting("POSTHASTE_LEASE", &[]), pair("3m", "file"));
    assert_eq!(run.setting("POSTHASTE_ALLOW_CIDRS", &[]), pair("10.0.0.0/8,fd00::/8", "file"));
    assert_eq!(run.setting("OUTBOX_BATCH_SIZE", &[]), pair("7", "file"));
    assert_eq!(run.setting("POSTHASTE_LEASE", &["--config", "b.toml"]), pair("4m", "file"));
    let told = run.refusal(&["config", "--config", "c.toml"]);
    assert!(told.contains("c.toml: the file of settings cannot be opened"), "{told}");
}

#[test]
fn the_empty_text_takes_a_value_back() {
    let run = Run::new().file("posthaste.toml", "ca_file = \"a.pem\"").env("POSTHASTE_CA_FILE", "");
    assert_eq!(run.setting("POSTHASTE_CA_FILE", &[]), pair("none", "default"));
    let told = Run::new().env("POSTHASTE_LEASE", "").refusal(&["config"]);
    assert!(told.contains("POSTHASTE_LEASE=: expected a time"), "{told}");
}

#[test]
fn secrets_are_not_shown() {
    let run = Run::new()
        .env("POSTHASTE_ROOT_KEY", "hush-9f86d081884c7d659a2feaa0c55ad015")
        .env("POSTHASTE_SECRET_KEY", "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f")
        .env("POSTHASTE_DATABASE_URL", "postgres://all:hush@db:5432/posthaste")
        .env("POSTHASTE_DATABASE_URL_ROUTER", "postgres://router:hush@db/posthaste?sslmode=require")
        .env("POSTHASTE_BROKER_HEADERS", "Authorization: Bearer hush; X-Desk: 7");
    for (name, value) in [
        ("POSTHASTE_ROOT_KEY", "(set, not shown)"),
        ("POSTHASTE_SECRET_KEY", "(set, not shown)"),
        ("POSTHASTE_DATABASE_URL", "postgres://all:***@db:5432/posthaste"),
        ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://router:***@db/posthaste?…"),
        ("POSTHASTE_BROKER_HEADERS", "(set, not shown)"),
    ] {
        assert_eq!(run.setting(name, &[]), pair(value, "environment"), "{name}");
    }
    for arguments in [&["config"][..], &["config", "--json"]] {
        let output = run.output(arguments);
        let text = output.stdout + &output.stderr;
        assert!(!text.contains("hush") && !text.contains("5f5f"), "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let run = Run::new()
        .file("posthaste.toml", "\nretry_bas = \"30s\"\npoll = 5\n")
        .env("POSTHASTE_DATABSE_URL", "sqlite://x.db")
        .env("POSTHASTE_SECRET_KEY", "hush")
        .env("POSTHASTE_LISTEN", "8080")
        .env("OUTBOX_COLOUR", "red")
        .env("PATH", "/bin");
    let expected = "posthaste: 7 settings are wrong:
  OUTBOX_COLOUR: there is no such setting
  POSTHASTE_DATABSE_URL: there is no such setting; did you mean POSTHASTE_DATABASE_URL?
  posthaste.toml line 2: retry_bas: there is no such setting; did you mean retry_base?
  POSTHASTE_LISTEN=8080: expected an IP address and a port, such as 127.0.0.1:8080 or [::]:8080
  POSTHASTE_SECRET_KEY=(set, not shown): expected 64 hexadecimal characters or the base64 of 32 bytes; make one with: openssl rand -hex 32
  posthaste.toml line 3: poll = 5: expected a time from 1ms to 1m: a whole number with ms, s, m, h or d, such as 30s
  --worker-concurrency -1: expected a whole number from 1 to 65536
";
    let flags = ["--worker-concurrency", "-1"];
    for command in ["config", "serve"] {
        assert_eq!(run.refusal(&[&[command], &flags[..]].concat()), expected);
    }
}

#[test]
fn what_cannot_be_right_together_is_told_with_both_names() {
    let run = Run::new().file("posthaste.toml", "request_timeout = \"58s\"");
    assert_eq!(
        run.refusal(&["serve", "--cleaner-interval", "2m"]),
        "posthaste: 2 settings are wrong:
  posthaste.toml line 1: request_timeout = 58s and POSTHASTE_LEASE=60s (the default): a request must end 5s before its lease does, so that its result can still be reported
  --cleaner-interval 2m and POSTHASTE_LEASE=60s (the default): the cleaner must look more often than leases run out
"
    );
}

#[test]
fn the_example_is_a_file_that_changes_nothing() {
    let example = Run::new().stdout(&["config", "--example"]);
    assert!(example.contains("\n#retry_base = \"30s\"\n"), "{example}");
    let run = Run::new().file("posthaste.toml", &example);
    assert!(run.stdout(&["config"]).lines().skip(1).all(|line| line.ends_with("  default")));
}

#[test]
fn help_names_the_variable_and_the_default() {
    let help = Run::new().stdout(&["serve", "--help"]);
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    for part in [
        "Deliveries:",
        "--retry-base <TIME> The wait after the first failed attempt; it doubles after each [POSTHASTE_RETRY_BASE, default 30s]",
        "--outbox-batch-size <NUMBER>",
        "[OUTBOX_BATCH_SIZE, default 32]",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn migrate_takes_its_database_from_the_settings() {
    let run = Run::new().file("posthaste.toml", "database_url = \"sqlite://here.db\"");
    let told = run.stdout(&["migrate"]);
    assert!(told.starts_with("here.db: applied migration"), "{told}");
    assert!(Path::new(run.folder.path()).join("here.db").exists());
}

#[test]
fn the_log_warns_in_json() {
    let run = Run::new().env("POSTHASTE_LOG_FORMAT", "json").env("POSTHASTE_ALLOW_HTTP", "true");
    let output = run.output(&["serve", "--roles", "router"]);
    let text = output.stderr;
    let lines: Vec<serde_json::Value> =
        text.lines().take(2).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (line, start) in lines.iter().zip(["POSTHASTE_ALLOW_HTTP: ", "POSTHASTE_SECRET_KEY is not set: "]) {
        assert_eq!((&line["level"], &line["target"]), (&"WARN".into(), &"posthaste::cli".into()));
        assert!(line["message"].as_str().is_some_and(|message| message.starts_with(start)), "{line}");
        assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
    assert_eq!(lines.len(), 2, "{text}");
}
