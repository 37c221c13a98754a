//! `posthaste system`: shows the running processes and the database.

use super::table::{self, Column};
use super::{Call, Reach};
use clap::Args;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct System {
    #[command(flatten)]
    reach: Reach,
}

const MIB: f64 = 1_048_576.0;

const FIELDS: [Column; 5] = [
    ("version", "version"),
    ("server time", "server_time"),
    ("schema", "schema_version"),
    ("database", "database"),
    ("database size", "size"),
];

const PROCESSES: [Column; 6] = [
    ("PROCESS", "process_id"),
    ("ROLE", "role"),
    ("RUNNING", "running"),
    ("VERSION", "version"),
    ("STARTED", "started_at"),
    ("LAST SEEN", "seen_at"),
];

impl System {
    pub(super) fn call(&self) -> (Call, &Reach) {
        (Call::get("/v1/system").show(shown), &self.reach)
    }
}

fn shown(answer: &Value) -> String {
    let engine = &answer["engine"];
    let mut answer = answer.clone();
    let database = format!("{} {}", table::cell(&engine["name"]), table::cell(&engine["version"]));
    answer["database"] = database.into();
    answer["size"] =
        engine["bytes"].as_f64().map_or(Value::Null, |bytes| json!(format!("{:.1} MiB", bytes / MIB)));
    let processes = answer["processes"].as_array().cloned().unwrap_or_default();
    let text = table::record(&FIELDS, &answer);
    match processes.is_empty() {
        true => format!("{text}\nno process in the last hour\n"),
        false => format!("{text}\n{}", table::rows(&PROCESSES, &processes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_and_processes_are_shown() {
        let answer = json!({
            "version": "0.1.0", "server_time": "2026-01-31T12:00:00Z", "schema_version": 2,
            "engine": {"name": "postgresql", "version": "15.4", "bytes": 104_857_600},
            "processes": [{
                "process_id": "host-1", "role": "router", "version": "0.1.0", "started_at": "a",
                "seen_at": "b", "age_s": 2.0, "running": true
            }]
        });
        let text = shown(&answer);
        for line in [
            "database       postgresql 15.4",
            "database size  100.0 MiB",
            "host-1   router  yes      0.1.0    a        b",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
    }
}
