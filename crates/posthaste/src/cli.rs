//! What can be typed after `posthaste`.

use crate::database::DatabaseUrl;
use crate::settings::{self, DatabaseFlags, Flags};
use crate::{logs, serve};
use anyhow::Context as _;
use clap::{Parser, Subcommand};
use posthaste_store::{postgres, sqlite};
use std::io::Write as _;
use std::process::ExitCode;

/// Delivers every event to every subscribed webhook, and every order to its broker.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
        /// A file of settings with the defaults, to start from
        #[arg(long, conflicts_with = "json")]
        example: bool,
        #[command(flatten)]
        flags: Flags,
    },
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
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
            Command::Config { json, flags, example: false } => {
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
        }
    }
}

/// Whoever stops reading, as `head` does, has seen enough: that is no failure.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to stdout")
        }
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
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
