//! Shows the progress of long commands on stderr: a bar on a terminal, plain lines elsewhere. Only the result is
//! written to stdout.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

/// The interval between two frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

#[derive(Debug)]
pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines,
    /// No progress: with `--json`, stderr contains only problem details.
    Silent,
}

impl Progress {
    /// Creates a progress bar if stderr is a terminal. Otherwise, progress is printed as lines, or not at all if
    /// `is_silent`.
    pub(crate) fn new(is_silent: bool) -> Self {
        if !std::io::stderr().is_terminal() {
            return if is_silent { Self::Silent } else { Self::Lines };
        }
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    /// Shows a message and the position, relative to the total `of` if it is known.
    pub(crate) fn at(&self, place: u64, of: Option<u64>, message: &str) {
        let message = message.trim_end();
        match (self, of) {
            (Self::Bar(bar), Some(of)) => {
                let form = "{bar:30} {percent}% {msg}";
                bar.set_style(
                    ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                bar.set_length(of.max(place));
                bar.set_position(place);
                bar.set_message(message.to_owned());
            }
            (Self::Bar(bar), None) => bar.set_message(message.to_owned()),
            (Self::Lines, Some(of)) => eprintln!("{place} of {of}: {message}"),
            (Self::Lines, None) => eprintln!("{message}"),
            (Self::Silent, _) => {}
        }
    }

    /// Returns whether progress is shown as a bar, which may be updated often. Lines would accumulate.
    pub(crate) const fn is_bar(&self) -> bool {
        matches!(self, Self::Bar(_))
    }

    /// Removes the bar.
    pub(crate) fn end(self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines | Self::Silent => {}
        }
    }
}
