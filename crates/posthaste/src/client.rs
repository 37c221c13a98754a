//! The commands that talk to a running Posthaste. Each verb is one [`Call`] of the HTTP API; what came
//! back is printed as it came (`--json`) or as a table for people.

mod call;
mod dead_letter;
mod delivery;
mod event;
mod exchange;
mod failure;
mod input;
mod key;
mod order;
mod outbox;
mod subscription;
mod table;
mod tls;

pub(crate) use call::Call;
pub(crate) use exchange::Server;
pub(crate) use failure::Failure;

use crate::stdout;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::process::ExitCode;

/// More pages than any store has letters for: a server that never ends must not hold us for ever.
const PAGES_MAX: usize = 100_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Send events, and look at them
    #[command(subcommand)]
    Event(event::Verb),
    /// Say which URL gets which events
    #[command(subcommand)]
    Subscription(subscription::Verb),
    /// See what became of events
    #[command(subcommand)]
    Delivery(delivery::Verb),
    /// Look at deliveries that were given up, and make fresh ones from them
    #[command(subcommand)]
    DeadLetter(dead_letter::Verb),
    /// Send orders to the broker, and see what became of them
    #[command(subcommand)]
    Order(order::Verb),
    /// Look at the lane to the broker, and let it go on
    #[command(subcommand)]
    Outbox(outbox::Verb),
    /// Make and revoke API keys
    #[command(subcommand)]
    Key(key::Verb),
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
    /// Print the answer as it came
    #[arg(long, help_heading = "Server")]
    json: bool,
}

impl Resource {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let asked = match self {
            Self::Event(verb) => verb.call(),
            Self::Subscription(verb) => Ok(verb.call()),
            Self::Delivery(verb) => Ok(verb.call()),
            Self::DeadLetter(verb) => Ok(verb.call()),
            Self::Order(verb) => verb.call(),
            Self::Outbox(verb) => Ok(verb.call()),
            Self::Key(verb) => Ok(verb.call()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting the runtime")?;
        let done = asked.and_then(|call| runtime.block_on(perform(call, self.reach())));
        Ok(done.unwrap_or_else(|failure| {
            eprintln!("posthaste: {failure}");
            failure.exit_code()
        }))
    }

    fn reach(&self) -> &Reach {
        match self {
            Self::Event(verb) => verb.reach(),
            Self::Subscription(verb) => verb.reach(),
            Self::Delivery(verb) => verb.reach(),
            Self::DeadLetter(verb) => verb.reach(),
            Self::Order(verb) => verb.reach(),
            Self::Outbox(verb) => verb.reach(),
            Self::Key(verb) => verb.reach(),
        }
    }
}

impl Reach {
    fn server(&self) -> Result<Server, Failure> {
        let filled = |text: &String| !text.is_empty();
        let root_key = || std::env::var("POSTHASTE_ROOT_KEY").ok();
        let key = self.key.clone().filter(filled).or_else(root_key).filter(filled);
        Server::new(&self.url, key.as_deref())
    }
}

async fn perform(mut call: Call, reach: &Reach) -> Result<ExitCode, Failure> {
    let server = reach.server()?;
    for _ in 0..PAGES_MAX {
        let text = server.ask(&call).await?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        // A call that answers nothing has nothing to hand to a program either.
        let shown = match (reach.json, text.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("{}\n", text.trim_end()),
            (false, _) => (call.show)(&answer),
        };
        let not_written = |error| Failure::Local(format!("cannot write to stdout: {error}"));
        stdout::print(&shown).map_err(not_written)?;
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
