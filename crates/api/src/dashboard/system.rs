//! What runs and how well: processes with their roles, the database and its schema, what the settings leave
//! open, and what the doctor says of it. The doctor's walk through history goes page by page, and only
//! when somebody asks.

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
    around: Layout,
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
    // These have a place of their own on the page.
    checks.retain(|check| check.name != "settings");
    checks.sort_by_key(|check| std::cmp::Reverse(rank(check.status)));
    write(&SystemPage {
        around: Layout::of(visitor, HERE),
        processes: by_process(std::mem::take(&mut system.processes)),
        system,
        schema_needed: api.operations.schema_needed,
        warnings: api.operations.warnings.clone(),
        checks,
    })
}

/// Each role reports by itself; the newest word of a process stands for it.
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
    // Those that run first, each where it stood before: a page that stays fresh shall not dance.
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
    around: Layout,
    diagnosis: Diagnosis,
    /// Over all pages so far.
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

/// One page of the walk; its form sends for the next one.
pub(crate) async fn walk<S: Stores>(
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
    write(&HistoryPage { around: Layout::of(visitor, HERE), diagnosis, sums })
}

/// A walk is begun by its button only: whoever opens its address begins at the button.
pub(crate) async fn to_the_system() -> Response {
    Redirect::to(HERE).into_response()
}

impl HistoryPage {
    /// What was found stays on the screen until somebody has read it.
    fn goes_on(&self) -> bool {
        self.diagnosis.healthy && self.diagnosis.next_cursor.is_some()
    }

    /// How far the walk is, in events.
    fn place(&self) -> (i64, i64) {
        let last = self.diagnosis.last_event_id.unwrap_or_default();
        (self.diagnosis.examined_through.unwrap_or(last), last)
    }
}

impl CheckView {
    /// How it is coloured.
    pub(super) fn colour(&self) -> &'static str {
        match self.status {
            "problem" => "bad",
            "warning" => "warn",
            _ => "good",
        }
    }
}

impl System {
    fn size(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a size for people")]
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / 1_048_576.0);
        self.engine.bytes.map_or_else(|| "not known".to_owned(), mib)
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
    fn a_process_stands_once_with_its_roles_and_those_that_run_come_first() {
        let found = by_process(vec![
            seen("b", "worker", 7, 1.0),
            seen("gone", "api", 1, 90.0),
            seen("a", "router", 7, 2.0),
            seen("b", "api", 7, 3.0),
        ]);
        let told: Vec<(&str, String)> =
            found.iter().map(|one| (one.seen.process_id.as_str(), one.roles.join(" "))).collect();
        let expected = [("a", "router"), ("b", "api worker"), ("gone", "api")];
        assert_eq!(told, expected.map(|(name, roles)| (name, roles.to_owned())));
    }
}
