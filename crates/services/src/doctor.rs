//! Checks the facts that the store returns: whether every event has its deliveries, and whether the system is
//! healthy. Each check says what was found and what to do. Read-only.

mod history;
mod system;

pub use history::{PageFindings, examine_page};
pub use system::{ROLES, SystemFacts, examine_system};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Ok,
    /// No data is lost, but an operator should investigate.
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

/// One check with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    pub found: String,
    /// What the operator should do; empty if no action is needed.
    pub to_do: &'static str,
}

/// Formats a count with the singular or plural noun.
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
