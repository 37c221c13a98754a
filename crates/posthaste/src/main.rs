//! The `posthaste` binary: settings and wiring, the one place that knows all the other crates.

mod bench;
mod cli;
mod client;
mod database;
mod dev;
mod duration;
mod listen;
mod logs;
mod network;
mod postgres_login;
mod private_file;
mod progress;
mod random;
mod serve;
mod settings;
mod signals;
mod stdout;
mod toml_text;

use clap::Parser as _;
use std::process::ExitCode;

/// Small things are made on one thread and dropped on another all day: with the system's allocator that
/// was a sixth of all instructions of a process that delivers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            // The whole chain on one line: what was tried, and why it failed.
            eprintln!("posthaste: {error:#}");
            ExitCode::FAILURE
        }
    }
}
