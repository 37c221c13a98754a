//! Checks facts read from the store: whether every event has its deliveries, and whether the system is
//! healthy. Each check describes the finding and the required action. Read-only.

mod egress;
mod history;
mod server;
mod system;

pub use egress::EgressFacts;
pub use history::{PageFindings, examine_page};
pub use server::{ConnectionDemand, SERVER_CHECKS};
pub use system::{ROLES, SystemFacts, examine_system};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Ok,
    /// No data is lost, but the operator should investigate.
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

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    pub found: String,
    /// The action that the operator should take. Empty if none is needed.
    pub to_do: &'static str,
}

/// Formats a count with its noun in the singular or plural.
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
