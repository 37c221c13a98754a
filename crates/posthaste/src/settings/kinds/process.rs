//! [`Kind`]s of process settings: roles, rules for attributes, methods of verification, log filter, log format, file
//! paths and text.

use super::Kind;
use crate::settings::{LogFormat, ProcessRole};
use posthaste_core::attribute_rules::AttributeRules;
use posthaste_core::subscription::VerificationMethod;
use posthaste_core::verification::VerificationMethods;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// A set of process roles.
#[derive(Debug)]
pub(in crate::settings) struct Roles;

impl Kind for Roles {
    type Value = BTreeSet<ProcessRole>;
    const METAVAR: &'static str = "ROLES";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<BTreeSet<ProcessRole>, String> {
        if text == "all" {
            return Ok(BTreeSet::from(ProcessRole::ALL));
        }
        let roles: Option<BTreeSet<ProcessRole>> =
            text.split(',').map(|name| ProcessRole::parse(name.trim())).collect();
        roles.ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        format!("all, or a list of {}", ProcessRole::ALL.map(ProcessRole::as_str).join(", "))
    }
}

/// Rules that fill attributes of new events from their payloads.
#[derive(Debug)]
pub(in crate::settings) struct AttributeRuleList;

impl Kind for AttributeRuleList {
    type Value = AttributeRules;
    const METAVAR: &'static str = "RULES";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<AttributeRules, String> {
        AttributeRules::parse(text).map_err(|error| format!("{} ({error})", self.accepts()))
    }

    fn accepts(&self) -> String {
        "up to 20 rules of the form name=/json/pointer separated by commas, such as region=/customer/region"
            .to_owned()
    }
}

/// A list of methods of verification.
#[derive(Debug)]
pub(in crate::settings) struct Methods;

impl Kind for Methods {
    type Value = VerificationMethods;
    const METAVAR: &'static str = "METHODS";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<VerificationMethods, String> {
        VerificationMethods::parse(text).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        format!("a list of {}", VerificationMethod::ALL.map(VerificationMethod::as_str).join(", "))
    }
}

/// A log filter: a global level and levels for modules. A bare word must be a level: [`Targets`] would parse the
/// misspelled level `inof` as the name of a module and turn off all other logging.
#[derive(Debug)]
pub(in crate::settings) struct Filter;

impl Kind for Filter {
    type Value = Targets;
    const METAVAR: &'static str = "FILTER";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<Targets, String> {
        let mut targets = Targets::new();
        for part in text.split(',') {
            let (target, level) = match part.trim().split_once('=') {
                Some((target, level)) => (Some(target), level),
                None => (None, part.trim()),
            };
            targets = match (target, read_level(level)) {
                (None, Some(level)) => targets.with_default(level),
                (Some(target), Some(level)) if is_module_path(target) => targets.with_target(target, level),
                (Some(_) | None, Some(_) | None) => {
                    return Err(self.accepts());
                }
            };
        }
        Ok(targets)
    }

    fn accepts(&self) -> String {
        "off, error, warn, info, debug or trace, optionally per module, such as info,posthaste_services=debug"
            .to_owned()
    }
}

fn read_level(text: &str) -> Option<LevelFilter> {
    ["off", "error", "warn", "info", "debug", "trace"].contains(&text).then(|| text.parse().ok()).flatten()
}

fn is_module_path(text: &str) -> bool {
    let is_ident = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.split("::").all(is_ident)
}

/// The format of log lines.
#[derive(Debug)]
pub(in crate::settings) struct Format;

impl Kind for Format {
    type Value = LogFormat;
    const METAVAR: &'static str = "human|json";

    fn read(&self, text: &str) -> Result<LogFormat, String> {
        match text {
            "human" => Ok(LogFormat::Human),
            "json" => Ok(LogFormat::Json),
            _ => Err(self.accepts()),
        }
    }

    fn accepts(&self) -> String {
        "human or json".to_owned()
    }
}

/// The path of a file. The file itself is checked when it is used.
#[derive(Debug)]
pub(in crate::settings) struct PathText;

impl Kind for PathText {
    type Value = PathBuf;
    const METAVAR: &'static str = "FILE";

    fn read(&self, text: &str) -> Result<PathBuf, String> {
        if text.is_empty() || text.contains('\0') {
            Err(format!("a {}", self.accepts()))
        } else {
            Ok(PathBuf::from(text))
        }
    }

    fn accepts(&self) -> String {
        "path".to_owned()
    }
}

/// A command that `sh -c` runs.
#[derive(Debug)]
pub(in crate::settings) struct ShellCommand;

impl Kind for ShellCommand {
    type Value = String;
    const METAVAR: &'static str = "COMMAND";

    fn read(&self, text: &str) -> Result<String, String> {
        let fits = !text.trim().is_empty() && !text.contains('\0');
        if fits { Ok(text.to_owned()) } else { Err(format!("a {}", self.accepts())) }
    }

    fn accepts(&self) -> String {
        "shell command".to_owned()
    }
}

/// Text without control characters.
#[derive(Debug)]
pub(in crate::settings) struct OneLine {
    pub(in crate::settings) chars_max: usize,
}

impl Kind for OneLine {
    type Value = String;
    const METAVAR: &'static str = "TEXT";

    fn read(&self, text: &str) -> Result<String, String> {
        let fits = (1..=self.chars_max).contains(&text.chars().count());
        if fits && !text.chars().any(char::is_control) { Ok(text.to_owned()) } else { Err(self.accepts()) }
    }

    fn accepts(&self) -> String {
        format!("one line of 1 to {} characters", self.chars_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn roles_are_a_set() {
        let check = |text: &str| {
            Roles.read(text).map(|roles| roles.into_iter().map(ProcessRole::as_str).collect::<Vec<_>>())
        };
        assert_eq!(check("all").map(|roles| roles.len()), Ok(6));
        assert_eq!(check("worker, router,worker"), Ok(vec!["router", "worker"]));
        for text in ["", "none", "all,api", "router,", "Router", "router worker"] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn methods_are_known_and_not_empty() {
        let methods = Methods.read("asserted, cloudevents").expect("methods");
        assert_eq!(methods.as_slice(), [VerificationMethod::Asserted, VerificationMethod::Cloudevents]);
        for text in ["", "all", "challenge,", "Challenge"] {
            let expected = "a list of challenge, cloudevents, asserted";
            assert_eq!(Methods.read(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn filters_are_levels_with_optional_modules() {
        let enabled = |text: &str, target: &str, level: Level| {
            Filter.read(text).map(|filter| filter.would_enable(target, &level)).ok()
        };
        for (text, target, level, expected) in [
            ("info", "posthaste_store", Level::INFO, true),
            ("info", "posthaste_store", Level::DEBUG, false),
            ("posthaste_services=debug,info", "posthaste_services::router", Level::DEBUG, true),
            ("posthaste_services=debug, info", "posthaste_store", Level::DEBUG, false),
            ("info,posthaste_services::sender=off", "posthaste_services::sender", Level::ERROR, false),
            ("posthaste_services=debug", "posthaste_store", Level::ERROR, false),
            ("off", "posthaste", Level::ERROR, false),
        ] {
            assert_eq!(enabled(text, target, level), Some(expected), "{text} {target} {level}");
        }
        for text in [
            "",
            "inof",
            "INFO",
            "3",
            "info,",
            "=debug",
            "posthaste=",
            "posthaste=loud",
            "a b=info",
            "[span]=info",
        ] {
            assert!(Filter.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_and_lines_are_not_empty() {
        assert_eq!(PathText.read("ca.pem"), Ok(PathBuf::from("ca.pem")));
        assert!(PathText.read("").is_err());
        assert_eq!(ShellCommand.read("a | b\nc").as_deref(), Ok("a | b\nc"));
        assert!(ShellCommand.read(" ").is_err() && ShellCommand.read("a\0b").is_err());
        let line = OneLine { chars_max: 5 };
        assert_eq!(line.read("äöü ß").as_deref(), Ok("äöü ß"));
        for text in ["", "123456", "a\nb"] {
            assert!(line.read(text).is_err(), "{text}");
        }
    }
}
