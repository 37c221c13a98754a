//! Commands that call a running server. Each command is a [`Call`] to the HTTP API. The response is printed unchanged
//! (`--json`) or as a table.

mod audit;
mod call;
mod configuration;
mod context;
mod dead_letter;
mod delivery;
mod desired;
mod doctor;
mod event;
mod exchange;
mod explain;
mod failure;
mod import;
mod input;
mod json_text;
mod key;
mod login;
mod order;
mod outbox;
mod profile;
mod prompt;
mod reach;
mod reseal;
mod stats;
mod subscription;
mod system;
mod table;
mod tls;

pub(crate) use call::Call;
pub(crate) use context::{ContextCommand, Logout};
pub(crate) use exchange::ApiClient;
pub(crate) use failure::{Failure, problem};
pub(crate) use reach::{JSON, Reach};

use crate::progress::Progress;
use crate::stdout;
use clap::Subcommand;
use serde_json::Value;
use std::io::IsTerminal as _;
use std::process::ExitCode;

/// The maximum number of pages that one command fetches. Protects against a server that returns cursors endlessly.
const PAGES_MAX: usize = 100_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Send, list and show events
    #[command(subcommand, after_help = "Example:\n  posthaste event list --type order.paid")]
    Event(event::EventCommand),
    /// Manage subscriptions: which URL receives which events
    #[command(subcommand, after_help = "Example:\n  posthaste subscription list --state active")]
    Subscription(configuration::SubscriptionsCommand),
    /// List and show deliveries with their attempts
    #[command(subcommand, after_help = "Example:\n  posthaste delivery list --status PendingRetry")]
    Delivery(delivery::DeliveryCommand),
    /// List, show and requeue dead letters
    #[command(subcommand, after_help = "Example:\n  posthaste dead-letter requeue-all --dry-run")]
    DeadLetter(dead_letter::DeadLetterCommand),
    /// Send, list and show orders
    #[command(subcommand, after_help = "Example:\n  posthaste order list --status queued")]
    Order(order::OrderCommand),
    /// Show and resume the broker lane
    #[command(subcommand, after_help = "Example:\n  posthaste outbox show")]
    Outbox(outbox::OutboxCommand),
    /// Create, list and revoke API keys
    #[command(subcommand, after_help = "Example:\n  posthaste key create ci viewer")]
    Key(key::KeyCommand),
    /// List changes made by people
    #[command(subcommand, after_help = "Example:\n  posthaste audit list --limit 10")]
    Audit(audit::AuditCommand),
    /// Import the endpoints of another webhook sender as subscriptions
    #[command(subcommand, after_help = import::HELP)]
    Import(import::ImportCommand),
    /// Explain where an event was routed, and why
    #[command(after_help = "Example:\n  posthaste explain 42")]
    Explain(explain::Explain),
    /// Show throughput, success rate, latency and backlogs
    #[command(after_help = "Example:\n  posthaste stats --window 24h")]
    Stats(stats::Stats),
    /// Show the running processes and the database
    #[command(after_help = "Example:\n  posthaste system")]
    System(system::System),
    /// Check that nothing was lost and that everything runs; exit code 1 if there is a problem
    #[command(after_help = "Example:\n  posthaste doctor --recent")]
    Doctor(doctor::Doctor),
    /// Encrypt the signing secrets of all subscriptions again with the server's first key
    #[command(after_help = reseal::HELP)]
    Reseal(reseal::Reseal),
    /// Store the URL and the API key of a server as a context, and make it the current one
    #[command(after_help = login::HELP)]
    Login(login::Login),
}

impl Resource {
    /// Runs the command to completion.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be sent, is refused, or has an unreadable response.
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::Local(format!("cannot start the runtime: {error}")))?;
        runtime.block_on(self.perform())
    }

    async fn perform(&self) -> Result<ExitCode, Failure> {
        let (call, reach) = match self {
            Self::Event(verb) => verb.call()?,
            Self::Subscription(verb) => return verb.run().await,
            Self::Delivery(verb) => verb.call(),
            Self::DeadLetter(verb) => verb.call(),
            Self::Order(verb) => verb.call()?,
            Self::Outbox(verb) => verb.call(),
            Self::Key(verb) => verb.call(),
            Self::Audit(verb) => verb.call(),
            Self::Explain(explain) => explain.call(),
            Self::Stats(stats) => stats.call(),
            Self::System(system) => system.call(),
            Self::Import(source) => return source.run().await,
            Self::Doctor(doctor) => return doctor.run().await,
            Self::Reseal(reseal) => return reseal.run().await,
            Self::Login(login) => return login.run().await,
        };
        perform(call, reach).await
    }
}

/// Sends a call and the calls that continue it, and prints each response.
async fn perform(mut call: Call, reach: &Reach) -> Result<ExitCode, Failure> {
    let server = reach.server()?;
    // On a terminal, show a running total. Otherwise, print one line per response.
    if let Some(sum) = call.sum.filter(|_| !reach.json && std::io::stdout().is_terminal()) {
        return perform_with_total(call, &server, sum).await;
    }
    for _ in 0..PAGES_MAX {
        let (text, answer) = server.call_json(&call).await?;
        // With --json, print nothing for an empty response.
        let shown = match (reach.json, text.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("{}\n", text.trim_end()),
            (false, _) => (call.show)(&answer),
        };
        print(&shown)?;
        if !(call.succeeded)(&answer) {
            return Ok(ExitCode::FAILURE);
        }
        match (call.next)(&call, &answer) {
            Some(next) => call = next,
            None => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends a call and the calls that continue it, and prints the sum of their responses.
async fn perform_with_total(
    mut call: Call,
    server: &ApiClient,
    sum: fn(&Value, &Value) -> Value,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new(false);
    let mut total = Value::Null;
    for _ in 0..PAGES_MAX {
        let (_, answer) = server.call_json(&call).await?;
        total = sum(&total, &answer);
        let Some(next) = (call.next)(&call, &answer) else { break };
        progress.at(0, None, &(call.show)(&total));
        call = next;
    }
    progress.end();
    print(&(call.show)(&total))?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> Result<(), Failure> {
    stdout::print(text).map_err(|error| Failure::Local(format!("cannot write to stdout: {error}")))
}
