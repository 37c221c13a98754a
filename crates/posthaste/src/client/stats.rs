//! `posthaste stats`: what was done lately, and how much waits.

use super::table::{self, Column};
use super::{Call, Reach};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// How far back it looks
    #[arg(long, value_enum, default_value = "1h")]
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
    ("deliveries that succeeded", "success_ratio"),
    ("attempts that succeeded", "attempt_success_ratio"),
    ("half took at most", "p50"),
    ("9 of 10 took at most", "p90"),
    ("99 of 100 took at most", "p99"),
    ("dead letters", "dead_letters"),
    ("lane to the broker", "lane"),
];

const TOTALS: [Column; 2] = [("COUNTED", "name"), ("IN THE WINDOW", "total")];
const STAGES: [Column; 3] =
    [("WAITS FOR", "stage"), ("HOW MANY", "depth"), ("OLDEST, SECONDS", "oldest_age_s")];

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
    let mut text = table::record(&FIELDS, &in_words(answer));
    let none = Map::new();
    let totals = answer["totals"].as_object().unwrap_or(&none).iter();
    let totals: Vec<Value> = totals.map(|(name, total)| json!({"name": name, "total": total})).collect();
    text.push('\n');
    text.push_str(&table::rows(&TOTALS, &totals));
    let waiting = &answer["waiting"];
    if waiting.is_null() {
        text.push_str("\nwhat waits was not counted yet\n");
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
        "\nheld {}, stuck jobs {}, stuck orders {}; counted at {}\n",
        cell("held"),
        cell("stuck_jobs"),
        cell("stuck_orders"),
        cell("sampled_at")
    ));
    text
}

/// The figures as people say them.
fn in_words(answer: &Value) -> Value {
    let share = |name: &str| match answer[name].as_f64() {
        Some(share) => format!("{:.2} %", share * 100.0).into(),
        None => Value::Null,
    };
    let took = |name: &str| match answer["latency"][name].as_f64() {
        Some(ms) => format!("{ms:.1} ms").into(),
        None => Value::Null,
    };
    let lane = &answer["outbox"];
    let lane = match lane["paused"].as_bool() {
        Some(true) => format!("paused: {}", table::cell(&lane["reason"])),
        Some(false) | None => format!("not paused, {} sends a second at most", table::cell(&lane["rate"])),
    };
    json!({
        "window": answer["window"], "dead_letters": answer["dead_letters"], "lane": lane,
        "success_ratio": share("success_ratio"), "attempt_success_ratio": share("attempt_success_ratio"),
        "p50": took("p50_ms"), "p90": took("p90_ms"), "p99": took("p99_ms"),
    })
}

fn seconds(value: &Value) -> Value {
    value.as_f64().map_or(Value::Null, |seconds| format!("{seconds:.1}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_on_one_page() {
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
            "window                     1h",
            "deliveries that succeeded  99.50 %",
            "attempts that succeeded    -",
            "half took at most          7.6 ms",
            "lane to the broker         paused: refused",
            "events_accepted  12",
            "routing    3         0.2",
            "held 2, stuck jobs 0, stuck orders 0; counted at 2026-01-31T12:00:00Z",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
        assert!(shown(&json!({"waiting": null})).ends_with("not counted yet\n"));
    }
}
