//! The flags that select a server, an API key and the output format. Missing values are read from the environment, then
//! from a context, then from the defaults.

use super::profile::{self, Profile};
use super::{ApiClient, Failure};
use crate::settings::Secret;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use http::Uri;
use posthaste_store::secret_file::read_secret;
use std::path::PathBuf;

pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8080";

const URL: &str = "server_url";
const KEY: &str = "server_key";
const CONTEXT: &str = "context_name";
pub(crate) const JSON: &str = "json";

/// The heading of the server flags in help screens.
const HEADING: &str = "Server";

/// The flags of a command that calls a server: the server, the API key, and whether to print JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    pub(super) url: Option<String>,
    pub(super) key: Option<Secret>,
    pub(super) context: Option<String>,
    pub(super) json: bool,
}

/// The client's environment variables. Empty variables count as unset.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) url: Option<String>,
    pub(super) key: SecretVariable,
    pub(super) context: Option<String>,
    /// The root key of a server on this machine.
    root_key: SecretVariable,
}

/// A variable with a secret, or `<NAME>_FILE` with the path of a file that contains it. The file is read when the
/// secret is needed.
#[derive(Debug, Default)]
pub(super) struct SecretVariable {
    name: &'static str,
    value: Option<Secret>,
    file: Option<PathBuf>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl SecretVariable {
    pub(super) fn of(name: &'static str) -> Self {
        let file = variable(&format!("{name}_FILE")).map(PathBuf::from);
        Self { name, value: variable(name).map(Secret::new), file }
    }

    /// Returns the secret, or `None` if neither variable is set.
    pub(super) fn read(self) -> Result<Option<Secret>, Failure> {
        let name = self.name;
        match (self.value, self.file) {
            (Some(_), Some(_)) => {
                Err(Failure::Usage(format!("{name} and {name}_FILE are both set: remove one of the two")))
            }
            (value, None) => Ok(value),
            (None, Some(path)) => match read_secret(&path) {
                Ok(text) => Ok(Some(Secret::new(text))),
                Err(reason) => Err(Failure::Local(format!("{name}_FILE={}: {reason}", path.display()))),
            },
        }
    }
}

impl Environment {
    pub(super) fn read() -> Self {
        Self {
            url: variable("POSTHASTE_URL"),
            key: SecretVariable::of("POSTHASTE_KEY"),
            context: variable("POSTHASTE_CONTEXT"),
            root_key: SecretVariable::of("POSTHASTE_ROOT_KEY"),
        }
    }
}

impl Reach {
    /// Returns the flags that select a server, for the named command. In `import`, `--url` is the sender from which
    /// subscriptions are imported, so that the server is `--server` there.
    pub(crate) fn server_args_of(command: &str) -> [Arg; 3] {
        let renamed = |arg: Arg| match arg.get_id() == URL && command == "import" {
            true => arg
                .short(None)
                .long("server")
                .help(format!("URL of the Posthaste server [env: POSTHASTE_URL] [default: {DEFAULT_URL}]")),
            false => arg,
        };
        Self::server_args().map(renamed)
    }

    /// Returns the flags that select a server. They are accepted before and after the subcommand.
    pub(crate) fn server_args() -> [Arg; 3] {
        [
            Arg::new(URL)
                .short('u')
                .long("url")
                .value_name("URL")
                .help(format!("URL of the server [env: POSTHASTE_URL] [default: {DEFAULT_URL}]")),
            Arg::new(KEY).long("key").value_name("KEY").help(
                "API key; other users can see flags, so prefer the environment or a context \
                 [env: POSTHASTE_KEY or POSTHASTE_KEY_FILE]",
            ),
            Arg::new(CONTEXT)
                .long("context")
                .value_name("NAME")
                .value_parser(profile::parse_name)
                .help("Context with URL and key [env: POSTHASTE_CONTEXT] [default: the current one]"),
        ]
        .map(|arg| arg.help_heading(HEADING).action(ArgAction::Set))
    }

    /// Returns the flag that selects JSON output.
    pub(crate) fn json_arg() -> Arg {
        Arg::new(JSON)
            .short('j')
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print JSON; errors are problem details (RFC 9457) on stderr")
    }

    /// Returns the name of the first server flag that was given, if any.
    pub(crate) fn given(matches: &ArgMatches) -> Option<&'static str> {
        [(URL, "--url"), (KEY, "--key"), (CONTEXT, "--context")]
            .into_iter()
            .find(|(id, _)| matches.try_contains_id(id).unwrap_or_default())
            .map(|(_, flag)| flag)
    }

    /// Returns a client for the selected server.
    pub(super) fn server(&self) -> Result<ApiClient, Failure> {
        let (url, key) = self.resolve(Environment::read(), Profile::load_default)?;
        ApiClient::new(&url, key.as_ref().map(Secret::expose))
    }

    /// Resolves the URL and the key. The order of precedence is flag, environment, context, default. A context that is
    /// named by a flag overrides the environment.
    ///
    /// A context's key is sent only to that context's server, and this machine's root key is never sent to the server
    /// of a context. The profile is read only if a value is missing or a context is named.
    fn resolve(
        &self,
        environment: Environment,
        profile: impl FnOnce() -> Result<Profile, Failure>,
    ) -> Result<(String, Option<Secret>), Failure> {
        let environment = if self.context.is_some() { Environment::default() } else { environment };
        let url = self.url.clone().or(environment.url);
        let key = match self.key.clone() {
            Some(key) => Some(key),
            None => environment.key.read()?,
        };
        let name = self.context.clone().or(environment.context);
        let profile = match (&name, &url, &key) {
            (None, Some(_), Some(_)) => return Ok((url.unwrap_or_default(), key)),
            (Some(_), _, _) | (None, None, _) | (None, _, None) => profile()?,
        };
        let context = match &name {
            Some(name) => Some(profile.context(name)?),
            None => profile.current_context(),
        };
        let url = url
            .or_else(|| context.as_ref().map(|context| context.url.clone()))
            .unwrap_or_else(|| DEFAULT_URL.to_owned());
        let has_context = profile.contexts.values().any(|context| is_same_server(&url, &context.url));
        let key = match (key, context.filter(|context| is_same_server(&url, &context.url))) {
            (Some(key), _) => Some(key),
            (None, Some(context)) => Some(context.key.clone()),
            (None, None) if has_context => None,
            (None, None) => environment.root_key.read()?,
        };
        Ok((url, key))
    }
}

/// Returns whether two URLs have the same scheme, host and port.
fn is_same_server(one: &str, other: &str) -> bool {
    let origin = |url: &str| {
        let uri = url.parse::<Uri>().ok()?;
        let scheme = uri.scheme_str()?.to_owned();
        if has_invalid_port(&uri) {
            return None;
        }
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        Some((scheme, uri.host()?.to_lowercase(), port))
    };
    origin(one).is_some_and(|origin_of_one| Some(origin_of_one) == origin(other))
}

/// Returns whether the URL has a port that is not a number up to 65535. [`Uri`] accepts such ports and ignores them.
pub(super) fn has_invalid_port(uri: &Uri) -> bool {
    let has_port = uri.authority().is_some_and(|authority| {
        let host_start = authority.as_str().rfind('@').map_or(0, |at| at + 1);
        authority.as_str().len() > host_start + authority.host().len()
    });
    has_port && uri.port_u16().is_none()
}

/// Defines no flags: the caller of [`Reach::server_args`] defines them once per command, and clap propagates their
/// values to the subcommands.
impl Args for Reach {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Reach {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |id: &str| matches.try_get_one::<String>(id).ok().flatten().cloned();
        Ok(Self {
            url: text(URL),
            key: text(KEY).filter(|key| !key.is_empty()).map(Secret::new),
            context: text(CONTEXT),
            json: matches.try_get_one::<bool>(JSON).ok().flatten().copied().unwrap_or_default(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const PROFILE: &str = "current = \"a\"\n\
        [contexts.a]\nurl = \"https://a.example\"\nkey = \"key-a\"\n\
        [contexts.b]\nurl = \"https://b.example\"\nkey = \"key-b\"\n";

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned()).filter(|value| !value.is_empty())
    }

    /// Resolves the URL and the key. `flags` and `variables` contain URL, key and context. Empty strings count as
    /// unset.
    fn resolve(
        flags: [&str; 3],
        variables: [&str; 3],
        root_key: &str,
        profile: &str,
    ) -> Result<String, Failure> {
        let reach = Reach {
            url: text(flags[0]),
            key: text(flags[1]).map(Secret::new),
            context: text(flags[2]),
            json: false,
        };
        let environment = Environment {
            url: text(variables[0]),
            key: SecretVariable { name: "K", value: text(variables[1]).map(Secret::new), file: None },
            context: text(variables[2]),
            root_key: SecretVariable { name: "R", value: text(root_key).map(Secret::new), file: None },
        };
        let (url, key) = reach.resolve(environment, || Profile::parse("p.toml".into(), profile))?;
        Ok(format!("{url} {}", key.as_ref().map_or("none", Secret::expose)))
    }

    #[test]
    fn precedence_is_flag_environment_context_default() {
        for (flags, variables, root_key, profile, expected) in [
            (["", "", ""], ["", "", ""], "", "", "http://127.0.0.1:8080 none"),
            (["", "", ""], ["", "", ""], "root", "", "http://127.0.0.1:8080 root"),
            (["", "", ""], ["", "", ""], "", PROFILE, "https://a.example key-a"),
            (["", "", ""], ["", "", "b"], "", PROFILE, "https://b.example key-b"),
            (["", "", "a"], ["", "", "b"], "", PROFILE, "https://a.example key-a"),
            (["", "", ""], ["http://env", "env", ""], "", PROFILE, "http://env env"),
            (["http://flag", "flag", ""], ["http://env", "env", "b"], "", PROFILE, "http://flag flag"),
            (["", "flag", ""], ["", "env", ""], "root", PROFILE, "https://a.example flag"),
            // A context that is named by a flag overrides the server of the environment.
            (["", "", "b"], ["http://env", "env", ""], "root", PROFILE, "https://b.example key-b"),
            (["", "", "b"], ["", "env", ""], "", PROFILE, "https://b.example key-b"),
            // A context's key is not sent to another server, and the root key is not sent to a context's server.
            (["http://flag", "", ""], ["", "", ""], "", PROFILE, "http://flag none"),
            (["http://flag", "", ""], ["", "", ""], "root", PROFILE, "http://flag root"),
            (["https://b.example", "", ""], ["", "", ""], "root", PROFILE, "https://b.example none"),
            (["https://a.example:99999", "", ""], ["", "", ""], "", PROFILE, "https://a.example:99999 none"),
            (["https://A.example:443/x", "", ""], ["", "", ""], "", PROFILE, "https://A.example:443/x key-a"),
            (["http://a.example", "", ""], ["", "", ""], "", PROFILE, "http://a.example none"),
            (["", "", ""], ["", "", ""], "root", PROFILE, "https://a.example key-a"),
        ] {
            let found = resolve(flags, variables, root_key, profile);
            assert_eq!(found.as_deref(), Ok(expected), "{flags:?} {variables:?}");
        }
    }

    #[test]
    fn key_may_be_in_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, "key-f\n").expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        let read = |value: &str, file: Option<&Path>| {
            let value = text(value).map(Secret::new);
            let variable = SecretVariable { name: "POSTHASTE_KEY", value, file: file.map(Path::to_owned) };
            variable.read().map(|key| key.map(|key| key.expose().to_owned()))
        };
        assert_eq!(read("", None), Ok(None));
        assert_eq!(read("key", None), Ok(Some("key".to_owned())));
        assert_eq!(read("", Some(&path)), Ok(Some("key-f".to_owned())));
        let both = read("key", Some(&path)).expect_err("two sources").to_string();
        assert!(both.contains("POSTHASTE_KEY and POSTHASTE_KEY_FILE are both set"), "{both}");
        let missing = read("", Some(Path::new("/missing"))).expect_err("no file").to_string();
        assert!(missing.contains("POSTHASTE_KEY_FILE=/missing: the file cannot be read"), "{missing}");
    }

    #[test]
    fn unknown_context_is_a_usage_error() {
        let failure =
            resolve(["http://flag", "flag", "c"], ["", "", ""], "", PROFILE).expect_err("no context c");
        assert!(matches!(&failure, Failure::Usage(text) if text.contains("a, b")), "{failure}");
    }

    #[test]
    fn broken_profile_does_not_matter_if_url_and_key_are_given() {
        let broken = "current = ";
        assert!(resolve(["http://h", "k", ""], ["", "", ""], "", broken).is_ok());
        assert!(resolve(["http://h", "", ""], ["", "", ""], "", broken).is_err());
    }
}
