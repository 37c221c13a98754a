//! Formats the medians of the measured rounds as a table or as JSON.

use posthaste_testkit::proxy::Counts;
use posthaste_testkit::stages::Stage;
use serde_json::{Value, json};
use std::fmt::Write as _;

const STAGES: usize = Stage::ALL.len();

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) deliveries: u32,
    pub(crate) stages: [Cost; STAGES],
    pub(crate) database_ns: u64,
    pub(crate) process_ns: u64,
    pub(crate) writer_ns: Option<u64>,
    pub(crate) background_ns: Option<u64>,
    pub(crate) log_bytes: Option<u64>,
}

/// Counts from the proxy and the server, as totals over `batches`.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) batches: u32,
    pub(crate) stages: [Counts; STAGES],
    pub(crate) commits: u64,
    pub(crate) flushes_per_batch: f64,
}

#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) engine: &'static str,
    pub(crate) batch: u32,
    pub(crate) rounds: Vec<Round>,
    pub(crate) counted: Option<Counted>,
}

impl Round {
    fn a_row(&self, sum: u64) -> f64 {
        sum as f64 / f64::from(self.deliveries)
    }

    fn delivery(&self) -> Cost {
        self.stages.iter().fold(Cost::default(), |sum, stage| Cost {
            wall_ns: sum.wall_ns + stage.wall_ns,
            cpu_ns: sum.cpu_ns + stage.cpu_ns,
        })
    }
}

impl Figures {
    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        let mut figures: Vec<f64> = self.rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let (below, above) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        f64::midpoint(below, above)
    }

    /// Returns the wall time and the CPU time of a stage, in microseconds per row.
    fn stage_us(&self, stage: usize) -> (f64, f64) {
        let wall = self.median(|round| round.a_row(round.stages[stage].wall_ns) / 1e3);
        (wall, self.median(|round| round.a_row(round.stages[stage].cpu_ns) / 1e3))
    }

    fn delivery_us(&self) -> (f64, f64) {
        let wall = self.median(|round| round.a_row(round.delivery().wall_ns) / 1e3);
        (wall, self.median(|round| round.a_row(round.delivery().cpu_ns) / 1e3))
    }

    /// Returns the cost of a whole delivery divided by that of inserting one event, as wall time and CPU time.
    fn ratio(&self) -> (f64, f64) {
        let insert = |round: &Round| round.stages[0];
        let wall = self.median(|round| round.delivery().wall_ns as f64 / insert(round).wall_ns as f64);
        (wall, self.median(|round| round.delivery().cpu_ns as f64 / insert(round).cpu_ns as f64))
    }

    fn optional_us(&self, figure: impl Fn(&Round) -> Option<u64>) -> Option<f64> {
        figure(&self.rounds[0])?;
        Some(self.median(|round| round.a_row(figure(round).unwrap_or(0)) / 1e3))
    }

    /// Returns the CPU time of the calling process per delivery in microseconds, excluding the database.
    fn caller_us(&self) -> f64 {
        // For an embedded store, `process_ns` includes the database threads.
        let own = |round: &Round| round.writer_ns.map_or(0, |_| round.database_ns);
        self.median(|round| round.a_row(round.process_ns.saturating_sub(own(round))) / 1e3)
    }

    fn log_bytes(&self) -> Option<f64> {
        self.rounds[0].log_bytes?;
        Some(self.median(|round| round.a_row(round.log_bytes.unwrap_or(0))))
    }
}

impl Counted {
    fn a_batch(&self, sum: u64) -> f64 {
        sum as f64 / f64::from(self.batches)
    }

    fn statements(&self) -> f64 {
        self.a_batch(self.stages.iter().map(|counts| counts.statements).sum())
    }

    fn round_trips(&self) -> f64 {
        self.a_batch(self.stages.iter().map(|counts| counts.round_trips).sum())
    }
}

pub(crate) fn table(all: &[Figures]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        write!(text, "{name:<34}").expect("a string");
        for figures in all {
            write!(text, "{:>17}", cell(figures)).expect("a string");
        }
        text.push('\n');
    };
    let pair = |(wall, cpu): (f64, f64)| format!("{wall:.1} / {cpu:.1}");
    let one = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.1}"));
    line("", &|figures| figures.engine.to_owned());
    line("batches of", &|figures| figures.batch.to_string());
    line("µs per row, wall / database CPU", &|_| String::new());
    for (index, stage) in Stage::ALL.into_iter().enumerate() {
        line(&format!("  {}", stage.name()), &|figures| pair(figures.stage_us(index)));
    }
    line("  whole delivery", &|figures| pair(figures.delivery_us()));
    line("delivery / insert of one event", &|figures| pair(figures.ratio()));
    line("CPU µs per delivery", &|_| String::new());
    line("  writer thread", &|figures| one(figures.optional_us(|round| round.writer_ns)));
    line("  WAL writer, checkpointer, …", &|figures| one(figures.optional_us(|round| round.background_ns)));
    line("  caller", &|figures| one(Some(figures.caller_us())));
    line("WAL bytes per delivery", &|figures| one(figures.log_bytes()));
    line("per batch, all stages", &|_| String::new());
    line("  statements", &|figures| one(figures.counted.as_ref().map(Counted::statements)));
    line("  round trips", &|figures| one(figures.counted.as_ref().map(Counted::round_trips)));
    line("  write transactions", &|figures| {
        one(figures.counted.as_ref().map(|counted| counted.a_batch(counted.commits)))
    });
    line("  flushes", &|figures| one(figures.counted.as_ref().map(|counted| counted.flushes_per_batch)));
    line("deliveries measured", &|figures| {
        figures.rounds.iter().map(|round| round.deliveries).sum::<u32>().to_string()
    });
    text
}

pub(crate) fn json(all: &[Figures]) -> Value {
    let cost = |(wall, cpu): (f64, f64)| json!({"wall": wall, "cpu": cpu});
    let runs = all.iter().map(|figures| {
        let stages: serde_json::Map<_, _> = Stage::ALL
            .into_iter()
            .enumerate()
            .map(|(index, stage)| (stage.key().to_owned(), cost(figures.stage_us(index))))
            .collect();
        let counted = figures.counted.as_ref().map(|counted| {
            let stages: serde_json::Map<_, _> = Stage::ALL
                .into_iter()
                .zip(&counted.stages)
                .map(|(stage, counts)| {
                    let statements = counted.a_batch(counts.statements);
                    let round_trips = counted.a_batch(counts.round_trips);
                    (stage.key().to_owned(), json!({"statements": statements, "round_trips": round_trips}))
                })
                .collect();
            json!({
                "stages": stages,
                "statements": counted.statements(),
                "round_trips": counted.round_trips(),
                "writing_transactions": counted.a_batch(counted.commits),
                "flushes": counted.flushes_per_batch,
            })
        });
        json!({
            "engine": figures.engine,
            "batch": figures.batch,
            "rounds": figures.rounds.len(),
            "deliveries": figures.rounds.iter().map(|round| round.deliveries).sum::<u32>(),
            "stages_us": stages,
            "delivery_us": cost(figures.delivery_us()),
            "delivery_per_insert": cost(figures.ratio()),
            "writer_cpu_us": figures.optional_us(|round| round.writer_ns),
            "background_cpu_us": figures.optional_us(|round| round.background_ns),
            "caller_cpu_us": figures.caller_us(),
            "log_bytes": figures.log_bytes(),
            "batch_counts": counted,
        })
    });
    json!({ "runs": runs.collect::<Vec<_>>() })
}
