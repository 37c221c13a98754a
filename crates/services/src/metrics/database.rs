//! The metrics of the connections to a database server, read from the store at each scrape. An embedded engine has no
//! connections, and these metrics are absent.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The connections of one database role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleConnections {
    pub role: &'static str,
    pub idle: usize,
    pub in_use: usize,
    /// The number of calls that wait for a connection.
    pub waiting: usize,
}

/// The state of the connections to the database server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseReading {
    pub connections: Vec<RoleConnections>,
    /// The number of failed attempts to connect, for every reason.
    pub failures: Vec<(&'static str, u64)>,
    /// The number of times that new connections used another host of the database URL than before.
    pub failovers: u64,
}

type Source = Box<dyn Fn() -> DatabaseReading + Send + Sync>;

/// The source of the readings. Clones share it.
#[derive(Clone, Default)]
pub struct DatabaseMeters(Arc<OnceLock<Source>>);

impl fmt::Debug for DatabaseMeters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseMeters").field(&self.0.get().is_some()).finish()
    }
}

impl DatabaseMeters {
    /// Sets the source, which is called at each scrape. The first one is kept.
    pub fn read_from(&self, source: impl Fn() -> DatabaseReading + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(source));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleState {
    role: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl Collector for DatabaseMeters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(source) = self.0.get() else { return Ok(()) };
        let DatabaseReading { connections, failures, failovers } = source();
        let help = "Pooled database connections by role: idle, in use, or awaited by a call";
        let mut family = encoder.encode_descriptor("database_connections", help, None, MetricType::Gauge)?;
        for RoleConnections { role, idle, in_use, waiting } in connections {
            for (state, count) in [("idle", idle), ("in_use", in_use), ("waiting", waiting)] {
                let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&RoleState { role, state })?)?;
            }
        }
        let (name, help) = ("database_connect_failures", "Failed attempts to connect to the database server");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (reason, count) in failures {
            ConstCounter::new(count).encode(family.encode_family(&Reason { reason })?)?;
        }
        let help = "Moves of new connections to another host of the database URL";
        let counter = ConstCounter::new(failovers);
        let encoder = encoder.encode_descriptor("database_failovers", help, None, MetricType::Counter)?;
        counter.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn shown(metrics: &Metrics) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry).expect("text");
        let lines = text.lines().filter(|line| line.starts_with("posthaste_database"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn connections_are_read_at_each_scrape() {
        let metrics = Metrics::new();
        assert_eq!(shown(&metrics), [""; 0], "no server, no metrics");
        let failovers = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&failovers);
        metrics.database.read_from(move || DatabaseReading {
            connections: vec![RoleConnections { role: "viewer", idle: 1, in_use: 3, waiting: 2 }],
            failures: vec![("timeout", 7), ("tls", 0)],
            failovers: count.load(Ordering::Relaxed),
        });
        let expected = |failovers: u64| {
            [
                r#"posthaste_database_connections{role="viewer",state="idle"} 1"#.to_owned(),
                r#"posthaste_database_connections{role="viewer",state="in_use"} 3"#.to_owned(),
                r#"posthaste_database_connections{role="viewer",state="waiting"} 2"#.to_owned(),
                r#"posthaste_database_connect_failures_total{reason="timeout"} 7"#.to_owned(),
                r#"posthaste_database_connect_failures_total{reason="tls"} 0"#.to_owned(),
                format!("posthaste_database_failovers_total {failovers}"),
            ]
        };
        assert_eq!(shown(&metrics), expected(0));
        failovers.store(1, Ordering::Relaxed);
        assert_eq!(shown(&metrics), expected(1));
    }
}
