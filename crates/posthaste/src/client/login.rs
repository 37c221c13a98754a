//! `posthaste login`: checks an API key against its server and stores both in the client profile.

use super::profile::{self, Context, Profile};
use super::reach::{DEFAULT_URL, Environment};
use super::{ApiClient, Call, Failure, Reach, print, prompt};
use crate::settings::Secret;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// The name of the context if none is given.
const DEFAULT_NAME: &str = "default";

pub(super) const HELP: &str = "\
The key is read from --key, POSTHASTE_KEY, a prompt or the first line of stdin. It is stored in
$XDG_CONFIG_HOME/posthaste/config.toml (~/.config by default), which only you can read.

Example:
  posthaste login prod --url https://posthaste.example < key.txt";

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Name of the context [default: the value of --context, or default]
    #[arg(value_parser = profile::parse_name)]
    name: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Login {
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        let profile = Profile::load_default()?;
        let environment = Environment::read();
        let name = self.name.clone().or(self.reach.context.clone()).or(environment.context);
        let name = name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
        // A name from the environment has not been validated yet.
        profile::parse_name(&name).map_err(|why| Failure::Usage(format!("POSTHASTE_CONTEXT: {why}")))?;
        // The URL of a context that the command names is not replaced by that of the environment.
        let known_url = profile.contexts.get(&name).map(|context| context.url.clone());
        let is_named = self.name.is_some() || self.reach.context.is_some();
        let fallbacks = if is_named { [known_url, environment.url] } else { [environment.url, known_url] };
        let url = self.reach.url.clone().into_iter().chain(fallbacks.into_iter().flatten()).next();
        let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let key = match self.reach.key.clone() {
            Some(key) => Some(key),
            None => environment.key.read()?,
        };
        let key = key.map_or_else(|| prompt::read_key().map(Secret::new), Ok)?;
        check(&ApiClient::new(&url, Some(key.expose()))?).await?;
        let profile = Profile::update(|profile| {
            profile.contexts.insert(name.clone(), Context { url: url.clone(), key });
            profile.current = Some(name.clone());
            Ok(())
        })?;
        print(&match self.reach.json {
            true => format!(
                "{}\n",
                json!({"context": name, "url": url, "file": profile.path().display().to_string()})
            ),
            false => format!("logged in to {url}; {name} is now the current context\n"),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Checks that the server accepts the key. Status 403 counts as success: the key is valid, but its role may not read.
async fn check(server: &ApiClient) -> Result<(), Failure> {
    match server.call_json(&Call::get("/v1/system").required("version")).await {
        Ok(_) => Ok(()),
        Err(Failure::Refused { status: 403, problem: Some(_), .. }) => Ok(()),
        Err(failure) => Err(failure),
    }
}
