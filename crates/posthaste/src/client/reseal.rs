//! `posthaste reseal`: encrypts the signing secrets of all subscriptions again, batch by batch. The server has the keys
//! and does the work; this command repeats the call and adds up the results.

use super::{ApiClient, Call, Failure, Reach, table};
use crate::progress::Progress;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) const HELP: &str = "\
Run it after a new key was put in front of POSTHASTE_SECRET_KEY in all processes. Deliveries continue meanwhile. If it
is interrupted, run it again: secrets that are up to date are skipped. The exit code is 1 if a secret cannot be
decrypted, and with --check also if a secret is outdated.

Example:
  posthaste reseal --check";

/// The maximum number of batches. Protects against a server that returns cursors endlessly.
const BATCHES_MAX: usize = 1_000_000;
/// The maximum number of subscriptions that are listed in the text.
const LISTED_MAX: usize = 20;
/// The maximum number of subscriptions whose secrets cannot be decrypted that are kept for the output.
const KEPT_MAX: usize = 10_000;

/// The fields of a response that are counts.
const COUNTS: [&str; 3] = ["examined", "outdated", "resealed"];

#[derive(Debug, Args)]
pub(crate) struct Reseal {
    /// Count the outdated secrets without changing them
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Reseal {
    /// Reseals all batches and prints the result.
    pub(super) async fn run(&self) -> Result<ExitCode, Failure> {
        let server = self.reach.server()?;
        let total = self.reseal(&server).await?;
        let shown = if self.reach.json { format!("{total}\n") } else { shown(&total) };
        super::print(&shown)?;
        Ok(if is_success(&total) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn reseal(&self, server: &ApiClient) -> Result<Value, Failure> {
        let progress = Progress::new(self.reach.json);
        let mut total = json!({
            "dry_run": self.check, "key_id": null, "examined": 0, "outdated": 0, "resealed": 0, "unreadable": [],
            "unreadable_count": 0, "missing_keys": []
        });
        let mut cursor = Value::Null;
        for _ in 0..BATCHES_MAX {
            let fields = [("dry_run", self.check.into()), ("cursor", cursor)];
            let call = Call::post("/v1/subscriptions/reseal-secrets").fields(fields).required("key_id");
            let (_, batch) = server.call_json(&call).await?;
            add(&mut total, &batch)?;
            cursor = batch["next_cursor"].clone();
            if cursor.is_null() {
                progress.end();
                return Ok(total);
            }
            progress.at(0, None, &summary(&total));
        }
        Err(Failure::Local("the server returned too many batches: is this a Posthaste server?".to_owned()))
    }
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_default()
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Adds a batch to the total.
///
/// # Errors
///
/// Returns an error if the batches were encrypted with different keys, because several processes with different
/// settings serve the API.
fn add(total: &mut Value, batch: &Value) -> Result<(), Failure> {
    if !total["key_id"].is_null() && total["key_id"] != batch["key_id"] {
        return Err(Failure::Local(format!(
            "processes of the API encrypt with different keys, {} and {}: give all of them the same \
             POSTHASTE_SECRET_KEY, restart them, and run this command again",
            table::cell(&total["key_id"]),
            table::cell(&batch["key_id"])
        )));
    }
    total["key_id"] = batch["key_id"].clone();
    for name in COUNTS {
        total[name] = (count(total, name) + count(batch, name)).into();
    }
    let unreadable = list(batch, "unreadable");
    total["unreadable_count"] = (count(total, "unreadable_count") + unreadable.len() as u64).into();
    if let Some(kept) = total["unreadable"].as_array_mut() {
        let room = KEPT_MAX.saturating_sub(kept.len());
        kept.extend(unreadable.iter().take(room).cloned());
    }
    if let Some(missing) = total["missing_keys"].as_array_mut() {
        missing.extend(list(batch, "missing_keys").iter().cloned());
        missing.sort_by_key(ToString::to_string);
        missing.dedup();
    }
    Ok(())
}

fn is_success(total: &Value) -> bool {
    let is_done = total["dry_run"] != true || count(total, "outdated") == 0;
    is_done && count(total, "unreadable_count") == 0
}

/// Formats the counts in one line.
fn summary(total: &Value) -> String {
    let [examined, outdated, resealed] = COUNTS.map(|name| count(total, name));
    let key = table::cell(&total["key_id"]);
    let unreadable = count(total, "unreadable_count");
    if total["dry_run"] == true {
        return format!(
            "{examined} subscriptions examined for key {key}: {outdated} outdated, {unreadable} unreadable"
        );
    }
    format!("{examined} subscriptions examined: {resealed} resealed with key {key}, {unreadable} unreadable")
}

/// Formats the result as text.
fn shown(total: &Value) -> String {
    let mut text = summary(total) + "\n";
    let unreadable = list(total, "unreadable");
    for row in unreadable.iter().take(LISTED_MAX) {
        let [id, reason] = ["subscription_id", "reason"].map(|name| table::cell(&row[name]));
        text.push_str(&format!("subscription {id}: {reason}\n"));
    }
    let rest = count(total, "unreadable_count").saturating_sub(unreadable.len().min(LISTED_MAX) as u64);
    if rest > 0 {
        text.push_str(&format!("and {rest} more\n"));
    }
    let missing: Vec<String> = list(total, "missing_keys").iter().map(table::cell).collect();
    if !missing.is_empty() {
        text.push_str(&format!("missing in POSTHASTE_SECRET_KEY: {}\n", missing.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(check: bool) -> Value {
        json!({"dry_run": check, "key_id": null, "unreadable": [], "missing_keys": []})
    }

    fn batch(outdated: u64, unreadable: &[u64]) -> Value {
        let rows: Vec<Value> =
            unreadable.iter().map(|id| json!({"subscription_id": id, "reason": "because"})).collect();
        let missing: &[&str] = if unreadable.is_empty() { &[] } else { &["1f2e3d4c"] };
        json!({
            "key_id": "72cd6e84", "examined": 500, "outdated": outdated, "resealed": outdated, "unreadable": rows,
            "missing_keys": missing
        })
    }

    #[test]
    fn batches_are_added() {
        let mut total = total(false);
        add(&mut total, &batch(500, &[])).unwrap();
        add(&mut total, &batch(3, &[])).unwrap();
        assert_eq!(
            shown(&total),
            "1000 subscriptions examined: 503 resealed with key 72cd6e84, 0 unreadable\n"
        );
        assert!(is_success(&total));
        add(&mut total, &batch(0, &[7, 8])).unwrap();
        add(&mut total, &batch(0, &[9])).unwrap();
        let text = shown(&total);
        for line in ["subscription 9: because", "missing in POSTHASTE_SECRET_KEY: 1f2e3d4c"] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
        assert!(!is_success(&total));
        let many: Vec<u64> = (0..100).collect();
        add(&mut total, &batch(0, &many)).unwrap();
        assert!(shown(&total).contains("\nand 83 more\n"), "{}", shown(&total));
    }

    #[test]
    fn check_fails_while_secrets_are_outdated() {
        let mut total = total(true);
        add(&mut total, &batch(0, &[])).unwrap();
        assert!(is_success(&total));
        add(&mut total, &batch(2, &[])).unwrap();
        assert!(!is_success(&total));
        let expected = "1000 subscriptions examined for key 72cd6e84: 2 outdated, 0 unreadable\n";
        assert_eq!(shown(&total), expected);
    }

    #[test]
    fn different_keys_of_processes_are_noticed() {
        let mut total = total(false);
        add(&mut total, &batch(1, &[])).unwrap();
        let mut other = batch(1, &[]);
        other["key_id"] = "1f2e3d4c".into();
        let failure = add(&mut total, &other).unwrap_err();
        assert!(
            matches!(&failure, Failure::Local(text) if text.contains("72cd6e84 and 1f2e3d4c")),
            "{failure:?}"
        );
    }
}
