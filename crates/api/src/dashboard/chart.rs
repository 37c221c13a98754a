//! Renders stacked bar charts on the server as SVG. The data comes from `/v1/stats`; adjacent intervals are summed so
//! that each column is wide enough to be visible.

use crate::time::Utc;
use std::time::Duration;

/// The maximum number of columns in a chart.
const COLUMNS: usize = 72;
/// The height of the highest column, in SVG units.
const HEIGHT: i64 = 100;

/// One series of a chart: its name, its color class and one count per interval.
pub(crate) type Series<'a> = (&'static str, &'static str, &'a [i64]);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// The totals as text, for screen readers.
    pub(crate) label: String,
    pub(crate) legend: Vec<(&'static str, &'static str, i64)>,
    pub(crate) columns: Vec<Column>,
    /// The total of the highest column.
    pub(crate) peak: i64,
    pub(crate) column_s: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) x: usize,
    pub(crate) label: String,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) colour: &'static str,
    pub(crate) y: i64,
    pub(crate) height: i64,
}

impl Chart {
    pub(crate) fn of(title: &'static str, from: Utc, interval_s: u32, series: &[Series<'_>]) -> Self {
        let intervals = series.first().map_or(0, |(_, _, numbers)| numbers.len());
        let width = intervals.div_ceil(COLUMNS).max(1);
        let summed: Vec<Vec<i64>> = series
            .iter()
            .map(|(_, _, numbers)| numbers.chunks(width).map(|chunk| chunk.iter().sum()).collect())
            .collect();
        let count = summed.first().map_or(0, Vec::len);
        let height_of = |place: usize| summed.iter().filter_map(|numbers| numbers.get(place)).sum::<i64>();
        let peak = (0..count).map(height_of).max().unwrap_or_default();
        let column_s = width * interval_s as usize;
        let column = |place: usize| {
            let at = from.0.after(Duration::from_secs((place * column_s) as u64));
            let mut label = Utc(at).short();
            let (mut pieces, mut y) = (Vec::new(), HEIGHT);
            for ((name, colour, _), numbers) in series.iter().zip(&summed) {
                let number = numbers.get(place).copied().unwrap_or_default();
                label.push_str(&format!(" · {number} {name}"));
                // Counts above zero are always visible.
                let height = if number > 0 { (number * HEIGHT / peak.max(1)).max(1) } else { 0 };
                if height > 0 {
                    y -= height;
                    pieces.push(Piece { colour, y: y.max(0), height });
                }
            }
            Column { x: place * 10, label, pieces }
        };
        let legend: Vec<_> =
            series.iter().map(|(name, colour, numbers)| (*name, *colour, numbers.iter().sum())).collect();
        let sums: Vec<String> = legend.iter().map(|(name, _, sum)| format!("{sum} {name}")).collect();
        Self {
            title,
            label: format!("{title}: {}", sums.join(", ")),
            legend,
            columns: (0..count).map(column).collect(),
            peak,
            column_s,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.columns.len() * 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::Timestamp;

    #[test]
    fn columns_are_summed_and_small_counts_stay_visible() {
        let from = Utc(Timestamp::from_micros(0));
        let (mut good, mut bad) = (vec![0; 360], vec![0; 360]);
        (good[0], good[4], bad[4]) = (300, 697, 3);
        let chart = Chart::of("Out", from, 10, &[("delivered", "good", &good), ("lost", "bad", &bad)]);
        assert_eq!((chart.columns.len(), chart.width(), chart.peak), (72, 720, 1_000));
        assert_eq!(chart.label, "Out: 997 delivered, 3 lost");
        let first = &chart.columns[0];
        assert_eq!(first.label, "1970-01-01 00:00:00 · 997 delivered · 3 lost");
        let heights: Vec<(i64, i64)> = first.pieces.iter().map(|piece| (piece.y, piece.height)).collect();
        assert_eq!(heights, [(1, 99), (0, 1)]);
        assert_eq!(chart.columns[1].pieces, []);
        assert_eq!(Chart::of("Out", from, 10, &[]).columns, []);
    }
}
