//! The `posthaste` binary: settings and wiring. So far it prepares a database.

mod cli;
mod database;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain on one line: what was tried, and why it failed.
            eprintln!("posthaste: {error:#}");
            ExitCode::FAILURE
        }
    }
}
