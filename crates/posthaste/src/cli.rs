//! The command-line interface: parses the arguments, runs the command, and reports errors as text or as problem
//! details.

use crate::client::{self, ContextCommand, Failure, Logout, Reach, Resource, problem};
use crate::migrate::{self, MigrateFlags};
use crate::settings::{self, Flags, Problems};
use crate::{bench, dev, listen, logs, serve, stdout};
use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Examples:
  posthaste dev
  posthaste event send demo.hello --payload '{\"hello\":\"world\"}'

Exit codes: 0 success, 1 failed or refused, 2 invalid usage, 3 server unreachable, 4 not found.";

const BENCH_HELP: &str = "\
Starts its own servers, receivers and stores, and removes them. Each result is compared with the throughput of plain
HTTP and of the store alone in the same run: compare these ratios, not the absolute figures of two runs.

Example:
  posthaste bench --events 10000";

/// Deliver events to webhooks and orders to a broker
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything on this machine, with a store in ./posthaste-data, a key and a demo receiver
    ///
    /// The store is always the embedded one in ./posthaste-data, regardless of POSTHASTE_DATABASE_URL, and requests to
    /// this machine are allowed without TLS. Other settings apply as for serve.
    #[command(after_help = "Example:\n  posthaste dev")]
    Dev,
    /// Run the server, with all roles or some of them
    #[command(after_help = "Example:\n  posthaste serve --roles router,orchestrator --config posthaste.toml")]
    Serve {
        #[command(flatten)]
        flags: Flags,
    },
    /// Create or update the schema of a database; safe to repeat and to run concurrently
    #[command(after_help = migrate::HELP)]
    Migrate {
        #[command(flatten)]
        flags: MigrateFlags,
    },
    /// Show the effective settings and their sources
    #[command(after_help = "Example:\n  posthaste config --example > posthaste.toml")]
    Config {
        /// Print a settings file with all defaults, commented out
        #[arg(long, conflicts_with = "json")]
        example: bool,
        /// Print the settings reference in Markdown
        #[arg(long, conflicts_with_all = ["json", "example"])]
        reference: bool,
        #[command(flatten)]
        flags: Flags,
    },
    #[command(flatten)]
    Client(Resource),
    /// Remove a context with its key
    #[command(after_help = "Example:\n  posthaste logout")]
    Logout(Logout),
    /// List, select and remove the contexts that `posthaste login` creates
    #[command(subcommand, after_help = "Example:\n  posthaste context use prod")]
    Context(ContextCommand),
    /// Receive webhooks on this machine for testing, and print one line per request
    #[command(after_help = "Example:\n  posthaste listen --port 8081 --fail 503 --fail-first 2")]
    Listen {
        #[command(flatten)]
        flags: listen::ListenFlags,
    },
    /// Measure throughput and latency of this program on this machine
    #[command(after_help = BENCH_HELP)]
    Bench {
        #[command(flatten)]
        flags: bench::BenchFlags,
    },
    /// Print the OpenAPI 3.1 document of the HTTP API
    #[command(after_help = "Example:\n  posthaste openapi > openapi.json")]
    Openapi,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  posthaste completions bash > ~/.local/share/bash-completion/completions/posthaste"
    )]
    Completions {
        /// Shell that runs the script
        shell: Shell,
    },
}

/// Returns the names of the commands that call a server.
fn client_commands() -> Vec<String> {
    let commands = Resource::augment_subcommands(clap::Command::new("client"));
    commands.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// Builds the command-line parser. Every command accepts `--json`. The flags that select a server are accepted before
/// and after each command that calls a server.
fn command_line() -> clap::Command {
    let command = Cli::command().arg(Reach::json_arg().global(true)).args(Reach::server_args());
    client_commands().iter().fold(command, |command, name| {
        command.mut_subcommand(name, |client| {
            client.args(Reach::server_args_of(name).map(|arg| arg.global(true)))
        })
    })
}

fn parse(arguments: &[OsString]) -> Result<(Cli, bool), clap::Error> {
    let mut command = command_line();
    let matches = command.try_get_matches_from_mut(arguments)?;
    if let Some(flag) = Reach::given(&matches)
        && let Some(name) = matches.subcommand_name()
        && !client_commands().iter().any(|client| client == name)
    {
        let message = format!("{flag} does not apply to `posthaste {name}`, which does not call a server");
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    Ok((Cli::from_arg_matches(&matches)?, matches.get_flag(client::JSON)))
}

/// Runs the command in `arguments`, whose first element is the name of the program.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    match parse(arguments) {
        Ok((cli, json)) => cli.run(json).unwrap_or_else(|error| report(&error, json)),
        Err(error) => report_usage(&error, wants_json(arguments)),
    }
}

/// Returns whether `arguments`, which could not be parsed, include `--json`.
fn wants_json(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json" || argument == "-j")
}

fn report_usage(error: &clap::Error, json: bool) -> ExitCode {
    if !json || !error.use_stderr() {
        error.exit();
    }
    // The first paragraph is the message; usage and hints follow.
    let text = error.render().to_string();
    let message = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a subcommand is missing; try --help"
    } else {
        text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ")
    };
    eprintln!("{}", problem("invalid-usage", "Invalid usage", message));
    ExitCode::from(2)
}

/// Prints an error to stderr and returns the exit code.
fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let failure = error.downcast_ref::<Failure>();
    // The alternate format prints the error and its causes on one line.
    let text = format!("{error:#}");
    match (failure, json) {
        (_, false) => eprintln!("posthaste: {text}"),
        (Some(failure), true) => eprintln!("{}", failure.problem()),
        (None, true) if error.is::<Problems>() => {
            eprintln!("{}", problem("invalid-settings", "Invalid settings", &text));
        }
        (None, true) => eprintln!("{}", problem("command-failed", "Command failed", &text)),
    }
    failure.map_or(ExitCode::FAILURE, Failure::exit_code)
}

impl Cli {
    fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Dev => dev::run(),
            Command::Serve { flags } => {
                let (settings, _) = settings::load(&flags, std::env::vars_os())?;
                logs::start(&settings.log)?;
                for warning in settings.warnings() {
                    tracing::warn!("{warning}");
                }
                serve::run(&settings)
            }
            Command::Migrate { flags } => print(&migrate::run(&flags, json)?),
            Command::Config { example: true, .. } => print(&settings::example()),
            Command::Config { reference: true, .. } => print(&settings::as_markdown()),
            Command::Config { flags, example: false, reference: false } => show_settings(&flags, json),
            Command::Client(resource) => Ok(resource.run()?),
            Command::Logout(logout) => Ok(logout.run(json)?),
            Command::Context(verb) => Ok(verb.run(json)?),
            Command::Listen { flags } => listen::run(flags, json),
            Command::Bench { flags } => bench::run(&flags, json),
            Command::Openapi => print(&(posthaste_api::document()? + "\n")),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut command_line(), "posthaste", &mut script);
                print(&String::from_utf8(script)?)
            }
        }
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    stdout::print(text).context("writing to stdout")?;
    Ok(ExitCode::SUCCESS)
}

fn show_settings(flags: &Flags, json: bool) -> anyhow::Result<ExitCode> {
    let (settings, values) = settings::load(flags, std::env::vars_os())?;
    let warnings = settings.warnings();
    if json {
        return print(&(settings::as_json(&values, &warnings) + "\n"));
    }
    let printed = print(&settings::as_table(&values))?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a command line into words like a shell. Supports single quotes and ignores redirections.
    fn words(line: &str) -> Vec<OsString> {
        let mut words = Vec::new();
        for (place, part) in line.split('\'').enumerate() {
            if place % 2 == 1 {
                words.push(part.into());
            } else {
                words.extend(
                    part.split_whitespace().take_while(|word| !["<", ">"].contains(word)).map(Into::into),
                );
            }
        }
        words
    }

    /// Collects the examples from the help of a command and its subcommands. Panics if a command has none.
    fn examples(command: &clap::Command, found: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let of_command: Vec<String> =
            help.lines().filter(|line| line.starts_with("  posthaste ")).map(str::to_owned).collect();
        assert!(!of_command.is_empty(), "{}: {help}", command.get_name());
        found.extend(of_command);
        command.get_subcommands().for_each(|subcommand| examples(subcommand, found));
    }

    #[test]
    fn every_command_has_an_example_that_is_accepted() {
        command_line().debug_assert();
        let mut found = Vec::new();
        examples(&command_line(), &mut found);
        assert!(found.len() > 40, "{found:#?}");
        for example in found {
            let parsed = parse(&words(&example));
            assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
        }
    }

    #[test]
    fn server_flags_are_accepted_before_and_after_the_command() {
        for line in [
            "posthaste --url http://h --key k --json event list",
            "posthaste event --url http://h --key k --json list",
            "posthaste event list --url http://h --key k --json",
            "posthaste -u http://h event -j list --key k",
            "posthaste --json --context prod stats",
            "posthaste stats --context prod -j",
            "posthaste import svix bundle.json --server http://h -j",
            "posthaste --url http://h -j import svix --url https://sender.example",
        ] {
            let (cli, json) = parse(&words(line)).expect(line);
            assert!(json, "{line}");
            let debugged = format!("{cli:?}");
            let expected =
                if line.contains("prod") { r#"context: Some("prod")"# } else { r#"url: Some("http://h")"# };
            assert!(debugged.contains(expected) && debugged.contains("json: true"), "{line}: {debugged}");
        }
        // The value after the command takes precedence.
        let (cli, _) =
            parse(&words("posthaste --url http://a event list --url http://b")).expect("a command");
        assert!(format!("{cli:?}").contains(r#"url: Some("http://b")"#), "{cli:?}");
    }

    #[test]
    fn server_flags_are_refused_where_no_server_is_called() {
        for line in [
            "posthaste --url http://h serve",
            "posthaste serve --url http://h",
            "posthaste --key k config",
            "posthaste --context a context list",
            "posthaste migrate --key k",
            "posthaste config --json --example",
            "posthaste event list --context a.b",
        ] {
            let error = parse(&words(line)).map(drop).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}: {error}");
        }
    }

    #[test]
    fn json_is_recognized_in_arguments_that_cannot_be_parsed() {
        for (line, expected) in [
            ("posthaste event show x --json", true),
            ("posthaste -j event show x", true),
            ("posthaste event show x", false),
            ("posthaste event show -- --json", false),
        ] {
            assert_eq!(wants_json(&words(line)), expected, "{line}");
        }
    }
}
