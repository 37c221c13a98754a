//! Sets up logging to stderr, with the format and the filter from the settings.

use crate::settings::{LogFormat, LogSettings};
use anyhow::Context as _;
use std::ffi::OsStr;
use std::io::{IsTerminal as _, stderr};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

/// Installs the global log subscriber.
///
/// # Errors
///
/// Returns an error if a subscriber is already installed.
pub(crate) fn start(log: &LogSettings) -> anyhow::Result<()> {
    // The connection pool logs every broken connection, but the caller already logs the failure once.
    let filter = log.filter.clone().with_target("deadpool", LevelFilter::ERROR);
    let started = match log.format {
        LogFormat::Human => {
            let color = use_color(stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
            registry().with(fmt::layer().with_writer(stderr).with_ansi(color).with_filter(filter)).try_init()
        }
        // One flat object per line. The layer's default timestamp is RFC 3339 in UTC.
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(stderr);
            registry().with(lines.with_filter(filter)).try_init()
        }
    };
    started.context("setting up logging")
}

/// Returns whether log lines are colored. An empty `NO_COLOR` is ignored (<https://no-color.org>).
fn use_color(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_counts_only_if_not_empty() {
        for (is_terminal, no_color, expected) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (true, Some("0"), false),
            (false, None, false),
        ] {
            assert_eq!(use_color(is_terminal, no_color.map(OsStr::new)), expected, "{no_color:?}");
        }
    }
}
