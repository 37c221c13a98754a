//! `posthaste stats`: shows throughput, success rate, latency and backlogs.

use super::table::{self, Column};
use super::{Call, Reach};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Time range up to now
    #[arg(short, long, value_enum, default_value = "1h")]
    window: Window,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Window {
    #[value(name = "1h")]
    Hour,
    #[value(name = "24h")]
    Day,
}

const FIELDS: [Column; 8] = [
    ("window", "window"),
    ("success rate", "success_ratio"),
    ("attempt success rate", "attempt_success_ratio"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("dead letters", "dead_letters"),
    ("broker lane", "lane"),
];

const TOTALS: [Column; 2] = [("COUNTER", "name"), ("TOTAL", "total")];
const STAGES: [Column; 3] = [("STAGE", "stage"), ("BACKLOG", "depth"), ("OLDEST", "oldest_age_s")];

impl Stats {
    pub(super) fn call(&self) -> (Call, &Reach) {
        let window = match self.window {
            Window::Hour => "1h",
            Window::Day => "24h",
        };
        (Call::get("/v1/stats").query(&[("window", Some(window.to_owned()))]).show(shown), &self.reach)
    }
}

fn shown(answer: &Value) -> String {
    let mut text = table::record(&FIELDS, &formatted(answer));
    let none = Map::new();
    let totals = answer["totals"].as_object().unwrap_or(&none).iter();
    let totals: Vec<Value> = totals.map(|(name, total)| json!({"name": name, "total": total})).collect();
    text.push('\n');
    text.push_str(&table::rows(&TOTALS, &totals));
    let waiting = &answer["waiting"];
    if waiting.is_null() {
        text.push_str("\nbacklogs not counted yet\n");
        return text;
    }
    let mut stages = waiting["stages"].as_array().cloned().unwrap_or_default();
    for stage in &mut stages {
        stage["oldest_age_s"] = seconds(&stage["oldest_age_s"]);
    }
    text.push('\n');
    text.push_str(&table::rows(&STAGES, &stages));
    let cell = |name: &str| table::cell(&waiting[name]);
    text.push_str(&format!(
        "\nheld: {}, stuck attempts: {}, stuck orders: {}; counted at {}\n",
        cell("held"),
        cell("stuck_jobs"),
        cell("stuck_orders"),
        cell("sampled_at")
    ));
    text
}

/// Formats the statistics with their units.
fn formatted(answer: &Value) -> Value {
    let percent = |name: &str| match answer[name].as_f64() {
        Some(ratio) => format!("{:.2}%", ratio * 100.0).into(),
        None => Value::Null,
    };
    let latency = |name: &str| match answer["latency"][name].as_f64() {
        Some(ms) => format!("{ms:.1}ms").into(),
        None => Value::Null,
    };
    let lane = &answer["outbox"];
    let lane = match lane["paused"].as_bool() {
        Some(true) => format!("paused: {}", table::cell(&lane["reason"])),
        Some(false) | None => format!("open, at most {} orders per second", table::cell(&lane["rate"])),
    };
    json!({
        "window": answer["window"], "dead_letters": answer["dead_letters"], "lane": lane,
        "success_ratio": percent("success_ratio"), "attempt_success_ratio": percent("attempt_success_ratio"),
        "p50": latency("p50_ms"), "p90": latency("p90_ms"), "p99": latency("p99_ms"),
    })
}

fn seconds(value: &Value) -> Value {
    value.as_f64().map_or(Value::Null, |seconds| format!("{seconds:.1}s").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_labels_and_units() {
        let answer = json!({
            "window": "1h", "totals": {"attempts_ok": 7, "events_accepted": 12}, "success_ratio": 0.995,
            "attempt_success_ratio": null, "latency": {"p50_ms": 7.62, "p90_ms": null, "p99_ms": null},
            "dead_letters": 1, "outbox": {"paused": true, "reason": "refused", "rate": 1000.0},
            "waiting": {
                "sampled_at": "2026-01-31T12:00:00Z", "held": 2, "stuck_jobs": 0, "stuck_orders": 0,
                "stages": [{"stage": "routing", "depth": 3, "oldest_age_s": 0.25}]
            },
        });
        let text = shown(&answer);
        for line in [
            "window                1h",
            "success rate          99.50%",
            "attempt success rate  -",
            "p50                   7.6ms",
            "broker lane           paused: refused",
            "events_accepted  12",
            "routing  3        0.2s",
            "held: 2, stuck attempts: 0, stuck orders: 0; counted at 2026-01-31T12:00:00Z",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
        assert!(shown(&json!({"waiting": null})).ends_with("not counted yet\n"));
    }
}
