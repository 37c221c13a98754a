//! Formats the results of a benchmark as a table or as JSON.

use serde_json::{Value, json};
use std::time::Duration;

/// The result of one scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The number of deliveries, events or claims, depending on the scenario.
    pub count: u64,
    pub took: Duration,
    /// The time spent posting messages. `None` if no messages were posted during the measurement.
    pub ingest_took: Option<Duration>,
    pub refused: u64,
    pub repeated: u64,
    pub median_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub memory_mib: Option<f64>,
    pub cpu: Option<Duration>,
}

/// The result of one scenario on one engine, with the ceilings measured in the same run.
#[derive(Debug, Clone)]
pub struct Row {
    pub engine: &'static str,
    pub scenario: &'static str,
    pub about: &'static str,
    pub outcome: Outcome,
    /// The number of direct posts per second, measured just before the scenario. `None` if not measured.
    pub straight: Option<f64>,
    /// The number of deliveries per second of the store without HTTP. `None` if not measured.
    pub store: Option<f64>,
}

impl Row {
    fn per_second(&self) -> Option<f64> {
        let seconds = self.outcome.took.as_secs_f64();
        (self.outcome.count > 0 && seconds > 0.0).then(|| self.outcome.count as f64 / seconds)
    }

    fn share(&self) -> Option<f64> {
        Some(self.per_second()? / self.straight?)
    }

    /// Returns the fraction of the elapsed time that the two ceilings account for, assuming one HTTP exchange and
    /// one pass through the store per delivery.
    fn efficiency(&self) -> Option<f64> {
        Some(self.per_second()? * (1.0 / self.straight? + 1.0 / self.store?))
    }

    fn cpu_share(&self) -> Option<f64> {
        Some(self.outcome.cpu?.as_secs_f64() / self.outcome.took.as_secs_f64())
    }

    fn cells(&self) -> [String; 11] {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let outcome = &self.outcome;
        [
            self.engine.to_owned(),
            self.scenario.to_owned(),
            number(self.per_second(), 0),
            number(self.straight, 0),
            number(self.share(), 3),
            number(self.efficiency(), 2),
            number(outcome.median_ms, 1),
            number(outcome.p99_ms, 1),
            number(outcome.memory_mib, 0),
            number(self.cpu_share(), 3),
            outcome.repeated.to_string(),
        ]
    }

    pub fn json(&self) -> Value {
        let outcome = &self.outcome;
        json!({
            "engine": self.engine,
            "scenario": self.scenario,
            "about": self.about,
            "count": outcome.count,
            "seconds": outcome.took.as_secs_f64(),
            "ingest_seconds": outcome.ingest_took.map(|took| took.as_secs_f64()),
            "per_second": self.per_second(),
            "straight_per_second": self.straight,
            "share_of_straight": self.share(),
            "store_per_second": self.store,
            "efficiency": self.efficiency(),
            "median_ms": outcome.median_ms,
            "p99_ms": outcome.p99_ms,
            "memory_mib": outcome.memory_mib,
            "server_cpu_cores": self.cpu_share(),
            "refused": outcome.refused,
            "repeated": outcome.repeated,
        })
    }
}

const HEAD: [&str; 11] = [
    "store",
    "scenario",
    "per second",
    "straight",
    "share",
    "efficiency",
    "p50 ms",
    "p99 ms",
    "MiB",
    "cores",
    "repeated",
];

pub fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 11]> = rows.iter().map(Row::cells).collect();
    let width = |column: usize| {
        let of_rows = cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        of_rows.max(HEAD[column].len())
    };
    let line = |row: &[&str]| {
        let padded = row.iter().enumerate().map(|(column, cell)| match column {
            0 | 1 => format!("{cell:<width$}", width = width(column)),
            _ => format!("{cell:>width$}", width = width(column)),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&HEAD);
    for row in &cells {
        text.push_str(&line(&row.each_ref().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_compared_with_its_ceilings() {
        let outcome = Outcome {
            count: 10_000,
            took: Duration::from_secs(1),
            ingest_took: None,
            refused: 0,
            repeated: 0,
            median_ms: Some(2.0),
            p99_ms: None,
            memory_mib: None,
            cpu: Some(Duration::from_millis(500)),
        };
        let row = Row {
            engine: "sqlite",
            scenario: "one",
            about: "",
            outcome,
            straight: Some(40_000.0),
            store: Some(20_000.0),
        };
        let json = row.json();
        assert_eq!(json["share_of_straight"], 0.25);
        assert!((json["efficiency"].as_f64().expect("a number") - 0.75).abs() < 1e-9);
        let text = table(std::slice::from_ref(&row));
        let [head, line] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(head.len(), line.len());
        for cell in ["sqlite", "10000", "0.250", "0.75", "2.0", "-", "0.500"] {
            assert!(line.split_whitespace().any(|found| found == cell), "{cell} in {line}");
        }
    }
}
