//! What can be typed after `posthaste`.

use crate::database::DatabaseUrl;
use crate::settings::{self, DatabaseFlags, Flags};
use crate::{bench, client, dev, listen, logs, serve, stdout};
use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use posthaste_store::{postgres, sqlite};
use std::process::ExitCode;

const EXIT_CODES: &str = "To try it: posthaste dev.\n\nExit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 no server answers, 4 not found.";

const BENCH_HELP: &str = "\
Starts servers, receivers and stores of its own, and removes them. Each figure stands beside what the same HTTP
and the same store can do alone, in the same run: compare those ratios, and not the figures of two runs.";

/// Delivers every event to every subscribed webhook, and every order to its broker.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything on this machine to try it: a store in ./posthaste-data, a key, a receiver
    ///
    /// Needs no argument. The store is always the embedded one in ./posthaste-data, whatever
    /// POSTHASTE_DATABASE_URL says, and callbacks and orders may go to this machine over plain http. Other settings
    /// count as they do for serve.
    Dev,
    /// Run Posthaste, or some of its roles
    Serve {
        #[command(flatten)]
        flags: Flags,
    },
    /// Bring a database to the schema that this Posthaste needs; safe to run again, and by several at once
    Migrate {
        #[command(flatten)]
        flags: DatabaseFlags,
    },
    /// Show the settings in force and where each came from
    Config {
        /// A JSON object instead of a table
        #[arg(long)]
        json: bool,
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
    Client(client::Resource),
    /// Receive webhooks here, and tell of each on one line: to try things with
    Listen {
        #[command(flatten)]
        flags: listen::ListenFlags,
    },
    /// Measure deliveries a second and latencies on this machine, through this very program
    #[command(after_help = BENCH_HELP)]
    Bench {
        #[command(flatten)]
        flags: bench::BenchFlags,
    },
    /// Print the description of the HTTP API (OpenAPI 3.1)
    Openapi,
    /// Print the completions for a shell; its own documentation says where they belong
    Completions {
        /// The shell that they are for
        shell: Shell,
    },
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
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
            Command::Migrate { flags: DatabaseFlags(flags) } => {
                let (settings, _) = settings::load(&flags, std::env::vars_os())?;
                migrate(&settings.database.direct_url())
            }
            Command::Config { example: true, .. } => print(&settings::example()),
            Command::Config { reference: true, .. } => print(&settings::as_markdown()),
            Command::Config { json, flags, example: false, reference: false } => {
                let (settings, values) = settings::load(&flags, std::env::vars_os())?;
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
            Command::Client(resource) => resource.run(),
            Command::Listen { flags } => listen::run(flags, false),
            Command::Bench { flags } => bench::run(&flags, flags.json),
            Command::Openapi => print(&(posthaste_api::document()? + "\n")),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "posthaste", &mut script);
                print(&String::from_utf8(script)?)
            }
        }
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    stdout::print(text).context("writing to stdout")?;
    Ok(ExitCode::SUCCESS)
}

fn migrate(url: &DatabaseUrl) -> anyhow::Result<ExitCode> {
    let applied = match url {
        DatabaseUrl::Sqlite(path) => sqlite::migrate(path)?,
        DatabaseUrl::Postgres(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("starting the runtime")?.block_on(postgres::migrate(url.expose()))?.applied
        }
    };
    match applied[..] {
        [] => println!("{url}: nothing to do, the schema is current"),
        [only] => println!("{url}: applied migration {only}, the schema is current"),
        [first, .., last] => println!("{url}: applied migrations {first} to {last}, the schema is current"),
    }
    Ok(ExitCode::SUCCESS)
}
