//! The log: lines on stderr, for people or for programs. What is logged is decided where it is logged.

use crate::settings::{LogFormat, LogSettings};
use anyhow::Context as _;
use std::io::{IsTerminal as _, stderr};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

/// Starts the log of this process; once.
pub(crate) fn start(log: &LogSettings) -> anyhow::Result<()> {
    // The pool tells of every connection that broke; whoever wanted to use it tells of it once.
    let filter = log.filter.clone().with_target("deadpool", LevelFilter::ERROR);
    let started = match log.format {
        LogFormat::Human => {
            let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            registry().with(fmt::layer().with_writer(stderr).with_ansi(colour).with_filter(filter)).try_init()
        }
        // One flat object on each line; the time is RFC 3339 in UTC, which is the layer's own way.
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(stderr);
            registry().with(lines.with_filter(filter)).try_init()
        }
    };
    started.context("starting the log")
}
