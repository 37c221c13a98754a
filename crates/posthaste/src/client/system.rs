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

const FIELDS: [Column; 7] = [
    ("version", "version"),
    ("server time", "server_time"),
    ("schema", "schema_version"),
    ("database", "engine"),
    ("database size", "size"),
    ("database host", "host"),
    ("database TLS", "tls"),
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
    let (engine, server) = (&answer["engine"], &answer["database"]);
    let mut shown = answer.clone();
    let name = format!("{} {}", table::cell(&engine["name"]), table::cell(&engine["version"]));
    shown["engine"] = name.into();
    shown["size"] =
        engine["bytes"].as_f64().map_or(Value::Null, |bytes| json!(format!("{:.1} MiB", bytes / MIB)));
    // SQLite has no server, and older servers do not report it.
    if server.is_object() {
        shown["host"] = host(server).into();
        shown["tls"] = tls(&server["tls"]).into();
    }
    let processes = answer["processes"].as_array().cloned().unwrap_or_default();
    let text = table::record(&FIELDS, &shown);
    match processes.is_empty() {
        true => format!("{text}\nno process in the last hour\n"),
        false => format!("{text}\n{}", table::rows(&PROCESSES, &processes)),
    }
}

/// Formats the host of the database server and whether it is the primary.
fn host(server: &Value) -> String {
    let kind = if server["standby"] == true { "standby" } else { "primary" };
    format!("{}:{} ({kind})", table::cell(&server["host"]), table::cell(&server["port"]))
}

/// Formats the encryption of the connection to the database server.
fn tls(tls: &Value) -> String {
    if tls["in_use"] != true {
        return "not in use".to_owned();
    }
    let [version, verified, expires] = ["version", "verified", "expires"].map(|name| table::cell(&tls[name]));
    format!("{version}, verified: {verified}, certificate expires: {expires}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_and_processes_are_shown() {
        let answer = json!({
            "version": "0.1.0", "server_time": "2026-01-31T12:00:00Z", "schema_version": 2,
            "engine": {"name": "postgresql", "version": "15.4", "bytes": 104_857_600},
            "database": {
                "host": "db1", "port": 5432, "standby": false,
                "tls": {"in_use": true, "version": "TLSv1.3", "verified": "host", "expires": "c"}
            },
            "processes": [{
                "process_id": "host-1", "role": "router", "version": "0.1.0", "started_at": "a",
                "seen_at": "b", "age_s": 2.0, "running": true
            }]
        });
        let text = shown(&answer);
        for line in [
            "database       postgresql 15.4",
            "database size  100.0 MiB",
            "database host  db1:5432 (primary)",
            "database TLS   TLSv1.3, verified: host, certificate expires: c",
            "host-1   router  yes      0.1.0    a        b",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
    }

    #[test]
    fn an_embedded_database_has_no_server() {
        let sqlite = json!({"engine": {"name": "sqlite", "version": "3.50.0"}, "database": null});
        assert!(!shown(&sqlite).contains("database host"));
        let plain = json!({
            "engine": {"name": "postgresql", "version": "15.4"},
            "database": {"host": "/run", "port": 5432, "standby": true, "tls": {"in_use": false}}
        });
        let text = shown(&plain);
        for line in ["database host  /run:5432 (standby)", "database TLS   not in use"] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
    }
}
