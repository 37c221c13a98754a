//! Configuration as code: `posthaste subscription export` writes the subscriptions of a server to a [`document`], and
//! `posthaste subscription apply` makes them as a document describes them.

mod apply;
mod document;
mod export;

use super::subscription::SubscriptionCommand;
use super::{Failure, perform};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionsCommand {
    #[command(flatten)]
    One(SubscriptionCommand),
    /// Write the subscriptions that have a uid to a file or to stdout, as JSON for `apply`
    #[command(after_help = export::HELP)]
    Export(export::Export),
    /// Create and change subscriptions until they are as a file describes them
    #[command(after_help = apply::HELP)]
    Apply(apply::Apply),
}

impl SubscriptionsCommand {
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::One(verb) => {
                let (call, reach) = verb.call();
                perform(call, reach).await
            }
            Self::Export(export) => export.run().await,
            Self::Apply(apply) => apply.run().await,
        }
    }
}
