//! The smallest cluster: a primary and one synchronous standby, which the test promotes.

use super::Cluster;
use crate::private_server::{Flushing, PrivateServer};
use std::time::Instant;
use tokio::task::block_in_place;

const DATABASE: &str = "postgres";

/// A primary and its standby. It fails over once.
#[derive(Debug)]
pub struct StandbyPair {
    primary: PrivateServer,
    standby: PrivateServer,
    is_promoted: bool,
}

impl StandbyPair {
    pub fn start() -> Self {
        let primary = PrivateServer::start_with("primary", Flushing::On, 64);
        let standby = primary.start_standby("standby");
        primary.reload_with("synchronous_standby_names = '*'");
        Self { primary, standby, is_promoted: false }
    }
}

impl Cluster for StandbyPair {
    fn url(&self) -> String {
        self.primary.url_with_standby(&self.standby, DATABASE)
    }

    async fn primary_url(&self) -> String {
        let primary = if self.is_promoted { &self.standby } else { &self.primary };
        primary.admin_url(DATABASE)
    }

    async fn kill_primary(&mut self, _: usize) -> (String, Instant) {
        block_in_place(|| self.primary.kill());
        let ended = Instant::now();
        block_in_place(|| self.standby.promote());
        self.is_promoted = true;
        (format!("the primary (standby promoted after {:.2} s)", ended.elapsed().as_secs_f64()), ended)
    }

    async fn repair(&mut self) {}
}
