//! How long work is going: a bar on a terminal, plain lines elsewhere. All of it goes to stderr, so that
//! stdout holds the answer alone.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(120);

#[derive(Debug)]
pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    pub(crate) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    /// How far it has come, of how much if that is known.
    pub(crate) fn at(&self, place: u64, of: Option<u64>, told: &str) {
        let told = told.trim_end();
        match (self, of) {
            (Self::Bar(bar), Some(of)) => {
                let form = "{bar:30} {percent}% {msg}";
                bar.set_style(
                    ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                bar.set_length(of.max(place));
                bar.set_position(place);
                bar.set_message(told.to_owned());
            }
            (Self::Bar(bar), None) => bar.set_message(told.to_owned()),
            (Self::Lines, Some(of)) => eprintln!("{place} of {of}: {told}"),
            (Self::Lines, None) => eprintln!("{told}"),
        }
    }

    /// Whether it can be told often; lines would only add up.
    pub(crate) const fn is_bar(&self) -> bool {
        matches!(self, Self::Bar(_))
    }

    pub(crate) fn end(self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines => {}
        }
    }
}
