//! The `posthaste` binary: command line, settings and wiring. This is the only crate that depends on all the others.

mod bench;
mod cli;
mod client;
mod database;
mod dev;
mod listen;
mod logs;
mod migrate;
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

use std::process::ExitCode;

/// The global allocator. Deliveries allocate small objects on one thread and free them on another. With the system
/// allocator, this took a sixth of all instructions of a process under load.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(&std::env::args_os().collect::<Vec<_>>())
}
