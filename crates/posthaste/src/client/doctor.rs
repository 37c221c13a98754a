//! `posthaste doctor`: runs the server's checks page by page and prints the merged findings.

use super::{ApiClient, Call, Failure, Reach, table};
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

/// The maximum number of pages that are fetched. Protects against a server that returns cursors endlessly.
const PAGES_MAX: usize = 1_000_000;
/// The maximum number of findings shown for one check.
const FINDINGS_MAX: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check only the newest 10,000 events and orders
    #[arg(long)]
    recent: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Doctor {
    /// Runs the checks and prints the findings. Returns exit code 1 if there is a problem.
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        let server = self.reach.server()?;
        let diagnosis = self.fetch(&server).await?;
        let shown = if self.reach.json { format!("{diagnosis}\n") } else { shown(&diagnosis) };
        super::print(&shown)?;
        let healthy = diagnosis["healthy"] == true;
        Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Fetches all pages and merges them.
    async fn fetch(&self, server: &ApiClient) -> Result<Value, Failure> {
        let recent = self.recent.then(|| "true".to_owned());
        let mut call = Call::get("/v1/doctor").query(&[("recent", recent)]);
        let progress = Progress::new(self.reach.json);
        let mut all = json!({"healthy": true, "checks": [], "examined": {}, "pages": 0});
        for _ in 0..PAGES_MAX {
            let (_, page) = server.call_json(&call.clone().required("checks")).await?;
            merge(&mut all, &page);
            let Some(cursor) = page["next_cursor"].as_str() else {
                progress.end();
                return Ok(all);
            };
            let message = format!(
                "{} events and {} orders examined, {} faults",
                examined(&all, "events"),
                examined(&all, "orders"),
                examined(&all, "faults")
            );
            // Pages about orders may follow the pages about events.
            let last = page["last_event_id"].as_u64();
            let place = page["examined_through"].as_u64().or(last).unwrap_or_default();
            progress.at(place, last, &message);
            call = Call::get("/v1/doctor").query(&[("cursor", Some(cursor.to_owned()))]);
        }
        Err(Failure::Local("the server returned too many pages: is this a Posthaste server?".to_owned()))
    }
}

fn examined(all: &Value, name: &str) -> u64 {
    all["examined"][name].as_u64().unwrap_or_default()
}

/// Merges a page into `all`: adds the counts, and keeps the worst status of each check.
fn merge(all: &mut Value, page: &Value) {
    all["healthy"] = (all["healthy"] == true && page["healthy"] == true).into();
    all["server_time"] = page["server_time"].clone();
    all["pages"] = (all["pages"].as_u64().unwrap_or_default() + 1).into();
    for name in ["events", "deliveries", "orders", "undecidable", "faults"] {
        all["examined"][name] = (examined(all, name) + examined(page, name)).into();
    }
    let checks = page["checks"].as_array().cloned().unwrap_or_default();
    let Some(known) = all["checks"].as_array_mut() else { return };
    for check in checks {
        match known.iter_mut().find(|one| one["name"] == check["name"]) {
            None => known.push(check),
            Some(one) => keep_worst(one, &check),
        }
    }
}

/// Replaces a check if `other` is worse. If both are equally severe, appends the findings, up to [`FINDINGS_MAX`].
fn keep_worst(one: &mut Value, other: &Value) {
    let rank = |check: &Value| ["ok", "warning", "problem"].iter().position(|name| check["status"] == *name);
    match (rank(one), rank(other)) {
        (Some(0), Some(0)) => one["found"] = "no problem on any page".into(),
        (before, now) if now > before => *one = other.clone(),
        (before, now) if now == before => {
            let found = one["found"].as_str().unwrap_or_default();
            if found.lines().count() < FINDINGS_MAX {
                one["found"] = format!("{found}\n{}", other["found"].as_str().unwrap_or_default()).into();
            }
        }
        (_, _) => {}
    }
}

/// Formats the findings as text.
fn shown(all: &Value) -> String {
    let mut text = String::new();
    let checks = all["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    for check in checks {
        let found = check["found"].as_str().unwrap_or_default();
        let status = table::cell(&check["status"]);
        let mut name = table::cell(&check["name"]);
        for line in found.lines() {
            text.push_str(&format!("{status:<8} {name:<13} {}\n", table::cell(&line.into())));
            name.clear();
        }
        if let Some(to_do) = check["to_do"].as_str() {
            text.push_str(&format!("{:<22} -> {}\n", "", table::cell(&to_do.into())));
        }
    }
    let problems = checks.iter().filter(|check| check["status"] == "problem").count();
    let warnings = checks.iter().filter(|check| check["status"] == "warning").count();
    let [events, deliveries, orders, undecidable] =
        ["events", "deliveries", "orders", "undecidable"].map(|name| examined(all, name));
    text.push_str(&format!(
        "\nexamined: {events} events, {deliveries} deliveries, {orders} orders; undecidable pairs of event and \
         subscription: {undecidable}\n{}: {}, {}\n",
        if problems == 0 { "healthy" } else { "not healthy" },
        counted(problems, "problem"),
        counted(warnings, "warning")
    ));
    text
}

fn counted(count: usize, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: &str, found: &str, healthy: bool) -> Value {
        json!({
            "healthy": healthy,
            "checks": [{"name": "conservation", "status": status, "found": found, "to_do": null}],
            "examined": {"events": 10, "deliveries": 20, "orders": 0, "undecidable": 1, "faults": 0},
        })
    }

    #[test]
    fn pages_are_merged_by_worst_status_and_sum_of_counts() {
        let mut all = json!({"healthy": true, "checks": [], "examined": {}, "pages": 0});
        for (status, found, healthy) in [
            ("ok", "fine", true),
            ("problem", "event 1 has no delivery", false),
            ("ok", "fine", true),
            ("problem", "event 2 has no delivery", false),
        ] {
            merge(&mut all, &page(status, found, healthy));
        }
        assert_eq!((&all["healthy"], &all["pages"]), (&false.into(), &4.into()));
        assert_eq!((examined(&all, "events"), examined(&all, "undecidable")), (40, 4));
        let text = shown(&all);
        for line in [
            "problem  conservation  event 1 has no delivery",
            "problem                event 2 has no delivery",
            "not healthy: 1 problem, 0 warnings",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
    }
}
