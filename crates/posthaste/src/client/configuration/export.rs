//! `posthaste subscription export`: fetches all subscriptions and writes those with a uid as a
//! [`document`](super::document).

use super::document;
use crate::client::desired::Stored;
use crate::client::{Failure, Reach, print};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) const HELP: &str = "\
The file has no secrets: a secret header is {\"secret\":true}, and the authentication lacks its secret member. Applied to
the server that it comes from, it changes nothing. For another server, add the secrets as {\"env\":\"NAME\"}.
Subscriptions without a uid are not exported; their ids are listed on stderr.

Example:
  posthaste subscription export subscriptions.json";

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// File to write, or - for stdout [default: -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only subscriptions of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Export {
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        let server = self.reach.server()?;
        let stored = Stored::load(&server, self.tenant.as_deref()).await?;
        let (text, count) = document::text(&stored);
        match self.file.as_deref().filter(|file| *file != Path::new("-")) {
            None => print(&text)?,
            Some(file) => {
                let failed = |error| Failure::Local(format!("cannot write {}: {error}", file.display()));
                std::fs::write(file, text).map_err(failed)?;
                let name = file.display().to_string();
                print(&match self.reach.json {
                    true => format!("{}\n", json!({"file": name, "exported": count})),
                    false => format!("{count} subscriptions are written to {name}\n"),
                })?;
            }
        }
        self.report(&stored.without_uid);
        Ok(ExitCode::SUCCESS)
    }

    /// Lists the subscriptions without a uid on stderr.
    fn report(&self, without_uid: &[i64]) {
        let ids: Vec<String> = without_uid.iter().map(ToString::to_string).collect();
        match (ids.is_empty(), self.reach.json) {
            (true, _) => {}
            (false, true) => eprintln!("{}", json!({"not_exported": without_uid})),
            (false, false) => {
                eprintln!(
                    "posthaste: not exported, because they have no uid: subscriptions {}",
                    ids.join(", ")
                );
            }
        }
    }
}
