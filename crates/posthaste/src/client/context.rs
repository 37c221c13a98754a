//! `posthaste context …` and `posthaste logout`: list, select and remove the contexts in the client profile, without
//! calling a server.

use super::profile::{self, Profile};
use super::reach::Environment;
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
    /// Name of the context [env: POSTHASTE_CONTEXT] [default: the current one]
    #[arg(value_parser = profile::parse_name)]
    name: Option<String>,
}

impl ContextCommand {
    pub(crate) fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        match self {
            Self::List => print(&list(&Profile::load_default()?, json))?,
            Self::Use { name } => select(name, json)?,
            Self::Remove { name } => remove(name, json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Logout {
    pub(crate) fn run(&self, json: bool) -> Result<ExitCode, Failure> {
        let current = Profile::load_default()?.current;
        let name = self.name.clone().or(Environment::read().context).or(current);
        let name = name.ok_or_else(|| Failure::Usage("there is no current context: name one".to_owned()))?;
        remove(&name, json)?;
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

fn select(name: &str, json: bool) -> Result<(), Failure> {
    // An unknown name is refused before a directory is created.
    Profile::load_default()?.context(name)?;
    let profile = Profile::update(|profile| {
        profile.context(name)?;
        profile.current = Some(name.to_owned());
        Ok(())
    })?;
    let url = &profile.context(name)?.url;
    print(&match json {
        true => format!("{}\n", json!({"name": name, "url": url, "current": true})),
        false => format!("{name} is now the current context ({url})\n"),
    })
}

fn remove(name: &str, json: bool) -> Result<(), Failure> {
    Profile::load_default()?.context(name)?;
    Profile::update(|profile| {
        profile.context(name)?;
        profile.contexts.remove(name);
        profile.current = profile.current.take().filter(|current| current != name);
        Ok(())
    })?;
    print(&match json {
        true => format!("{}\n", json!({"name": name, "removed": true})),
        false => format!("removed context {name}\n"),
    })
}
