//! What can be typed after `posthaste`.

use crate::database::{DEFAULT_URL, DatabaseUrl};
use anyhow::Context as _;
use clap::{Parser, Subcommand};
use posthaste_store::{postgres, sqlite};

/// Delivers every event to every subscribed webhook, and every order to its broker.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring a database to the schema that this Posthaste needs; safe to run again, and by several at once
    Migrate {
        /// sqlite://<file> or postgres://<user>@<host>/<database>
        #[arg(long, env = "POSTHASTE_DATABASE_URL", hide_env_values = true, default_value = DEFAULT_URL)]
        database_url: DatabaseUrl,
    },
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Migrate { database_url } => migrate(&database_url),
        }
    }
}

fn migrate(url: &DatabaseUrl) -> anyhow::Result<()> {
    let applied = match url {
        DatabaseUrl::Sqlite(path) => sqlite::migrate(path)?,
        DatabaseUrl::Postgres(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("starting the runtime")?.block_on(postgres::migrate(url))?.applied
        }
    };
    match applied[..] {
        [] => println!("{url}: nothing to do, the schema is current"),
        [only] => println!("{url}: applied migration {only}, the schema is current"),
        [first, .., last] => println!("{url}: applied migrations {first} to {last}, the schema is current"),
    }
    Ok(())
}
