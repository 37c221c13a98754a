//! Tests that migrations are refused if they do not match, are serialized between processes, and are completed by the
//! next start after an interruption.

mod columns;
mod filled;
mod fit;
mod postgres_killed;
mod postgres_migrator;
mod postgres_together;
mod previous;
mod rolling;
mod secret_ref;
mod sqlite_killed;
mod sqlite_together;
