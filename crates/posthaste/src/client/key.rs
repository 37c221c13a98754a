//! `posthaste key …`

use super::table::{self, Column};
use super::{Call, Reach};
use clap::{Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key; it is shown once
    Create {
        /// Whose key it is, for people
        name: String,
        /// What it may do: root, admin, operator, viewer, ingest or orders
        role: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// List all keys, without the keys themselves
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Revoke a key, for good
    Revoke {
        /// The key's number, as key list shows it
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
}

const COLUMNS: [Column; 6] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("ROLE", "role"),
    ("CREATED", "created_at"),
    ("LAST USED", "last_used_at"),
    ("REVOKED", "revoked_at"),
];

impl KeyCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        match self {
            Self::Create { name, role, reach } => {
                let fields = [("name", name.as_str().into()), ("role", role.as_str().into())];
                (Call::post("/v1/keys").fields(fields).show(made), reach)
            }
            Self::List { reach } => {
                (Call::get("/v1/keys").list(|answer| table::list(&COLUMNS, "no keys", answer)), reach)
            }
            Self::Revoke { id, reach } => {
                (Call::delete(format!("/v1/keys/{id}")).show(|_| "revoked\n".to_owned()), reach)
            }
        }
    }
}

fn made(answer: &Value) -> String {
    let fields = [("id", "id"), ("name", "name"), ("role", "role"), ("key", "key")];
    table::record(&fields, answer) + "\nKeep the key now: it is not shown again.\n"
}
