//! Benchmarks: scenarios, load generator, receiver, measured server, throughput ceilings and statistics.
//! `posthaste bench` runs the [`scenario`]s. The benchmark programs of this crate and of the testkit use the
//! same modules. This crate depends on neither the API crate nor the testkit.

pub mod calls;
pub mod ceiling;
pub mod load;
pub mod message;
pub mod receiver;
pub mod report;
pub mod scenario;
pub mod scratch;
pub mod server;
pub mod tally;
pub mod tls;
pub mod wire;

use std::time::Duration;

/// Returns the number that follows `name` on the command line, or `None` if it is missing or not a number.
pub fn argument(name: &str) -> Option<u32> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)?.parse().ok()
}

/// Returns the parsed value of the environment variable `name`, or `default` if it is not set or invalid.
pub fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns `count` divided by the median of `times`, as a rate per second.
pub fn median_rate(count: u32, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    f64::from(count) / median.as_secs_f64()
}
