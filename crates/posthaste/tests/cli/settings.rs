//! Tests the settings of the built binary: file, environment, flags and defaults.

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

    /// Runs a command that must succeed, and returns its output.
    fn stdout(&self, arguments: &[&str]) -> String {
        self.output(arguments).expect(0).stdout
    }

    /// Runs a command that must fail, and returns its message.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_ne!(output.code, Some(0), "{arguments:?} was accepted");
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        output.stderr
    }

    /// Returns the value and the source of a setting from the JSON output, and checks that the table has the same
    /// value.
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
fn defaults_apply_if_nothing_is_set() {
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
        ("POSTHASTE_DENY_CIDRS", "none"),
        ("POSTHASTE_ALLOW_CIDRS", "none"),
        ("POSTHASTE_ALLOW_PORTS", "any"),
        ("POSTHASTE_EGRESS_PROXY", "none"),
        ("POSTHASTE_VERIFICATION_METHODS", "challenge,cloudevents"),
        ("POSTHASTE_WEBHOOK_ORIGIN", "none"),
        ("POSTHASTE_TRUSTED_PROXIES", "127.0.0.0/8,::1/128"),
        ("POSTHASTE_BROKER_PROCESSED_MARKER", "already processed"),
        ("OUTBOX_BATCH_SIZE", "32"),
        ("OUTBOX_LEDGER_TTL", "7d"),
    ] {
        assert_eq!(run.setting(name, &[]), pair(value, "default"), "{name}");
    }
}

#[test]
fn flags_override_environment_and_environment_overrides_file() {
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
fn settings_file_can_be_named() {
    let run = Run::new()
        .file("posthaste.toml", "lease = \"2m\"")
        .file("a.toml", "lease = \"3m\"\nallow_cidrs = [\"10.0.0.0/8\", \"fd00::/8\"]\noutbox_batch_size = 7")
        .file("b.toml", "lease = \"4m\"")
        .env("POSTHASTE_CONFIG", "a.toml");
    assert_eq!(run.setting("POSTHASTE_LEASE", &[]), pair("3m", "file"));
    assert_eq!(run.setting("POSTHASTE_ALLOW_CIDRS", &[]), pair("10.0.0.0/8,fd00::/8", "file"));
    assert_eq!(run.setting("OUTBOX_BATCH_SIZE", &[]), pair("7", "file"));
    assert_eq!(run.setting("POSTHASTE_LEASE", &["--config", "b.toml"]), pair("4m", "file"));
    let message = run.refusal(&["config", "-c", "c.toml"]);
    assert!(message.contains("c.toml: cannot open the settings file"), "{message}");
}

#[test]
fn empty_value_unsets_a_setting() {
    let run = Run::new().file("posthaste.toml", "ca_file = \"a.pem\"").env("POSTHASTE_CA_FILE", "");
    assert_eq!(run.setting("POSTHASTE_CA_FILE", &[]), pair("none", "default"));
    let message = Run::new().env("POSTHASTE_LEASE", "").refusal(&["config"]);
    assert!(message.contains("POSTHASTE_LEASE=: expected a duration"), "{message}");
}

#[test]
fn methods_of_verification_are_known_and_usable() {
    let run = Run::new().file("posthaste.toml", "verification_methods = [\"asserted\", \"challenge\"]");
    assert_eq!(run.setting("POSTHASTE_VERIFICATION_METHODS", &[]), pair("asserted,challenge", "file"));
    let flags = &["--verification-methods", "cloudevents", "--webhook-origin", "Events.Example.com"][..];
    assert_eq!(run.setting("POSTHASTE_VERIFICATION_METHODS", flags), pair("cloudevents", "flag"));
    for value in ["", "none", "challenge,", "challenge,dns"] {
        let message = Run::new().env("POSTHASTE_VERIFICATION_METHODS", value).refusal(&["serve"]);
        let expected = format!(
            "POSTHASTE_VERIFICATION_METHODS={value}: expected a list of challenge, cloudevents, asserted"
        );
        assert!(message.contains(&expected), "{message}");
    }
    let message = Run::new().env("POSTHASTE_VERIFICATION_METHODS", "cloudevents").refusal(&["serve"]);
    let expected =
        "POSTHASTE_VERIFICATION_METHODS=cloudevents and POSTHASTE_WEBHOOK_ORIGIN: the method cloudevents";
    assert!(message.contains(expected), "{message}");
    for value in ["https://events.example.com", "events.example.com:443", "10.0.0.1"] {
        let message = Run::new().env("POSTHASTE_WEBHOOK_ORIGIN", value).refusal(&["serve"]);
        let expected = format!("POSTHASTE_WEBHOOK_ORIGIN={value}: expected a DNS host name");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn secrets_are_masked() {
    let run = Run::new()
        .env("POSTHASTE_ROOT_KEY", "hush-9f86d081884c7d659a2feaa0c55ad015")
        .env("POSTHASTE_SECRET_KEY", "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f")
        .env("POSTHASTE_DATABASE_URL", "postgres://all:hush@db:5432/posthaste")
        .env("POSTHASTE_DATABASE_URL_ROUTER", "postgres://router:hush@db/posthaste?sslmode=require")
        .env("POSTHASTE_BROKER_HEADERS", "Authorization: Bearer hush; X-Desk: 7")
        .env("POSTHASTE_EGRESS_PROXY", "http://user:hush@proxy.example:3128");
    for (name, value) in [
        ("POSTHASTE_ROOT_KEY", "(set, not shown)"),
        ("POSTHASTE_SECRET_KEY", "(set, not shown)"),
        ("POSTHASTE_DATABASE_URL", "postgres://all:***@db:5432/posthaste"),
        ("POSTHASTE_DATABASE_URL_ROUTER", "postgres://router:***@db/posthaste?…"),
        ("POSTHASTE_BROKER_HEADERS", "(set, not shown)"),
        ("POSTHASTE_EGRESS_PROXY", "http://***@proxy.example:3128"),
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
fn all_problems_are_reported_at_once() {
    let run = Run::new()
        .file("posthaste.toml", "\nretry_bas = \"30s\"\npoll = 5\n")
        .env("POSTHASTE_DATABSE_URL", "sqlite://x.db")
        .env("POSTHASTE_SECRET_KEY", "hush")
        .env("POSTHASTE_LISTEN", "8080")
        .env("OUTBOX_COLOUR", "red")
        .env("PATH", "/bin");
    let expected = "posthaste: 7 settings are invalid:
  OUTBOX_COLOUR: unknown setting
  POSTHASTE_DATABSE_URL: unknown setting; did you mean POSTHASTE_DATABASE_URL?
  posthaste.toml line 2: retry_bas: unknown setting; did you mean retry_base?
  POSTHASTE_LISTEN=8080: expected an IP address and port, such as 127.0.0.1:8080 or [::]:8080
  POSTHASTE_SECRET_KEY=(set, not shown): expected keys separated by commas, each 64 hexadecimal characters \
  or the base64 of 32 bytes; \
  create one with: openssl rand -hex 32
  posthaste.toml line 3: poll = 5: expected a duration from 1ms to 1m: \
  a whole number followed by ms, s, m, h or d, such as 30s
  --worker-concurrency -1: expected a whole number from 1 to 65536
";
    let flags = ["--worker-concurrency", "-1"];
    for command in ["config", "serve"] {
        assert_eq!(run.refusal(&[&[command], &flags[..]].concat()), expected);
    }
}

#[test]
fn invalid_egress_settings_stop_the_start() {
    let networks = "expected up to 256 networks separated by commas, such as 10.0.0.0/8,fd00::/8";
    let ports = "expected any, or up to 64 ports from 1 to 65535 separated by commas, such as 443,8443";
    let proxy =
        "expected an http URL such as http://proxy.example:3128 or http://user:password@proxy.example:3128";
    for (name, value, shown, expected) in [
        ("POSTHASTE_DENY_CIDRS", "10.0.0.0", "10.0.0.0", networks),
        ("POSTHASTE_DENY_CIDRS", "internal", "internal", networks),
        ("POSTHASTE_ALLOW_CIDRS", "10.0.0.0/33", "10.0.0.0/33", networks),
        ("POSTHASTE_ALLOW_PORTS", "443,0", "443,0", ports),
        ("POSTHASTE_ALLOW_PORTS", "https", "https", ports),
        ("POSTHASTE_ALLOW_PORTS", "", "", ports),
        ("POSTHASTE_EGRESS_PROXY", "proxy.example", "proxy.example", proxy),
        ("POSTHASTE_EGRESS_PROXY", "https://proxy.example", "https://proxy.example", proxy),
        ("POSTHASTE_EGRESS_PROXY", "socks5://u:hush@proxy.example", "(not shown)", proxy),
        ("POSTHASTE_EGRESS_PROXY", "http://proxy.example/path", "http://proxy.example/path", proxy),
    ] {
        let message = Run::new().env(name, value).refusal(&["serve"]);
        let expected = format!("posthaste: 1 setting is invalid:\n  {name}={shown}: {expected}");
        assert!(message.starts_with(&expected) && !message.contains("hush"), "{message}");
    }
    let message = Run::new()
        .env("POSTHASTE_BROKER_URL", "https://192.0.1.7:9000")
        .env("POSTHASTE_DENY_CIDRS", "192.0.1.0/24")
        .refusal(&["serve"]);
    let expected =
        "POSTHASTE_BROKER_URL=https://192.0.1.7:9000 and POSTHASTE_DENY_CIDRS=192.0.1.0/24: 192.0.1.7 is in";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn conflicting_settings_are_both_named() {
    let run = Run::new().file("posthaste.toml", "request_timeout = \"58s\"");
    assert_eq!(
        run.refusal(&["serve", "--cleaner-interval", "2m"]),
        "posthaste: 2 settings are invalid:
  posthaste.toml line 1: request_timeout = 58s and POSTHASTE_LEASE=60s (the default): \
  a request must time out at least 5s before its lease expires, so that its result can be reported
  --cleaner-interval 2m and POSTHASTE_LEASE=60s (the default): the cleaner must run more often than leases expire
"
    );
}

#[test]
fn durations_have_one_notation() {
    // Settings whose names contain a unit also accept bare numbers in that unit.
    for (name, values) in [
        ("POSTHASTE_RETRY_BASE", &["500ms", "30s", "5m", "1h", "1d"][..]),
        ("OUTBOX_IDLE_SLEEP_MS", &["200", "200ms", "1s"]),
        ("OUTBOX_STUCK_THRESHOLD_MIN", &["10", "0.5", "10m", "90s", "1h"]),
        ("OUTBOX_LAG_SLA", &["90s"]),
    ] {
        for value in values {
            let run = Run::new().env(name, value).env("POSTHASTE_RETRY_CAP", "7d");
            assert_eq!(run.setting(name, &[]), pair(value, "environment"), "{name}");
        }
    }
    for (name, value) in [
        ("POSTHASTE_RETRY_BASE", "30"),
        ("POSTHASTE_RETRY_BASE", "1.5s"),
        ("OUTBOX_IDLE_SLEEP_MS", "0.5"),
        ("OUTBOX_IDLE_SLEEP_MS", "2m"),
        ("OUTBOX_STUCK_THRESHOLD_MIN", "1s"),
    ] {
        let message = Run::new().env(name, value).refusal(&["config"]);
        assert!(message.contains(&format!("{name}={value}: expected a duration from ")), "{message}");
    }
    let run =
        Run::new().file("posthaste.toml", "outbox_idle_sleep_ms = \"1s\"\noutbox_stuck_threshold_min = 0.5");
    assert_eq!(run.setting("OUTBOX_IDLE_SLEEP_MS", &[]), pair("1s", "file"));
    assert_eq!(run.setting("OUTBOX_STUCK_THRESHOLD_MIN", &[]), pair("0.5", "file"));
}

#[test]
fn example_file_changes_nothing() {
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
        "--retry-base <DURATION> Delay before the first retry; it doubles with each further one \
         [env: POSTHASTE_RETRY_BASE] [default: 30s]",
        "--outbox-batch-size <NUMBER>",
        "[env: OUTBOX_BATCH_SIZE] [default: 32]",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn migrate_uses_the_database_of_the_settings() {
    let run = Run::new().file("posthaste.toml", "database_url = \"sqlite://here.db\"");
    let message = run.stdout(&["migrate"]);
    assert!(message.starts_with("here.db: applied migration"), "{message}");
    let again: serde_json::Value = serde_json::from_str(&run.stdout(&["migrate", "--json"])).expect("JSON");
    assert_eq!(again, serde_json::json!({"database": "here.db", "applied": [], "statements_to_run": []}));
    assert!(Path::new(run.folder.path()).join("here.db").exists());
}

#[test]
fn warnings_are_logged_as_json() {
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
