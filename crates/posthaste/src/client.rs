//! The commands that talk to a running Posthaste. Each verb is one [`Call`] of the HTTP API; what came
//! back is printed as it came (`--json`) or as a table for people.

mod audit;
mod call;
mod dead_letter;
mod delivery;
mod doctor;
mod event;
mod exchange;
mod explain;
mod failure;
mod input;
mod json_text;
mod key;
mod order;
mod outbox;
mod stats;
mod subscription;
mod system;
mod table;
mod tls;

pub(crate) use call::Call;
pub(crate) use exchange::ApiClient;
pub(crate) use failure::Failure;

use crate::progress::Progress;
use crate::stdout;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::process::ExitCode;

/// More pages than any store has letters for: a server that never ends must not hold us for ever.
const PAGES_MAX: usize = 100_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Send events, and look at them
    #[command(subcommand)]
    Event(event::EventCommand),
    /// Say which URL gets which events
    #[command(subcommand)]
    Subscription(subscription::SubscriptionCommand),
    /// See what became of events
    #[command(subcommand)]
    Delivery(delivery::DeliveryCommand),
    /// Look at deliveries that were given up, and make fresh ones from them
    #[command(subcommand)]
    DeadLetter(dead_letter::DeadLetterCommand),
    /// Send orders to the broker, and see what became of them
    #[command(subcommand)]
    Order(order::OrderCommand),
    /// Look at the lane to the broker, and let it go on
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Make and revoke API keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// See what people changed, when, with which key and from where
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Tell where an event went: what matched, what did not and why, and what became of each delivery
    Explain(explain::Explain),
    /// Show what was done in the last hour or day, and how much waits
    Stats(stats::Stats),
    /// Show which processes run, and on which database
    System(system::System),
    /// Prove that nothing was lost, look at what runs, and say what to do; exit code 1 if there is a problem
    Doctor(doctor::Doctor),
}

/// Which server, as whom, and how the answer is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reach {
    /// Where Posthaste listens
    #[arg(long = "url", id = "server_url", env = "POSTHASTE_URL", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:8080", hide_env_values = true, help_heading = "Server")]
    url: String,
    /// The API key, better in the environment; without it that of POSTHASTE_ROOT_KEY
    #[arg(long = "key", id = "server_key", env = "POSTHASTE_KEY", value_name = "KEY")]
    #[arg(hide_env_values = true, help_heading = "Server")]
    key: Option<String>,
    /// Print the answer as it came, as JSON
    #[arg(long, help_heading = "Server")]
    json: bool,
}

impl Resource {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = runtime.context("starting the runtime")?.block_on(self.done());
        Ok(done.unwrap_or_else(|failure| {
            eprintln!("posthaste: {failure}");
            failure.exit_code()
        }))
    }

    async fn done(&self) -> Result<ExitCode, Failure> {
        let (call, reach) = match self {
            Self::Event(verb) => verb.call()?,
            Self::Subscription(verb) => verb.call(),
            Self::Delivery(verb) => verb.call(),
            Self::DeadLetter(verb) => verb.call(),
            Self::Order(verb) => verb.call()?,
            Self::Outbox(verb) => verb.call(),
            Self::Key(verb) => verb.call(),
            Self::Audit(verb) => verb.call(),
            Self::Explain(explain) => explain.call(),
            Self::Stats(stats) => stats.call(),
            Self::System(system) => system.call(),
            Self::Doctor(doctor) => return doctor.run().await,
        };
        perform(call, reach).await
    }
}

impl Reach {
    fn server(&self) -> Result<ApiClient, Failure> {
        let filled = |text: &String| !text.is_empty();
        let root_key = || std::env::var("POSTHASTE_ROOT_KEY").ok();
        let key = self.key.clone().filter(filled).or_else(root_key).filter(filled);
        ApiClient::new(&self.url, key.as_deref())
    }
}

async fn perform(mut call: Call, reach: &Reach) -> Result<ExitCode, Failure> {
    let server = reach.server()?;
    // People who watch see the sum grow, and then the sum; a file gets a line for each part.
    if let Some(sum) = call.sum.filter(|_| !reach.json && std::io::stdout().is_terminal()) {
        return summed_up(call, &server, sum).await;
    }
    for _ in 0..PAGES_MAX {
        let (text, answer) = server.call_json(&call).await?;
        // A call that answers nothing has nothing to hand to a program either.
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

async fn summed_up(
    mut call: Call,
    server: &ApiClient,
    sum: fn(&Value, &Value) -> Value,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new();
    let mut all = Value::Null;
    for _ in 0..PAGES_MAX {
        let (_, answer) = server.call_json(&call).await?;
        all = sum(&all, &answer);
        let Some(next) = (call.next)(&call, &answer) else { break };
        progress.at(0, None, &(call.show)(&all));
        call = next;
    }
    progress.end();
    print(&(call.show)(&all))?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> Result<(), Failure> {
    stdout::print(text).map_err(|error| Failure::Local(format!("cannot write to stdout: {error}")))
}
