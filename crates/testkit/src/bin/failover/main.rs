//! `make failover`: three PostgreSQL servers under Patroni with synchronous replication, whose primary is killed
//! `FAILOVER_ROUNDS` times (default 10) under load.

use posthaste_bench::variable;
use posthaste_testkit::faults::failover;
use posthaste_testkit::faults::failover::patroni::Patroni;

const ROUNDS: usize = 10;

#[tokio::main]
async fn main() {
    let mut cluster = Patroni::start().await;
    failover::run(&mut cluster, variable("FAILOVER_ROUNDS", ROUNDS)).await.conclude();
}
