//! The system page: processes with their roles, the database and its schema, configuration warnings and the checks of
//! `doctor`. The check of the whole history runs only on request, one page of the history at a time.

use super::form::Form;
use super::page::{Layout, Shown, show as write};
use super::visitor::Visitor;
use crate::doctor::{self, CheckView, Diagnosis};
use crate::state::Api;
use crate::system::{self, ProcessView, System};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use posthaste_core::ports::Stores;

const HERE: &str = "/system";

#[derive(Debug, Template)]
#[template(path = "system.html")]
struct SystemPage {
    layout: Layout,
    system: System,
    schema_needed: u32,
    processes: Vec<Running>,
    warnings: Vec<String>,
    checks: Vec<CheckView>,
}

/// A process with all its roles.
#[derive(Debug)]
struct Running {
    seen: ProcessView,
    roles: Vec<String>,
}

pub(crate) async fn show<S: Stores>(State(api): Api<S>, Extension(visitor): Extension<Visitor>) -> Shown {
    let mut system = system::read(&api).await?;
    let mut checks = doctor::look(&api).await?;
    // The page shows the warnings in a separate section.
    checks.retain(|check| check.name != "settings");
    checks.sort_by_key(|check| std::cmp::Reverse(rank(check.status)));
    write(&SystemPage {
        layout: Layout::of(visitor, HERE),
        processes: by_process(std::mem::take(&mut system.processes)),
        system,
        schema_needed: api.operations.schema_needed,
        warnings: api.operations.warnings.clone(),
        checks,
    })
}

/// Merges the entries of each process, one per role, into one row. `seen` is sorted newest first.
fn by_process(seen: Vec<ProcessView>) -> Vec<Running> {
    let mut found: Vec<Running> = Vec::new();
    for mut one in seen {
        let role = std::mem::take(&mut one.role);
        match found.iter_mut().find(|process| process.seen.process_id == one.process_id) {
            Some(process) => process.roles.push(role),
            None => found.push(Running { seen: one, roles: vec![role] }),
        }
    }
    for process in &mut found {
        process.roles.sort();
    }
    // Sorts running processes first, then by start time, so that rows keep their position when the page refreshes.
    found.sort_by(|one, other| {
        let key = |process: &Running| (!process.seen.running, process.seen.started_at.0);
        key(one).cmp(&key(other)).then_with(|| one.seen.process_id.cmp(&other.seen.process_id))
    });
    found
}

fn rank(status: &str) -> u8 {
    match status {
        "problem" => 2,
        "warning" => 1,
        _ => 0,
    }
}

#[derive(Debug, Template)]
#[template(path = "history.html")]
struct HistoryPage {
    layout: Layout,
    diagnosis: Diagnosis,
    /// The totals of all pages so far.
    sums: Sums,
}

#[derive(Debug)]
struct Sums {
    events: u64,
    deliveries: u64,
    orders: u64,
    undecidable: u64,
    faults: u64,
}

/// Checks one page of the history. The form on the resulting page requests the next one.
pub(crate) async fn check_history<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let cursor = Some(form.get("cursor")).filter(|text| !text.is_empty());
    let diagnosis = doctor::examine(&api, doctor::place(cursor)?, false).await?;
    let before = |name: &str| form.get(name).parse::<u64>().unwrap_or_default();
    let page = &diagnosis.examined;
    let sums = Sums {
        events: before("events").saturating_add(page.events),
        deliveries: before("deliveries").saturating_add(page.deliveries),
        orders: before("orders").saturating_add(page.orders),
        undecidable: before("undecidable").saturating_add(page.undecidable),
        faults: before("faults").saturating_add(page.faults),
    };
    write(&HistoryPage { layout: Layout::of(visitor, HERE), diagnosis, sums })
}

/// Redirects to the system page. A check starts only when its form is submitted.
pub(crate) async fn redirect() -> Response {
    Redirect::to(HERE).into_response()
}

impl HistoryPage {
    /// Returns whether the next page is requested automatically. If faults were found, the check waits until the user
    /// continues.
    fn continues(&self) -> bool {
        self.diagnosis.healthy && self.diagnosis.next_cursor.is_some()
    }

    /// Returns the id of the last examined event and the id of the newest event.
    fn progress(&self) -> (i64, i64) {
        let last = self.diagnosis.last_event_id.unwrap_or_default();
        (self.diagnosis.examined_through.unwrap_or(last), last)
    }
}

impl CheckView {
    /// Returns the CSS class of the status.
    pub(super) fn colour(&self) -> &'static str {
        match self.status {
            "problem" => "bad",
            "warning" => "warn",
            _ => "good",
        }
    }
}

impl System {
    fn engine_name(&self) -> &'static str {
        match self.engine.name {
            "sqlite" => "SQLite",
            "postgresql" => "PostgreSQL",
            other => other,
        }
    }

    fn size(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a size for people")]
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1_048_576.0);
        self.engine.bytes.map_or_else(|| "unknown".to_owned(), mib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Utc;
    use posthaste_core::Timestamp;

    fn seen(process_id: &str, role: &str, started_s: i64, age_s: f64) -> ProcessView {
        ProcessView {
            process_id: process_id.to_owned(),
            role: role.to_owned(),
            version: "0.0.0".to_owned(),
            started_at: Utc(Timestamp::from_micros(started_s * 1_000_000)),
            seen_at: Utc(Timestamp::from_micros(0)),
            age_s,
            running: age_s < 30.0,
        }
    }

    #[test]
    fn roles_are_merged_by_process_and_running_processes_come_first() {
        let found = by_process(vec![
            seen("b", "worker", 7, 1.0),
            seen("offline", "api", 1, 90.0),
            seen("a", "router", 7, 2.0),
            seen("b", "api", 7, 3.0),
        ]);
        let listed: Vec<(&str, String)> =
            found.iter().map(|one| (one.seen.process_id.as_str(), one.roles.join(" "))).collect();
        let expected = [("a", "router"), ("b", "api worker"), ("offline", "api")];
        assert_eq!(listed, expected.map(|(name, roles)| (name, roles.to_owned())));
    }
}
