//! The metrics `posthaste_build_info` and `process_*`, in a separate registry that `/metrics` appends to the metrics of
//! the services. The values are read from `/proc` at each scrape; if a file is missing, its metrics are omitted.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use std::fmt;
use std::fs;

/// The unit of times in `/proc`, in Hz (`USER_HZ`). Part of the kernel interface: 100 on every architecture that
/// Posthaste is built for.
const CLOCK_TICKS_PER_S: f64 = 100.0;

/// The version, the revision and the engine of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildInfo {
    pub version: &'static str,
    /// The commit that the program was built from, or `unknown`.
    pub revision: &'static str,
    /// The database engine: `sqlite` or `postgresql`.
    pub engine: &'static str,
}

impl BuildInfo {
    /// Returns the build information of this program. The build sets the revision in `POSTHASTE_REVISION`.
    pub const fn of_engine(engine: &'static str) -> Self {
        let revision = match option_env!("POSTHASTE_REVISION") {
            Some(revision) if !revision.is_empty() => revision,
            Some(_) | None => "unknown",
        };
        Self { version: env!("CARGO_PKG_VERSION"), revision, engine }
    }
}

/// Creates a registry with the metrics of this process.
pub(crate) fn process_registry(build: BuildInfo) -> Registry {
    let mut registry = Registry::default();
    let info = Family::<BuildInfo, Gauge>::default();
    info.get_or_create(&build).set(1);
    registry.register(
        "posthaste_build_info",
        "Version, revision and engine of this program; the value is 1",
        info,
    );
    registry.register_collector(Box::new(ProcessCollector { started_s: start_time_s() }));
    registry
}

/// A collector that reads `/proc` at each scrape.
#[derive(Debug)]
struct ProcessCollector {
    started_s: Option<f64>,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(seconds) = stat().as_deref().and_then(cpu_s) {
            let (name, help) = ("process_cpu_seconds", "User and system CPU time of this process in seconds");
            let counter = ConstCounter::new(seconds);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory of this process in bytes",
                memory_bytes(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory of this process in bytes",
                memory_bytes(&status, "VmSize:"),
            ),
            ("process_open_fds", "Number of open file descriptors", open_fds()),
            ("process_max_fds", "Maximum number of open file descriptors", max_fds(&limits)),
            (
                "process_start_time_seconds",
                "Start time of this process in seconds since the Unix epoch",
                self.started_s,
            ),
        ] {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

fn stat() -> Option<String> {
    fs::read_to_string("/proc/self/stat").ok()
}

/// Returns a field of `/proc/self/stat` by its number in proc(5). Skips the program name, field 2, which may contain
/// spaces and parentheses.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// Returns the user and system CPU time, in seconds.
fn cpu_s(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / CLOCK_TICKS_PER_S)
}

/// Returns the start time of this process, in seconds since the Unix epoch.
fn start_time_s() -> Option<f64> {
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot_s: f64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot_s + stat_field(&stat()?, 22)? / CLOCK_TICKS_PER_S)
}

/// Returns a value of `/proc/self/status`, which is given in kB, in bytes.
fn memory_bytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0)
}

/// Returns the number of open file descriptors, excluding the one used to read the directory.
fn open_fds() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}

/// Returns the soft limit on open files, or `None` if it is unlimited.
fn max_fds(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn files_of_proc_are_parsed() {
        let stat =
            "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 4 0 12345 1000 200 18446744073709551615";
        assert_eq!(cpu_s(stat), Some(3.0));
        assert_eq!(stat_field(stat, 22), Some(12345.0));
        assert_eq!(stat_field(stat, 99), None);
        let status = "Name:\ta\nVmSize:\t   20 kB\nVmRSS:\t      8 kB\n";
        assert_eq!(memory_bytes(status, "VmRSS:"), Some(8192.0));
        assert_eq!(memory_bytes(status, "VmSwap:"), None);
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     524288     files\n";
        assert_eq!(max_fds(limits), Some(1024.0));
        assert_eq!(max_fds("Max open files            unlimited     unlimited     files"), None);
    }

    #[test]
    fn this_process_has_every_metric() {
        let mut text = String::new();
        encode(&mut text, &process_registry(BuildInfo::of_engine("sqlite"))).expect("metrics");
        let value = |name: &str| -> f64 {
            let sample = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            sample.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
        };
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_resident_memory_bytes") > 0.0);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 1.0 && value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_start_time_seconds") > 1_700_000_000.0);
        let version = env!("CARGO_PKG_VERSION");
        assert!(text.contains(&format!("posthaste_build_info{{version=\"{version}\"")), "{text}");
        assert!(text.contains("engine=\"sqlite\"} 1\n"), "{text}");
    }
}
