//! Judges what the store tells about itself: whether every event has what it must have, and whether what
//! runs, runs well. Each check says what was found and what to do. It changes nothing.

mod history;
mod system;

pub use history::{PageFindings, examine_page};
pub use system::{ROLES, SystemFacts, examine_system};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Ok,
    /// Nothing is lost; somebody should look.
    Warning,
    Problem,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    pub found: String,
    /// What to do about it; empty if nothing is to be done.
    pub to_do: &'static str,
}

/// So many of something, in words that fit one as well as many.
fn counted(count: u64, one: &str, many: &str) -> String {
    let what = if count == 1 { one } else { many };
    format!("{count} {what}")
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), to_do: "" }
    }

    fn warning(name: &'static str, found: impl Into<String>, to_do: &'static str) -> Self {
        Self { name, status: Status::Warning, found: found.into(), to_do }
    }

    fn problem(name: &'static str, found: impl Into<String>, to_do: &'static str) -> Self {
        Self { name, status: Status::Problem, found: found.into(), to_do }
    }
}
