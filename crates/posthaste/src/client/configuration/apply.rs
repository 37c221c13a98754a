//! `posthaste subscription apply`: reads a [`document`](super::document), compares it with the subscriptions of the
//! server, and writes the differences. Everything that can be checked is checked before the first write.

use super::document;
use crate::client::desired::{Desired, Identity, Outcome, Report, Secrets, Stored, Undescribed, Writer};
use crate::client::{ApiClient, Failure, Reach, input, print};
use crate::progress::Progress;
use clap::Args;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) const HELP: &str = "\
The file is {\"subscriptions\":[…]}, as `posthaste subscription export` writes it. Each entry has uid, callback_url and
event_types, and optionally tenant and the other fields of PUT /v1/subscriptions/uid/{uid}; an absent field gets its
default. {\"env\":\"NAME\"} in place of secret, signing_key, a header value or the secret member of auth is replaced by
that environment variable, so that the file contains no secrets.

Secrets cannot be read from a server, so they are not compared. They are sent when a subscription, a header or the
authentication is created, and with --write-secrets always.

--prune deletes the subscriptions with a uid that are not in the file, only within the tenants that appear in the file
(no tenant counts as one), or within the tenant of --tenant. Subscriptions without a uid are never changed. Nothing is
deleted if an entry fails.

The file is checked completely before the first write. A subscription that another request changes meanwhile is left as
it is, and the exit code is 1.

Example:
  posthaste subscription apply subscriptions.json --dry-run";

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// File to read, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show what would be written without writing it
    #[arg(long)]
    dry_run: bool,
    /// Delete subscriptions with a uid that are not in the file, within its tenants or that of --tenant
    #[arg(long)]
    prune: bool,
    /// Tenant of all entries; an entry with another tenant is an error
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Send the secrets of subscriptions that exist as well
    #[arg(long)]
    write_secrets: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Apply {
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        let text = match self.file == Path::new("-") {
            true => input::from_stdin("the subscriptions")?,
            false => input::from_file(&self.file)?,
        };
        let variable = |name: &str| std::env::var(name).ok();
        let desired = document::parse(text, self.tenant.as_deref(), &variable)?;
        let server = self.reach.server()?;
        let stored = Stored::load(&server, self.tenant.as_deref()).await?;
        check_secrets(&desired, &stored)?;
        let mut report = Report { is_dry_run: self.dry_run, ..Report::default() };
        let written = self.write(&server, &desired, &stored, &mut report).await;
        print(&match self.reach.json {
            true => format!("{}\n", report.json()),
            false => report.text(),
        })?;
        written?;
        Ok(if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Writes all differences. The outcomes up to an error are in the report.
    async fn write(
        &self,
        server: &ApiClient,
        desired: &[Desired],
        stored: &Stored,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let secrets = if self.write_secrets { Secrets::Write } else { Secrets::Keep };
        let undescribed = Undescribed::Reset;
        let writer = Writer { server, is_dry_run: self.dry_run, undescribed, secrets };
        let progress = Progress::new(true);
        for (place, entry) in desired.iter().enumerate() {
            progress.at(place as u64, Some(desired.len() as u64), &entry.identity.to_string());
            report.rows.push(writer.put(entry, stored.get(&entry.identity)).await?);
        }
        let surplus = if self.prune { surplus(desired, stored, self.tenant.as_deref()) } else { Vec::new() };
        if !surplus.is_empty() && report.count(Outcome::Fail) > 0 {
            let count = surplus.len();
            report.notes.push(format!("not deleted, because an entry failed: {count} subscriptions"));
            return Ok(());
        }
        for (identity, subscription) in surplus {
            report.rows.push(writer.delete(identity, subscription).await?);
        }
        progress.end();
        Ok(())
    }
}

/// Checks that every secret that has to be sent is known.
fn check_secrets(desired: &[Desired], stored: &Stored) -> Result<(), Failure> {
    let missing = desired.iter().flat_map(|entry| {
        let places = entry.missing_secrets(stored.get(&entry.identity));
        places
            .into_iter()
            .map(|place| format!("{}: {place} is required: the server does not have it", entry.identity))
    });
    Failure::refuse(&missing.collect::<Vec<_>>())
}

/// Returns the subscriptions with a uid that are not desired, within the tenants that appear or the given tenant.
fn surplus<'a>(
    desired: &[Desired],
    stored: &'a Stored,
    tenant: Option<&str>,
) -> Vec<(&'a Identity, &'a Value)> {
    let identities: BTreeSet<&Identity> = desired.iter().map(|entry| &entry.identity).collect();
    let appearing: BTreeSet<Option<&str>> =
        identities.iter().map(|identity| identity.tenant.as_deref()).collect();
    let is_in_scope = |identity: &Identity| match tenant {
        Some(tenant) => identity.tenant.as_deref() == Some(tenant),
        None => appearing.contains(&identity.tenant.as_deref()),
    };
    stored.iter().filter(|(identity, _)| is_in_scope(identity) && !identities.contains(identity)).collect()
}
