//! The `posthaste` binary: settings and wiring. So far it prepares a database.

mod cli;
mod database;

use clap::Parser as _;

fn main() -> anyhow::Result<()> {
    cli::Cli::parse().run()
}
