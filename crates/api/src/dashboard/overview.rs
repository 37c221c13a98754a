//! The overview: current problems with links, then figures and charts for the last hour or day. The data comes from the
//! rollups that all processes update.

use super::chart::Chart;
use super::concerns::{self, Concern};
use super::orders::lane_badge;
use super::page::{Layout, Shown, show as write};
use super::visitor::Visitor;
use crate::query::Query;
use crate::state::Api;
use crate::stats::{self, Stats};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use http::Uri;
use posthaste_core::ports::Stores;

#[derive(Debug, Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    layout: Layout,
    stats: Stats,
    concerns: Vec<Concern>,
    charts: Vec<Chart>,
}

pub(crate) async fn show<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let mut query = Query::of(&uri)?;
    let window = query.take("window");
    query.finish()?;
    let stats = stats::read(&api, window.as_deref().unwrap_or("1h")).await?;
    let concerns = concerns::find(&api, &stats).await?;
    let charts = charts(&stats);
    write(&OverviewPage { layout: Layout::of(visitor, "/"), stats, concerns, charts })
}

/// Formats a duration with two or three significant digits.
pub(super) fn duration_text(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => "0 s".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1_000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

fn charts(stats: &Stats) -> Vec<Chart> {
    let series = |name: &str| stats.series.get(name).map(Vec::as_slice).unwrap_or_default();
    let draw = |title, rows: &[(&'static str, &'static str, &str)]| {
        let rows: Vec<_> = rows.iter().map(|(label, colour, name)| (*label, *colour, series(name))).collect();
        Chart::of(title, stats.from, stats.interval_s, &rows)
    };
    vec![
        draw("Events", &[("accepted", "plain", "events_accepted")]),
        draw(
            "Deliveries",
            &[
                ("delivered", "good", "deliveries_completed"),
                ("retrying", "warn", "deliveries_retried"),
                ("dead-lettered", "bad", "deliveries_dead_lettered"),
            ],
        ),
        draw(
            "Orders",
            &[
                ("sent", "good", "orders_sent"),
                ("retrying", "warn", "orders_retried"),
                ("dead", "bad", "orders_dead"),
            ],
        ),
    ]
}

impl OverviewPage {
    fn total(&self, name: &str) -> i64 {
        self.stats.totals.get(name).copied().unwrap_or_default()
    }

    fn percent(ratio: &Option<f64>) -> String {
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.2}%", ratio * 100.0))
    }

    fn age(seconds: &f64) -> String {
        duration_text(*seconds)
    }

    fn latency(ms: &Option<f64>) -> String {
        ms.map_or_else(|| "–".to_owned(), |ms| duration_text(ms / 1_000.0))
    }

    fn meaning(stage: &str) -> &'static str {
        match stage {
            "routing" => "events to match with subscriptions",
            "admission" => "deliveries due for an attempt",
            "delivery" => "attempts ready to send",
            "results" => "results to apply",
            "outbox" => "orders to send",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::duration_text;

    #[test]
    fn durations_have_two_or_three_digits() {
        let rows = [
            (0.0, "0 s"),
            (0.25, "250 ms"),
            (3.21, "3.2 s"),
            (61.0, "61 s"),
            (600.0, "10 min"),
            (7_300.0, "2 h"),
            (864_000.0, "10 days"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(duration_text(seconds), expected);
        }
    }
}
