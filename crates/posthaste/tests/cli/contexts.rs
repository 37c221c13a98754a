//! Tests the client profile: `login`, `logout` and `context`, the precedence of its values, and files that are refused.

use crate::folder;
use posthaste_testkit::commands::{Dev, Ran, run};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A user with a separate configuration directory.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(folder())
    }

    /// Returns the directory of the profile, which `login` creates.
    fn directory(&self) -> PathBuf {
        self.0.path().join("config").join("posthaste")
    }

    fn file(&self) -> PathBuf {
        self.directory().join("config.toml")
    }

    /// Writes the profile with the given file mode.
    fn with_profile(self, text: &str, mode: u32) -> Self {
        std::fs::create_dir_all(self.directory()).expect("a folder");
        std::fs::write(self.file(), text).expect("a file");
        std::fs::set_permissions(self.file(), PermissionsExt::from_mode(mode)).expect("a mode");
        self
    }

    fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)], stdin: &str) -> Ran {
        let config = self.0.path().join("config");
        let config = [("XDG_CONFIG_HOME", config.to_str().expect("a path"))];
        run(arguments, &[&config, environment].concat(), stdin)
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[], "")
    }

    fn login(&self, dev: &Dev, name: &str) {
        let stdin = format!("{}\n", dev.key);
        let ran = self.run_with(&["login", name, "--url", &dev.url], &[], &stdin).expect(0);
        assert!(!ran.stdout.contains(&dev.key) && !ran.stderr.contains(&dev.key), "{ran:?}");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777
}

#[test]
fn login_stores_url_and_key_for_the_owner_only() {
    let data = folder();
    let (dev, user) = (Dev::start(&data), User::new());
    user.login(&dev, "prod");
    assert_eq!((mode(&user.directory()), mode(&user.file())), (0o700, 0o600));
    // The context supplies URL and key.
    assert_eq!(user.run(&["event", "list"]).expect(0).stdout, "no events\n");
    let list = user.run(&["context", "list"]).expect(0);
    assert!(list.stdout.contains("prod") && list.stdout.contains(&dev.url), "{list:?}");
    let json = user.run(&["context", "list", "--json"]).expect(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(listed["items"][0], serde_json::json!({"name": "prod", "url": dev.url, "current": true}));
    for text in [list.stdout, json] {
        assert!(!text.contains(&dev.key), "{text}");
    }
    // A second login with the same name keeps the URL. The key may come from a flag or from the environment.
    user.run(&["login", "prod", "--key", &dev.key]).expect(0);
    user.run_with(&["login", "prod"], &[("POSTHASTE_KEY", &dev.key)], "").expect(0);
    user.run(&["event", "list"]).expect(0);
    // A key whose role may not read is valid as well.
    let created = dev.json(&["key", "create", "shop", "ingest"]);
    let key = created["key"].as_str().expect("a key");
    let ran = user.run_with(&["login", "--url", &dev.url, "--json"], &[], key).expect(0);
    let stored: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&stored["context"], &stored["url"]), (&"default".into(), &dev.url.as_str().into()));
    user.run(&["event", "send", "a.b", "--payload", "1"]).expect(0);
    user.run(&["event", "list"]).expect(1);
}

#[test]
fn refused_login_stores_nothing() {
    let data = folder();
    let (dev, user) = (Dev::start(&data), User::new());
    for (arguments, stdin, code, message) in [
        (&["login", "--url", &dev.url][..], "not-a-key\n", 1, "posthaste login"),
        (&["login", "--url", &dev.url], "", 2, "no API key"),
        (&["login", "--url", &dev.url], " \nsecond line", 2, "no API key"),
        (&["login", "--url", &dev.url], "a\u{1}b", 2, "API key contains"),
        (&["login", "--url", "http://127.0.0.1:1"], "key", 3, "cannot reach"),
        (&["login", "--url", "127.0.0.1"], "key", 2, "http://"),
        (&["login", "a b", "--url", &dev.url], "key", 2, "letters, digits, hyphens or underscores"),
    ] {
        let ran = user.run_with(arguments, &[], stdin).expect(code);
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
        assert!(!user.file().exists(), "{arguments:?}");
    }
    let ran = run(&["login", "--url", &dev.url], &[], &dev.key).expect(1);
    assert!(ran.stderr.contains("XDG_CONFIG_HOME or HOME"), "{ran:?}");
}

#[test]
fn precedence_is_flag_environment_context() {
    let (data, other_data) = (folder(), folder());
    let (dev, other, user) = (Dev::start(&data), Dev::start(&other_data), User::new());
    dev.run(&["event", "send", "a.first", "--payload", "1"]).expect(0);
    other.run(&["event", "send", "a.second", "--payload", "1"]).expect(0);
    user.login(&dev, "first");
    user.login(&other, "second");
    let is_from = |ran: Ran, name: &str| {
        let ran = ran.expect(0);
        assert!(ran.stdout.contains(&format!("a.{name}")), "{name}: {ran:?}");
    };
    // The last login is the current context.
    is_from(user.run(&["event", "list"]), "second");
    user.run(&["context", "use", "first"]).expect(0);
    is_from(user.run(&["event", "list"]), "first");
    is_from(user.run(&["--context", "second", "event", "list"]), "second");
    let variable = [("POSTHASTE_CONTEXT", "second")];
    is_from(user.run_with(&["event", "list"], &variable, ""), "second");
    is_from(user.run_with(&["event", "list", "--context", "first"], &variable, ""), "first");
    let server = [("POSTHASTE_URL", other.url.as_str()), ("POSTHASTE_KEY", &other.key)];
    is_from(user.run_with(&["event", "list"], &server, ""), "second");
    let flags = ["event", "list", "--url", &dev.url, "--key", &dev.key];
    is_from(user.run_with(&flags, &server, ""), "first");
    // A context that is named by a flag overrides the server of the environment.
    is_from(user.run_with(&["event", "list", "--context", "first"], &server, ""), "first");
    // A context's key is not sent to another server, and an invalid port is not replaced by the default.
    user.run(&["event", "list", "--url", "http://127.0.0.1:99999", "--key", "k"]).expect(2);
    let ran = user.run(&["event", "list", "--url", &other.url]).expect(1);
    assert!(ran.stderr.contains("POSTHASTE_KEY"), "{ran:?}");
}

#[test]
fn contexts_are_selected_and_removed() {
    let profile = "current = \"a\"\n\
        [contexts.a]\nurl = \"http://127.0.0.1:1\"\nkey = \"key-of-a\"\n\
        [contexts.b]\nurl = \"http://127.0.0.1:1\"\nkey = \"key-of-b\"\n";
    let user = User::new().with_profile(profile, 0o600);
    for command in [
        &["context", "use", "c"][..],
        &["context", "remove", "c"],
        &["logout", "c"],
        &["--context", "c", "event", "list"],
    ] {
        let ran = user.run(command).expect(2);
        assert!(
            ran.stderr.contains("there is no context \"c\"; known contexts: a, b"),
            "{command:?}: {ran:?}"
        );
    }
    user.run_with(&["event", "list"], &[("POSTHASTE_CONTEXT", "c")], "").expect(2);
    assert!(user.run(&["context", "use", "b"]).expect(0).stdout.contains("b is now the current context"));
    user.run(&["context", "remove", "a"]).expect(0);
    let text = std::fs::read_to_string(user.file()).expect("a file");
    assert!(text.contains("key-of-b") && !text.contains("key-of-a"), "{text}");
    assert_eq!(mode(&user.file()), 0o600);
    user.run_with(&["logout"], &[("POSTHASTE_CONTEXT", "a")], "").expect(2);
    user.run_with(&["logout"], &[("POSTHASTE_CONTEXT", "b")], "").expect(0);
    let text = std::fs::read_to_string(user.file()).expect("a file");
    assert!(!text.contains("key-of"), "{text}");
    assert!(user.run(&["context", "list"]).expect(0).stdout.starts_with("no contexts"));
    assert!(user.run(&["logout"]).expect(2).stderr.contains("no current context"));
}

#[test]
fn insecure_and_invalid_profiles_are_refused() {
    let valid = "current = \"a\"\n[contexts.a]\nurl = \"http://127.0.0.1:1\"\nkey = \"hush\"\n";
    for (text, mode, message) in [
        (valid, 0o644, "chmod 600"),
        (valid, 0o640, "chmod 600"),
        (valid, 0o602, "chmod 600"),
        ("current = \"hush", 0o600, "config.toml line 1: invalid TOML"),
        ("current = \"hush\"", 0o600, "config.toml line 1: current names no context"),
        ("[contexts.a]\nkey = \"hush\"", 0o600, "config.toml line 1: context a needs a string url"),
    ] {
        let user = User::new().with_profile(text, mode);
        for command in [&["event", "list"][..], &["context", "list"], &["login"]] {
            let ran = user.run(command).expect(1);
            assert!(ran.stderr.contains(message), "{command:?}: {ran:?}");
            assert!(!ran.stderr.contains("hush"), "{command:?}: {ran:?}");
        }
        assert_eq!(std::fs::read_to_string(user.file()).expect("a file"), text, "it is left unchanged");
        // The profile is not needed if URL and key are given.
        user.run(&["event", "list", "--url", "http://127.0.0.1:1", "--key", "k"]).expect(3);
    }
    let user = User::new();
    std::fs::create_dir_all(user.file()).expect("a folder");
    assert!(user.run(&["event", "list"]).expect(1).stderr.contains("is not a file"));
    let user = User::new().with_profile(&"#".repeat(2 << 20), 0o600);
    assert!(user.run(&["event", "list"]).expect(1).stderr.contains("is larger than"));
    std::fs::write(user.file(), b"\xff").expect("a file");
    assert!(user.run(&["event", "list"]).expect(1).stderr.contains("cannot read"));
}

#[test]
fn concurrent_logins_are_all_stored() {
    const LOGINS: usize = 8;
    let data = folder();
    let (dev, user) = (Dev::start(&data), User::new());
    std::thread::scope(|scope| {
        for number in 0..LOGINS {
            let (user, url, key) = (&user, dev.url.as_str(), format!("{}\n", dev.key));
            scope.spawn(move || {
                user.run_with(&["login", &format!("c{number}"), "--url", url], &[], &key).expect(0);
            });
        }
    });
    let text = std::fs::read_to_string(user.file()).expect("a file");
    assert_eq!(text.matches("[contexts.c").count(), LOGINS, "{text}");
}

#[test]
fn home_that_is_not_a_directory_is_no_profile() {
    let ran = run(&["event", "list", "--url", "http://127.0.0.1:1"], &[("HOME", "/dev/null")], "");
    assert!(ran.expect(3).stderr.contains("127.0.0.1:1"));
}

#[test]
fn default_directory_is_below_home() {
    let home = folder();
    let directory = home.path().join(".config").join("posthaste");
    std::fs::create_dir_all(&directory).expect("a folder");
    let file = directory.join("config.toml");
    std::fs::write(&file, "[contexts.a]\nurl = \"http://h\"\nkey = \"k\"\n").expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("a mode");
    let variables = [("HOME", home.path().to_str().expect("a path")), ("XDG_CONFIG_HOME", "relative")];
    assert!(run(&["context", "list"], &variables, "").expect(0).stdout.contains("http://h"));
}
