//! How far a benchmark is: a bar on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

const BAR: &str = "{prefix:<24} {bar:30} {pos}/{len} {per_sec}";

pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn new(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{what}");
            return Self(None);
        }
        let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(Some(ProgressBar::new(0).with_style(style).with_prefix(what.to_owned())))
    }

    pub(super) fn show(&self, done: u64, of: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(of);
            bar.set_position(done);
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
