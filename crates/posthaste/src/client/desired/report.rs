//! The outcome for each subscription of `posthaste subscription apply` and `posthaste import`, as text or JSON.

use super::Identity;
use crate::client::table;
use serde_json::{Value, json};

/// What was done for a subscription, or would be done in a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Create,
    Change,
    Unchanged,
    Delete,
    /// There is nothing to write for it.
    Skip,
    Fail,
}

impl Outcome {
    const ALL: [Self; 6] =
        [Self::Create, Self::Change, Self::Unchanged, Self::Delete, Self::Skip, Self::Fail];

    const fn word(self, is_dry_run: bool) -> &'static str {
        match (self, is_dry_run) {
            (Self::Create, true) => "create",
            (Self::Change, true) => "change",
            (Self::Delete, true) => "delete",
            (Self::Create, false) => "created",
            (Self::Change, false) => "changed",
            (Self::Delete, false) => "deleted",
            (Self::Unchanged, _) => "unchanged",
            (Self::Skip, _) => "skipped",
            (Self::Fail, _) => "failed",
        }
    }
}

/// The outcome for one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) identity: Identity,
    pub(crate) id: Option<i64>,
    pub(crate) outcome: Outcome,
    /// The names of the fields that differ.
    pub(crate) changed: Vec<&'static str>,
    /// Why it was skipped or failed.
    pub(crate) reason: Option<String>,
    /// Remarks, such as what was not imported.
    pub(crate) notes: Vec<String>,
    /// Whether the URL is verified, if the command was asked to verify it.
    pub(crate) verified: Option<bool>,
}

impl Row {
    pub(crate) const fn new(identity: Identity, outcome: Outcome) -> Self {
        Self {
            identity,
            id: None,
            outcome,
            changed: Vec::new(),
            reason: None,
            notes: Vec::new(),
            verified: None,
        }
    }

    pub(crate) fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    fn json(&self, is_dry_run: bool) -> Value {
        json!({
            "tenant": self.identity.tenant, "uid": self.identity.uid, "subscription_id": self.id,
            "result": self.outcome.word(is_dry_run), "changed": self.changed, "reason": self.reason,
            "notes": self.notes, "verified": self.verified
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) is_dry_run: bool,
    pub(crate) rows: Vec<Row>,
    /// Remarks that do not belong to one subscription.
    pub(crate) notes: Vec<String>,
}

impl Report {
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == outcome).count()
    }

    /// Returns whether everything was done that was asked for.
    pub(crate) fn is_success(&self) -> bool {
        self.rows.iter().all(|row| row.outcome != Outcome::Fail && row.verified != Some(false))
    }

    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| row.json(self.is_dry_run)).collect();
        let mut report = json!({"dry_run": self.is_dry_run, "items": rows, "notes": self.notes});
        for outcome in Outcome::ALL {
            report[outcome.word(false)] = self.count(outcome).into();
        }
        report
    }

    pub(crate) fn text(&self) -> String {
        let mut text = self.table();
        let about = |row: &Row, note: &str| format!("{}: {}\n", row.identity, table::visible(note));
        for row in &self.rows {
            let notes = row.reason.iter().chain(&row.notes);
            text.extend(notes.map(|note| about(row, note)));
        }
        text.extend(self.notes.iter().map(|note| table::visible(note) + "\n"));
        let counts: Vec<String> = Outcome::ALL
            .into_iter()
            .map(|outcome| (outcome, self.count(outcome)))
            // Not every command deletes or skips.
            .filter(|(outcome, count)| *count > 0 || !matches!(outcome, Outcome::Delete | Outcome::Skip))
            .map(|(outcome, count)| format!("{count} {}", outcome.word(self.is_dry_run)))
            .collect();
        let counts = counts.join(", ");
        match self.is_dry_run {
            true => format!("{text}dry run, nothing was written: {counts}\n"),
            false => format!("{text}{counts}\n"),
        }
    }

    fn table(&self) -> String {
        if self.rows.is_empty() {
            return "no subscriptions\n".to_owned();
        }
        let cells = |row: &Row| {
            let mut cells = row.json(self.is_dry_run);
            cells["changed"] = match row.changed.is_empty() {
                true => Value::Null,
                false => row.changed.join(", ").into(),
            };
            cells
        };
        let rows: Vec<Value> = self.rows.iter().map(cells).collect();
        let optional = [("VERIFIED", "verified"), ("CHANGED", "changed")];
        let used = optional.into_iter().filter(|(_, field)| rows.iter().any(|row| !row[field].is_null()));
        let always = [("RESULT", "result"), ("TENANT", "tenant"), ("UID", "uid"), ("ID", "subscription_id")];
        table::rows(&always.into_iter().chain(used).collect::<Vec<_>>(), &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tenant: Option<&str>, uid: &str, outcome: Outcome) -> Row {
        Row::new(Identity { tenant: tenant.map(str::to_owned), uid: uid.to_owned() }, outcome)
    }

    fn report(is_dry_run: bool) -> Report {
        let rows = vec![
            Row { id: Some(7), ..row(Some("acme"), "a", Outcome::Create) },
            Row {
                id: Some(8),
                changed: vec!["event_types", "active"],
                notes: vec!["channels eu".to_owned()],
                ..row(None, "b", Outcome::Change)
            },
            row(Some("acme"), "c", Outcome::Fail).because("Not valid: \u{1b}[31m"),
        ];
        Report { is_dry_run, rows, notes: vec!["a remark".to_owned()] }
    }

    #[test]
    fn rows_reasons_and_counts_are_shown() {
        let expected = "\
RESULT   TENANT  UID  ID  CHANGED
created  acme    a    7   -
changed  -       b    8   event_types, active
failed   acme    c    -   -
b: channels eu
c of tenant acme: Not valid: \u{fffd}[31m
a remark
1 created, 1 changed, 0 unchanged, 1 failed
";
        assert_eq!(report(false).text(), expected);
        let text = report(true).text();
        assert!(text.starts_with("RESULT  TENANT  UID  ID  CHANGED\ncreate  acme "), "{text}");
        assert!(
            text.ends_with("dry run, nothing was written: 1 create, 1 change, 0 unchanged, 1 failed\n"),
            "{text}"
        );
        assert_eq!(
            Report::default().text(),
            "no subscriptions\n0 created, 0 changed, 0 unchanged, 0 failed\n"
        );
    }

    #[test]
    fn json_has_the_same_content() {
        let json = report(false).json();
        assert_eq!((&json["created"], &json["deleted"], &json["failed"]), (&1.into(), &0.into(), &1.into()));
        assert_eq!(json["items"][1]["changed"], json!(["event_types", "active"]));
        assert_eq!(json["items"][2]["result"], "failed");
        assert!(!report(false).is_success());
        let rows = vec![Row { verified: Some(false), ..row(None, "a", Outcome::Create) }];
        assert!(!Report { rows, ..Report::default() }.is_success());
        assert!(Report::default().is_success());
    }
}
