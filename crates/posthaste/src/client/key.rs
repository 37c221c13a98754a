//! `posthaste key …`: creates, lists and revokes API keys.

use super::table::{self, Column};
use super::{Call, Reach};
use clap::{Subcommand, value_parser};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key, which is shown only once
    #[command(
        after_help = "Examples:\n  posthaste key create shop ingest\n  posthaste key create acme viewer --tenant acme"
    )]
    Create {
        /// Name of the user or program that uses the key
        name: String,
        /// Role: root, admin, operator, viewer, ingest or orders
        role: String,
        /// Tenant whose objects the key may see and change [default: all tenants]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// List all keys, without their secret part
    #[command(after_help = "Example:\n  posthaste key list")]
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// Revoke a key permanently
    #[command(after_help = "Example:\n  posthaste key revoke 3")]
    Revoke {
        /// Id of the key
        #[arg(value_parser = value_parser!(i64).range(1..))]
        id: i64,
        #[command(flatten)]
        reach: Reach,
    },
}

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("ROLE", "role"),
    ("TENANT", "tenant"),
    ("CREATED", "created_at"),
    ("LAST USED", "last_used_at"),
    ("REVOKED", "revoked_at"),
];

impl KeyCommand {
    pub(super) fn call(&self) -> (Call, &Reach) {
        match self {
            Self::Create { name, role, tenant, reach } => {
                let fields = [
                    ("name", name.as_str().into()),
                    ("role", role.as_str().into()),
                    ("tenant", tenant.as_deref().into()),
                ];
                (Call::post("/v1/keys").fields(fields).show(created), reach)
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

fn created(answer: &Value) -> String {
    let fields = [("id", "id"), ("name", "name"), ("role", "role"), ("tenant", "tenant"), ("key", "key")];
    table::record(&fields, answer) + "\nStore the key now: it is not shown again.\n"
}
