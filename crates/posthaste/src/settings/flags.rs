//! Generates command-line flags from the table of settings: for all settings, or only for the database settings.

use super::setting::{Group, Row, Shown};
use super::table::{
    DATABASE_PASSWORD_COMMAND, DATABASE_PASSWORD_FILE, DATABASE_URL, DATABASE_URL_DIRECT, ROLE_PREFIX, TABLE,
};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::path::PathBuf;

/// The settings given on the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(super) config: Option<PathBuf>,
    /// The settings as pairs of environment variable name and text.
    pub(super) given: Vec<(&'static str, String)>,
}

/// The flags of a command that needs only the database settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct DatabaseFlags(pub(crate) Flags);

const CONFIG: &str = "config";

impl Flags {
    fn augment(command: Command, rows: &[&'static dyn Row]) -> Command {
        let config = Arg::new(CONFIG)
            .short('c')
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Settings file, in TOML [env: POSTHASTE_CONFIG] [default: posthaste.toml, if it exists]");
        command.arg(config).args(rows.iter().map(|row| arg(*row)))
    }

    fn from(matches: &ArgMatches) -> Self {
        let given = |name: &'static str| matches.try_get_one::<String>(name).ok().flatten().cloned();
        let names = TABLE.iter().map(|row| row.about().env);
        Self {
            config: matches.get_one::<PathBuf>(CONFIG).cloned(),
            given: names.filter_map(|name| given(name).map(|text| (name, text))).collect(),
        }
    }
}

fn arg(row: &'static dyn Row) -> Arg {
    let about = row.about();
    let default = about.default().map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let caution = match about.shown {
        Shown::Whole | Shown::WithoutPassword | Shown::PlainUrl | Shown::WithoutLogin => "",
        Shown::Hidden => "; flags are visible to other users of the machine, so prefer the environment",
    };
    let file = about.file_env().map(|name| format!(" or {name}")).unwrap_or_default();
    let arg = Arg::new(about.env)
        .long(about.long())
        .value_name(row.metavar())
        .action(ArgAction::Set)
        // Values are checked later, so that all problems are reported together.
        .allow_negative_numbers(true)
        .help_heading(about.group.heading())
        .help(format!("{}{caution} [env: {}{file}]{default}", about.help, about.env));
    if row.is_switch() { arg.num_args(0..=1).default_missing_value("true") } else { arg }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        Self::augment(command, TABLE)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::from(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from(matches);
        Ok(())
    }
}

impl Args for DatabaseFlags {
    fn augment_args(command: Command) -> Command {
        let rows: [&'static dyn Row; 5] = [
            &DATABASE_URL,
            &DATABASE_URL_DIRECT,
            &ROLE_PREFIX,
            &DATABASE_PASSWORD_COMMAND,
            &DATABASE_PASSWORD_FILE,
        ];
        Flags::augment(command, &rows).next_help_heading(Group::Database.heading())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DatabaseFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Flags::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}
