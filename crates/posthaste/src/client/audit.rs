//! `posthaste audit …`: lists changes made by people.

use super::call::{Page, Span};
use super::table::{self, Column};
use super::{Call, Reach};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List changes, newest first
    #[command(
        after_help = "Example:\n  posthaste audit list --action key_created --since 2026-01-31T00:00:00Z"
    )]
    List {
        /// Only changes of this kind, such as subscription_changed or sign_in_failed
        #[arg(long, value_name = "ACTION")]
        action: Option<String>,
        #[command(flatten)]
        span: Span,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
}

const COLUMNS: [Column; 8] = [
    ("ID", "id"),
    ("CREATED", "created_at"),
    ("KEY", "key_name"),
    ("ADDRESS", "client_address"),
    ("ACTION", "action"),
    ("OBJECT", "object"),
    ("BEFORE", "before"),
    ("AFTER", "after"),
];

impl AuditCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        let Self::List { action, span, page, reach } = self;
        let call = Call::get("/v1/audit").query(&[("action", action.clone())]).span(span).page(page);
        (call.show(|answer| table::list(&COLUMNS, "no changes", answer)), reach)
    }
}
