//! `posthaste import …`: reads the endpoints of another webhook sender from a file or from its API, maps them to
//! subscriptions, and writes those by uid, so that a second run changes only what has changed.

mod convoy;
mod csv;
mod mapping;
mod remote;
mod svix;

use super::desired::{Desired, Identity, Outcome, Report, Row, Secrets, Stored, Undescribed, Writer, path};
use super::{ApiClient, Call, Failure, Reach, input, print, table};
use crate::progress::Progress;
use clap::{Args, Subcommand, ValueEnum};
use remote::Remote;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) const HELP: &str = "\
Each endpoint becomes a subscription with a uid, so that a second run creates no duplicates and writes only what
differs. Secrets are sent when a subscription is created and never again, and fields and headers that the endpoint does
not have are kept. What cannot be imported is reported. An endpoint whose requests would differ for its receiver, for
example because of a filter or a header that cannot be imported, is created but not verified: nothing is sent to it
until you have checked it and run `posthaste subscription verify`.

Here, --url is the sender from which to import, and --server is the Posthaste server (also POSTHASTE_URL or a context).

Exit code 0: every endpoint was imported; what was left out of it is reported. 1: an endpoint failed or could not be
verified, or the server does not allow the method of --verification, in which case nothing was written.

Examples:
  posthaste import svix bundle.json --dry-run
  posthaste import csv endpoints.csv";

const SVIX_HELP: &str = "\
The file is [{\"application\":{…},\"endpoints\":[{…}]}]: the ApplicationOut and EndpointOut objects of the Svix API, each
endpoint with its \"secret\" and its \"headers\". The uid or id of the application becomes the tenant, and the uid of
the subscription is svix:APPLICATION:ENDPOINT. Requests carry the headers svix-id, svix-timestamp and svix-signature
with the same secret, so that receivers do not change. Channels, redacted headers, transformations and rate limits are
reported.

Examples:
  posthaste import svix bundle.json --verification asserted
  posthaste import svix --url https://api.eu.svix.com --app acme --dry-run";

const CONVOY_HELP: &str = "\
The file is {\"endpoints\":[…],\"subscriptions\":[…],\"project\":{…}}: what the Convoy API returns for a project. The
owner_id of an endpoint becomes the tenant, and the uid is convoy:PROJECT:SUBSCRIPTION. Requests are signed as the
project is configured, with the same secret. Body and header filters, functions, sources and rate limits are reported.

Examples:
  posthaste import convoy project.json --dry-run
  posthaste import convoy --url https://us.getconvoy.cloud --project 01H0JA5MEES38RRK3HTEJC647K";

const CSV_HELP: &str = "\
The first line names the columns: uid, url and event_types are required; tenant, secret, name, description, signature
and active are optional. Event types are separated by ; or spaces. signature is standard, svix, github, stripe, shopify
or slack; active is true or false. A file with an error is refused as a whole.

Example:
  posthaste import csv endpoints.csv --verification asserted";

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Import the endpoints of Svix applications
    #[command(after_help = SVIX_HELP)]
    Svix {
        #[command(flatten)]
        source: Source,
        /// Only this application, by uid or id; may be repeated [default: all]
        #[arg(long = "app", value_name = "APPLICATION")]
        applications: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Import the subscriptions of a Convoy project
    #[command(after_help = CONVOY_HELP)]
    Convoy {
        #[command(flatten)]
        source: Source,
        /// Id of the project [default: the one in the file]
        #[arg(long, value_name = "PROJECT", required_unless_present = "file")]
        project: Option<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Import endpoints from a CSV file
    #[command(after_help = CSV_HELP)]
    Csv {
        /// File with a line of column names and one line per endpoint
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
}

/// A file, or the API of the sender.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// File with the endpoints [default: read them from --url]
    #[arg(required_unless_present = "source_url", conflicts_with = "source_url")]
    file: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Show what would be written without writing it
    #[arg(long)]
    dry_run: bool,
    /// Verify the URLs of imported subscriptions with this method, which the server must allow; with asserted, you
    /// vouch for them [default: do not verify]
    #[arg(long, value_name = "METHOD")]
    verification: Option<Method>,
    #[command(flatten)]
    reach: Reach,
}

/// A method of verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    // The operator vouches for the URLs. Comments for the documentation would be printed in the help.
    Asserted,
    Challenge,
    Cloudevents,
}

impl Method {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Asserted => "asserted",
            Self::Challenge => "challenge",
            Self::Cloudevents => "cloudevents",
        }
    }
}

/// What is to be imported.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    entries: Vec<Entry>,
    /// What was found but is not imported, with reasons.
    skipped: Vec<(Identity, String)>,
    /// Remarks that do not belong to one endpoint.
    notes: Vec<String>,
}

/// A subscription to import.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    desired: Desired,
    /// What is not imported without changing what the receiver gets, such as a rate limit.
    notes: Vec<String>,
    /// What is not imported although the receiver depends on it, such as a filter.
    gaps: Vec<String>,
}

impl Plan {
    /// Checks that no two entries have the same identity.
    fn checked(self) -> Result<Self, Vec<String>> {
        let mut seen = BTreeSet::new();
        let twice = self.entries.iter().filter(|entry| !seen.insert(&entry.desired.identity));
        let errors: Vec<String> =
            twice.map(|entry| format!("{} appears twice", entry.desired.identity)).collect();
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }
}

impl ImportCommand {
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        let (plan, options) = match self {
            Self::Svix { source, applications, options } => {
                let bundle = match source.remote.client("Svix")? {
                    Some(remote) => svix::fetch(&remote, applications).await?,
                    None => source.read()?,
                };
                (svix::parse(&bundle, applications), options)
            }
            Self::Convoy { source, project, options } => {
                let bundle = match (source.remote.client("Convoy")?, project) {
                    (Some(remote), Some(project)) => convoy::fetch(&remote, project).await?,
                    (Some(_), None) | (None, _) => source.read()?,
                };
                (convoy::parse(&bundle, project.as_deref()), options)
            }
            Self::Csv { file, options } => {
                let text = String::from_utf8(read(file)?);
                let text = text.map_err(|_| Failure::Usage(format!("{} is not UTF-8", file.display())))?;
                (csv::parse(&text), options)
            }
        };
        match plan.and_then(Plan::checked) {
            Ok(plan) => options.import(plan).await,
            Err(errors) => Failure::refuse(&errors).map(|()| ExitCode::FAILURE),
        }
    }
}

impl Source {
    /// Reads the file as JSON.
    fn read(&self) -> Result<Value, Failure> {
        let file =
            self.file.as_deref().ok_or_else(|| Failure::Usage("a file or --url is required".to_owned()))?;
        let invalid = |error| Failure::Usage(format!("{}: it is not JSON: {error}", file.display()));
        serde_json::from_slice(&read(file)?).map_err(invalid)
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = input::from_file(file)?;
    match bytes.len() > input::BYTES_MAX {
        true => {
            Err(Failure::Usage(format!("{} must have at most {} bytes", file.display(), input::BYTES_MAX)))
        }
        false => Ok(bytes),
    }
}

impl Options {
    async fn import(&self, plan: Plan) -> Result<ExitCode, Failure> {
        let server = self.reach.server()?;
        if let Some(method) = self.verification {
            check_method(&server, method).await?;
        }
        let stored = Stored::load(&server, None).await?;
        let mut report = Report { is_dry_run: self.dry_run, notes: plan.notes, ..Report::default() };
        let written = self.write(&server, &plan.entries, &stored, &mut report).await;
        let skipped = plan.skipped.into_iter();
        report.rows.extend(skipped.map(|(identity, why)| Row::new(identity, Outcome::Skip).because(why)));
        print(&match self.reach.json {
            true => format!("{}\n", report.json()),
            false => report.text(),
        })?;
        written?;
        Ok(if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Writes and verifies all entries. The outcomes up to an error are in the report.
    async fn write(
        &self,
        server: &ApiClient,
        entries: &[Entry],
        stored: &Stored,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let (undescribed, secrets) = (Undescribed::Keep, Secrets::Keep);
        let writer = Writer { server, is_dry_run: self.dry_run, undescribed, secrets };
        let progress = Progress::new(true);
        for (place, entry) in entries.iter().enumerate() {
            let identity = &entry.desired.identity;
            progress.at(place as u64, Some(entries.len() as u64), &identity.to_string());
            let mut row = writer.put(&entry.desired, stored.get(identity)).await?;
            let gaps = entry.gaps.iter().chain(&entry.notes);
            row.notes.extend(gaps.map(|what| format!("not imported: {what}")));
            let verified = match (self.verification, self.dry_run) {
                (Some(method), false) => verify(server, method, entry, stored.get(identity), &mut row).await,
                (None, _) | (_, true) => Ok(()),
            };
            // The row is reported also if the server failed meanwhile.
            report.rows.push(row);
            verified?;
        }
        progress.end();
        Ok(())
    }
}

/// Returns whether a subscription that was written is verified, or `None` if it was not written.
async fn is_verified(server: &ApiClient, row: &Row, stored: Option<&Value>) -> Result<Option<bool>, Failure> {
    match row.outcome {
        Outcome::Create => Ok(Some(false)),
        Outcome::Unchanged => Ok(stored.map(|stored| stored["verified"] == true)),
        // A new URL must be verified again.
        Outcome::Change => {
            let call = Call::get(path(&json!({"id": row.id}))?).required("verified");
            Ok(Some(server.call_json(&call).await?.1["verified"] == true))
        }
        Outcome::Delete | Outcome::Skip | Outcome::Fail => Ok(None),
    }
}

/// Verifies the URL of a subscription, unless it is verified already or its receiver would get other requests than
/// before.
async fn verify(
    server: &ApiClient,
    method: Method,
    entry: &Entry,
    stored: Option<&Value>,
    row: &mut Row,
) -> Result<(), Failure> {
    let subscription = json!({"id": row.id});
    match is_verified(server, row, stored).await? {
        None => return Ok(()),
        Some(true) => {
            row.verified = Some(true);
            return Ok(());
        }
        Some(false) if !entry.gaps.is_empty() => {
            row.notes.push(format!(
                "not verified, because the receiver would get other requests than before: check it, then run \
                 `posthaste subscription verify {}`",
                table::cell(&subscription["id"])
            ));
            return Ok(());
        }
        Some(false) => {}
    }
    let call = Call::post(format!("{}/verify", path(&subscription)?));
    let call = call.fields([("method", method.as_str().into())]).required("verified");
    let reason = match server.call_json(&call).await {
        Ok((_, answer)) if answer["verified"] == true => None,
        Ok((_, answer)) => Some(table::cell(&answer["reason"])),
        Err(failure @ Failure::Refused { status: 404 | 409 | 422, problem: Some(_), .. }) => {
            Some(failure.detail())
        }
        Err(failure) => return Err(failure),
    };
    row.verified = Some(reason.is_none());
    row.notes.extend(reason.map(|why| format!("not verified: {why}")));
    Ok(())
}

/// Checks that the server allows a method of verification.
async fn check_method(server: &ApiClient, method: Method) -> Result<(), Failure> {
    let (_, system) = server.call_json(&Call::get("/v1/system").required("version")).await?;
    let allowed: Vec<&str> =
        system["verification_methods"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if allowed.contains(&method.as_str()) {
        return Ok(());
    }
    Err(Failure::Local(format!(
        "nothing was imported: the server does not allow the verification method {}, only {}; add it to \
         POSTHASTE_VERIFICATION_METHODS of the server, or leave out --verification",
        method.as_str(),
        if allowed.is_empty() { "challenge".to_owned() } else { allowed.join(", ") }
    )))
}
