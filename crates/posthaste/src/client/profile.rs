//! The client profile: named contexts, each with the URL and the API key of a server. It is stored in
//! `$XDG_CONFIG_HOME/posthaste/config.toml`, which only its owner may read.

use super::Failure;
use crate::settings::Secret;
use crate::toml_text::{TomlError, line_of};
use crate::{private_file, toml_text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The maximum size of the profile, in bytes. A context takes about 200 bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
const NAME_CHARS_MAX: usize = 64;
/// The first characters of every API key. A context with such a name would show a key in lists.
const KEY_PREFIX: &str = "phk_";

const HEAD: &str = "# Contexts of the posthaste client, managed by `posthaste login` and `posthaste context`.\n\
                    # Those commands rewrite this file and do not keep other comments.\n";

/// The URL and the API key of a server.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) url: String,
    pub(super) key: Secret,
}

#[derive(Debug)]
pub(crate) struct Profile {
    path: PathBuf,
    /// The name of the current context, which is always a key of `contexts`.
    pub(super) current: Option<String>,
    pub(super) contexts: BTreeMap<String, Context>,
}

/// Parses the name of a context. Every valid name is a bare key in TOML.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    if text.starts_with(KEY_PREFIX) {
        return Err("this looks like an API key: pass it with --key, a prompt or stdin".to_owned());
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("a name has 1 to {NAME_CHARS_MAX} letters, digits, hyphens or underscores"))
}

/// Returns the path of the profile. Relative directories are ignored, as the XDG specification requires.
fn path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let directory = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")));
    Some(config?.join("posthaste").join("config.toml"))
}

impl Profile {
    /// Loads the current user's profile. The profile is empty if there is no file or no home directory.
    pub(crate) fn load_default() -> Result<Self, Failure> {
        Self::load(path(|name| std::env::var_os(name)).unwrap_or_default())
    }

    fn load(path: PathBuf) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::Local(format!("cannot read {}: {error}", path.display()));
        let metadata = match std::fs::metadata(&path) {
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
                return Ok(Self::empty(path));
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(Failure::Local(format!(
                    "cannot read {}: {error}; set XDG_CONFIG_HOME to a directory of this user, or pass --url and --key",
                    path.display()
                )));
            }
            metadata => metadata.map_err(failed)?,
        };
        // Opening a pipe would block.
        if !metadata.is_file() {
            return Err(Failure::Local(format!("{} is not a file", path.display())));
        }
        let mut file = File::open(&path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(Failure::Local(format!(
                "{path} contains API keys, and other users have access to it (mode {mode:04o})\n\
                 Restrict it with: chmod 600 {path}"
            )));
        }
        let mut text = String::new();
        let bytes = file.by_ref().take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if u64::try_from(bytes).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(Failure::Local(format!("{} is larger than {FILE_BYTES_MAX} bytes", path.display())));
        }
        Self::parse(path, &text)
    }

    fn empty(path: PathBuf) -> Self {
        Self { path, current: None, contexts: BTreeMap::new() }
    }

    pub(super) fn parse(path: PathBuf, text: &str) -> Result<Self, Failure> {
        let mut profile = Self::empty(path);
        match profile.read(text) {
            Ok(()) => Ok(profile),
            Err(error) => Err(Failure::Local(format!(
                "{} line {}: {}",
                profile.path.display(),
                error.line,
                error.message
            ))),
        }
    }

    fn read(&mut self, text: &str) -> Result<(), TomlError> {
        let table = toml_text::parse(text)?;
        let mut current_line = 1;
        for (key, value) in table.get_ref() {
            let line = line_of(text, key.span().start);
            let invalid = |message: &str| TomlError { line, message: message.to_owned() };
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("current", DeValue::String(name)) => {
                    self.current = Some(name.to_string());
                    current_line = line;
                }
                ("current", _) => return Err(invalid("current must be a string")),
                ("contexts", DeValue::Table(contexts)) => self.read_contexts(text, contexts)?,
                ("contexts", _) => return Err(invalid("contexts must be a table")),
                (_, _) => return Err(invalid("unknown key, expected current or contexts")),
            }
        }
        match &self.current {
            Some(name) if !self.contexts.contains_key(name) => {
                Err(TomlError { line: current_line, message: "current names no context".to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn read_contexts(&mut self, text: &str, contexts: &DeTable<'_>) -> Result<(), TomlError> {
        for (name, value) in contexts {
            let line = line_of(text, name.span().start);
            let invalid = |message: String| TomlError { line, message };
            let name = parse_name(name.get_ref()).map_err(invalid)?;
            let context = value.get_ref().as_table();
            let context = context.ok_or_else(|| invalid(format!("context {name} must be a table")))?;
            let field = |field: &str| {
                let value = context.iter().find(|(key, _)| key.get_ref().as_ref() == field);
                let value =
                    value.and_then(|(_, value)| value.get_ref().as_str()).filter(|text| !text.is_empty());
                value.ok_or_else(|| invalid(format!("context {name} needs a string {field}")))
            };
            let (url, key) = (field("url")?.to_owned(), Secret::new(field("key")?));
            if context.len() > 2 {
                return Err(invalid(format!("context {name} has an unknown key, expected url and key")));
            }
            self.contexts.insert(name, Context { url, key });
        }
        Ok(())
    }

    /// Returns the context called `name`.
    ///
    /// # Errors
    ///
    /// Returns a usage error that lists the known names if there is no such context.
    pub(super) fn context(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| self.unknown(name))
    }

    pub(super) fn unknown(&self, name: &str) -> Failure {
        let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Failure::Usage(format!("there is no context {name:?}; known contexts: {known}"))
    }

    pub(super) fn current_context(&self) -> Option<&Context> {
        self.contexts.get(self.current.as_ref()?)
    }

    /// Changes the current user's profile. The directory is locked while the file is read and written, so that changes
    /// of other processes are not lost.
    pub(super) fn update(change: impl FnOnce(&mut Self) -> Result<(), Failure>) -> Result<Self, Failure> {
        let path = path(|name| std::env::var_os(name)).unwrap_or_default();
        let Some(directory) = path.parent().filter(|directory| directory.is_absolute()) else {
            return Err(Failure::Local(
                "there is no directory for the client profile: set XDG_CONFIG_HOME or HOME".to_owned(),
            ));
        };
        private_file::create_dir(directory).map_err(|error| Failure::Local(format!("{error:#}")))?;
        let lock = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
        let failed = |error| Failure::Local(format!("cannot lock {}: {error}", directory.display()));
        let _lock = lock.map_err(failed)?;
        let mut profile = Self::load(path.clone())?;
        change(&mut profile)?;
        profile.save()?;
        Ok(profile)
    }

    /// Writes the profile with mode 0600.
    fn save(&self) -> Result<(), Failure> {
        let written = private_file::write(&self.path, &self.text());
        written.map_err(|error| Failure::Local(format!("{error:#}")))
    }

    fn text(&self) -> String {
        // Every escape sequence in a JSON string is also valid in a TOML string.
        let quoted = |text: &str| Value::from(text).to_string();
        let mut text = HEAD.to_owned();
        if let Some(name) = &self.current {
            text.push_str(&format!("current = {}\n", quoted(name)));
        }
        for (name, Context { url, key }) in &self.contexts {
            let (url, key) = (quoted(url), quoted(key.expose()));
            text.push_str(&format!("\n[contexts.{name}]\nurl = {url}\nkey = {key}\n"));
        }
        text
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_follows_the_xdg_specification() {
        for (xdg, home, expected) in [
            ("/x", "/h", Some("/x/posthaste/config.toml")),
            ("", "/h", Some("/h/.config/posthaste/config.toml")),
            ("relative", "/h", Some("/h/.config/posthaste/config.toml")),
            ("", "", None),
            ("relative", "relative", None),
        ] {
            let variable = |name: &str| match name {
                "XDG_CONFIG_HOME" => Some(OsString::from(xdg)),
                "HOME" => Some(OsString::from(home)),
                _ => None,
            };
            assert_eq!(path(variable), expected.map(PathBuf::from), "{xdg:?} {home:?}");
        }
        assert_eq!(path(|_| None), None);
    }

    #[test]
    fn profile_is_read_as_it_was_written() {
        let mut profile = Profile::empty("p.toml".into());
        let text = |profile: &Profile| profile.text();
        assert_eq!(text(&Profile::parse("p.toml".into(), &text(&profile)).expect("a profile")), HEAD);
        for name in ["prod", "test-2"] {
            let (url, key) = ("https://h/é".to_owned(), Secret::new("k\"\\\u{1}"));
            profile.contexts.insert(name.to_owned(), Context { url, key });
        }
        profile.current = Some("prod".to_owned());
        let parsed = Profile::parse("p.toml".into(), &text(&profile)).expect("a profile");
        assert_eq!(text(&parsed), text(&profile));
        assert_eq!(parsed.contexts["prod"].key.expose(), "k\"\\\u{1}");
    }

    #[test]
    fn mistakes_are_reported_with_their_line_and_without_keys() {
        for (text, expected) in [
            ("current = \"hush", "p.toml line 1: invalid TOML: "),
            ("\ncurrent = 7", "p.toml line 2: current must be a string"),
            ("current = \"a\"", "p.toml line 1: current names no context"),
            ("contexts = 7", "p.toml line 1: contexts must be a table"),
            ("\n\nhush = 7", "p.toml line 3: unknown key, expected current or contexts"),
            ("[contexts]\na = 7", "p.toml line 2: context a must be a table"),
            ("[contexts.a]\nurl = \"u\"", "p.toml line 1: context a needs a string key"),
            ("[contexts.a]\nurl = 7\nkey = \"hush\"", "p.toml line 1: context a needs a string url"),
            ("[contexts.a]\nurl = \"u\"\nkey = \"\"", "p.toml line 1: context a needs a string key"),
            ("[contexts.\"a b\"]\nurl = \"u\"\nkey = \"hush\"", "p.toml line 1: a name has 1 to 64 letters"),
            (
                "[contexts.a]\nurl = \"u\"\nkey = \"hush\"\ncolor = 1",
                "p.toml line 1: context a has an unknown key, expected url and key",
            ),
        ] {
            let failure = Profile::parse("p.toml".into(), text).expect_err(text).to_string();
            assert!(failure.starts_with(expected) && !failure.contains("hush"), "{text}: {failure}");
        }
    }

    #[test]
    fn names_are_bare_keys() {
        assert_eq!(parse_name("prod_1-a").as_deref(), Ok("prod_1-a"));
        for name in ["", "a b", "a.b", "é", "\"", "phk_x", &"a".repeat(65)] {
            assert!(parse_name(name).is_err(), "{name}");
        }
    }
}
