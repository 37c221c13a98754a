//! `posthaste context …` and `posthaste logout`: list, select and remove the contexts in the client profile, without
//! calling a server.

use super::profile::{self, Profile};
use super::{Failure, print, table};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts
    #[command(after_help = "Example:\n  posthaste context list")]
    List,
    /// Make a context the current one
    #[command(after_help = "Example:\n  posthaste context use prod")]
    Use {
        /// Name of the context
        #[arg(value_parser = profile::parse_name)]
        name: String,
    },
    /// Remove a context with its key
    #[command(after_help = "Example:\n  posthaste context remove prod")]
    Remove {
        /// Name of the context
        #[arg(value_parser = profile::parse_name)]
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// Name of the context [default: the current one]
    #[arg(value_parser = profile::parse_name)]
    name: Option<String>,
}

impl ContextCommand {
    pub(crate) fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        let profile = Profile::load_default()?;
        match self {
            Self::List => print(&list(&profile, json))?,
            Self::Use { name } => select(profile, name, json)?,
            Self::Remove { name } => remove(profile, name, json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Logout {
    pub(crate) fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        let profile = Profile::load_default()?;
        let name = self.name.clone().or_else(|| profile.current.clone());
        let name = name.ok_or_else(|| Failure::Usage("there is no current context: name one".to_owned()))?;
        remove(profile, &name, json)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats all contexts, without their keys.
fn list(profile: &Profile, json: bool) -> String {
    let contexts = profile.contexts.iter().map(|(name, context)| {
        let is_current = profile.current.as_ref() == Some(name);
        json!({"name": name, "url": context.url, "current": is_current})
    });
    let contexts = json!({"items": contexts.collect::<Vec<Value>>()});
    if json {
        return format!("{contexts}\n");
    }
    let columns = [("NAME", "name"), ("URL", "url"), ("CURRENT", "current")];
    table::list(&columns, "no contexts; create one with: posthaste login", &contexts)
}

fn select(mut profile: Profile, name: &str, json: bool) -> Result<(), Failure> {
    let context = profile.contexts.get(name).ok_or_else(|| profile.unknown(name))?;
    let url = context.url.clone();
    profile.current = Some(name.to_owned());
    profile.save()?;
    print(&match json {
        true => format!("{}\n", json!({"name": name, "url": url, "current": true})),
        false => format!("{name} is now the current context ({url})\n"),
    })
}

fn remove(mut profile: Profile, name: &str, json: bool) -> Result<(), Failure> {
    if profile.contexts.remove(name).is_none() {
        return Err(profile.unknown(name));
    }
    profile.current = profile.current.take().filter(|current| current != name);
    profile.save()?;
    print(&match json {
        true => format!("{}\n", json!({"name": name, "removed": true})),
        false => format!("removed context {name}\n"),
    })
}
